import { expect, test } from 'vitest';
import { deadLetterOf, type FailedJob } from '../../src/queue/dead-letter.ts';
import { notification } from './support.ts';

const failed = (fields: Partial<FailedJob>): FailedJob => ({
  data: notification({ id: 'n0' }),
  progress: 0,
  failedReason: '',
  finishedOn: 1_000,
  opts: {},
  ...fields,
});

test('a job that BullMQ gave up is told as stalled, with the attempts that were saved', () => {
  const attempts = [{ at: 1, error: 'timeout' }];
  for (const failedReason of ['job stalled more than allowable limit', 'job started more than allowable limit']) {
    expect(deadLetterOf(failed({ failedReason, progress: { attempts } }), 0)).toMatchObject({
      reason: 'stalled',
      message: failedReason,
      attempts,
    });
  }
});

test('a failure that no outcome foresaw', () => {
  const token = 'ab'.repeat(32);
  expect(deadLetterOf(failed({ failedReason: `cannot send to ${token}` }), 0)).toMatchObject({
    reason: 'attempts-exhausted',
    message: 'cannot send to [redacted]',
    attempts: [],
  });
  expect(deadLetterOf(failed({ failedReason: 'boom', data: { id: 1 } }), 0).reason).toBe('invalid');
});

test('a progress of somebody else’s is none', () => {
  for (const progress of [
    'half',
    true,
    50,
    { dead: 'x' },
    { dead: { reason: 'nonsense', message: '' } },
    { attempts: [1, {}] },
  ]) {
    expect(deadLetterOf(failed({ progress, failedReason: 'boom' }), 0)).toMatchObject({
      reason: 'attempts-exhausted',
      message: 'boom',
      attempts: [],
    });
  }
});

test('the time is that of the failure, else that of the burial', () => {
  expect(deadLetterOf(failed({}), 2_000).deadAt).toBe(1_000);
  const untimed = failed({});
  delete untimed.finishedOn;
  expect(deadLetterOf(untimed, 2_000).deadAt).toBe(2_000);
});
