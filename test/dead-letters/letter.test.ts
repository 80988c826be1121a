import { expect, test } from 'vitest';
import { readProgress } from '../../src/delivery/progress.ts';
import { deadLetterOf, readDeadLetter, replayProgress, type JobFields } from '../../src/dead-letters/letter.ts';
import { readPasses } from '../../src/notification/story.ts';
import { notification } from '../queue/support.ts';

const failed = (fields: Partial<JobFields>): JobFields => ({
  name: 'push',
  data: notification({ id: 'n0' }),
  progress: 0,
  failedReason: '',
  finishedOn: 1_000,
  opts: {},
  timestamp: 0,
  ...fields,
});

test('a job that BullMQ gave up is shown as stalled, with the attempts that were saved', () => {
  const attempts = [{ at: 1, error: 'timeout' }];
  for (const failedReason of ['job stalled more than allowable limit', 'job started more than allowable limit']) {
    expect(deadLetterOf(failed({ failedReason, progress: { attempts } }), 0)).toMatchObject({
      reason: 'stalled',
      message: failedReason,
      attempts,
    });
  }
});

test('a job that BullMQ gave up while it was being sent, under AT_MOST_ONCE, may have been alerted', () => {
  const failedReason = 'job stalled more than allowable limit';
  const reasonOf = (progress: object) => deadLetterOf(failed({ failedReason, progress }), 0).reason;
  expect(reasonOf({ devices: { 'apns#0': 'delivered' }, trying: ['apns#0', 'fcm#1'] })).toBe('ambiguous');
  expect(reasonOf({ devices: { 'apns#0': 'delivered' }, trying: ['apns#0'] })).toBe('stalled');
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

test('the time is that of the failure, else that of the move to the dead letters', () => {
  expect(deadLetterOf(failed({}), 2_000).deadAt).toBe(1_000);
  expect(
    deadLetterOf({ name: 'push', data: {}, progress: 0, failedReason: 'boom', opts: {}, timestamp: 0 }, 2_000).deadAt,
  ).toBe(2_000);
});

test('poison that kills its workers after some devices were alerted keeps which', () => {
  const progress = {
    devices: { 'apns#0': 'delivered', 'fcm#1': 'unregistered', 'apns#3': 'delivered' },
    attempts: [{ at: 1, device: 'fcm#1', error: 'UNREGISTERED' }],
    tries: 1,
  };
  const letter = deadLetterOf(failed({ failedReason: 'job stalled more than allowable limit', progress }), 0);
  expect(letter).toMatchObject({
    reason: 'stalled',
    attempts: progress.attempts,
    delivered: ['apns#0', 'apns#3'],
  });
  expect(readProgress(replayProgress(letter, 0))).toMatchObject({
    devices: { 'apns#0': 'delivered', 'apns#3': 'delivered' },
    attempts: [],
    tries: 0,
  });
  expect(readDeadLetter(JSON.parse(JSON.stringify(letter)), 7_000)).toEqual(letter);
});

test('the story goes on over a death and a replay, also of a job that nobody saw die', () => {
  const pass = { at: 1, worker: 'web-1:7', result: 'deferred', code: 'stalled-before', stalls: 2 };
  const job = failed({
    failedReason: 'job stalled more than allowable limit',
    progress: { passes: [pass], passesLeftOut: 3 },
    opts: { enqueuedBy: 'timetable' },
    timestamp: 500,
  });
  const letter = deadLetterOf(job, 0);
  expect(letter.story).toEqual({ firstEnqueuedAt: 500, enqueuedBy: 'timetable', passes: [pass], passesLeftOut: 3 });
  expect(readDeadLetter(JSON.parse(JSON.stringify(letter)), 7_000)).toEqual(letter);
  const progress = readProgress(replayProgress(letter, 9_000));
  const replayed = { at: 9_000, result: 'replayed', reason: 'stalled', message: letter.message, deadAt: 1_000 };
  expect(readPasses(progress)).toEqual({ passes: [pass, replayed], passesLeftOut: 3 });
  // It dies again: who enqueued it, and when that was, comes from the options of the replay.
  const opts = { enqueuedBy: 'timetable', firstEnqueuedAt: 500, generation: 1 };
  const again = deadLetterOf(failed({ failedReason: 'boom', progress, opts, timestamp: 9_000 }), 0);
  expect(again.story).toMatchObject({ firstEnqueuedAt: 500, passes: [pass, replayed] });
});

test('has no field for what there is nothing of', () => {
  const letter = deadLetterOf(failed({ failedReason: 'boom', progress: { devices: { 'apns#0': 'rejected' } } }), 0);
  expect(Object.keys(letter)).toEqual([
    'notification',
    'reason',
    'message',
    'attempts',
    'deadAt',
    'enqueuedAt',
    'generation',
  ]);
  expect(replayProgress(letter, 0)).toBeUndefined();
});

test('what is no dead letter of a worker is shown as one that is invalid', () => {
  for (const data of [undefined, null, 'text', 42, [], {}, { reason: 'bored', notification: {} }]) {
    expect(readDeadLetter(data, 7_000)).toEqual({
      ...{ notification: data, reason: 'invalid', attempts: [], generation: 0, deadAt: 7_000 },
      message: 'this job in the dead-letter queue was not written by a worker',
    });
  }
  const partly = {
    notification: 1,
    reason: 'stalled',
    deadAt: 1e300,
    attempts: [{ at: 'x' }],
    delivered: [1, 'apns#0'],
  };
  expect(readDeadLetter(partly, 7_000)).toEqual({
    notification: 1,
    reason: 'stalled',
    message: 'stalled',
    attempts: [],
    deadAt: 7_000,
    generation: 0,
    delivered: ['apns#0'],
  });
});
