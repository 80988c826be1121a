import { expect, test } from 'vitest';
import { makeDevice, makeNotification } from '../support/push.ts';
import { openBench, RECIPIENT } from './support.ts';

const background = (fields: Parameters<typeof makeNotification>[0] = {}) =>
  makeNotification({ pushType: 'background', alert: undefined, data: { sync: 'forms' }, ...fields });

test('a background push takes no slot of an alert, and an alert none of its', async () => {
  const { run, limiter, sandbox } = await openBench({ platforms: ['apns'] });
  expect(await run(makeNotification())).toMatchObject({ outcome: { kind: 'delivered' } });
  expect(await run(background())).toMatchObject({ outcome: { kind: 'delivered' } });
  expect(await run(makeNotification())).toMatchObject({ outcome: { kind: 'requeued', rule: 'gap' } });
  expect(await run(background())).toMatchObject({ outcome: { kind: 'delivered' } });
  expect(sandbox.journal.accepted.map(({ pushType }) => pushType)).toEqual(['alert', 'background', 'background']);
  const { sent, reserved } = await limiter.inspect(RECIPIENT);
  expect([sent.length, reserved.length]).toEqual([1, 1]);
});

test('the third one in an hour waits, or is dropped where the producer wants that', async () => {
  const { run, sandbox } = await openBench({ platforms: ['apns'] });
  for (let sent = 0; sent < 2; sent++) await run(background());
  const { outcome } = await run(background());
  expect(outcome).toMatchObject({ kind: 'requeued', rule: '2/1h' });
  expect((outcome as { waitMs: number }).waitMs).toBeGreaterThan(3_500_000);
  expect(await run(background({ onThrottle: 'drop' }))).toMatchObject({ outcome: { kind: 'dropped', rule: '2/1h' } });
  expect(await run(background({ recipientId: 'teacher-43' }))).toMatchObject({ outcome: { kind: 'delivered' } });
  expect(sandbox.journal.accepted).toHaveLength(3);
});

test('each of the two limiters can be blocked for itself', async () => {
  const { run, limiter, backgroundLimiter } = await openBench({ platforms: ['apns'] });
  await limiter.block(RECIPIENT, { until: Date.now() + 600_000, reason: 'on leave' });
  expect(await run(makeNotification())).toMatchObject({ outcome: { kind: 'requeued', rule: 'block' } });
  expect(await run(background())).toMatchObject({ outcome: { kind: 'delivered' } });
  await backgroundLimiter.block(RECIPIENT, { until: Date.now() + 600_000, reason: 'on leave' });
  expect(await run(background())).toMatchObject({ outcome: { kind: 'requeued', rule: 'block' } });
});

test('one that no device took does not count', async () => {
  const { run, sandbox } = await openBench({ platforms: ['apns'] });
  const gone = makeDevice();
  sandbox.setAnswers([{ platform: 'apns', token: gone.token, reason: 'Unregistered' }]);
  for (let tries = 0; tries < 3; tries++) {
    expect(await run(background({ devices: [gone] }))).toMatchObject({ outcome: { reason: 'unregistered' } });
  }
  expect(await run(background())).toMatchObject({ outcome: { kind: 'delivered' } });
});

test('a field that this worker does not know ends it, with what to do', async () => {
  const { run, sandbox } = await openBench({ platforms: ['apns'] });
  const { outcome } = await run({ ...makeNotification(), apns: { volume3d: 1 } });
  expect(outcome).toEqual({
    kind: 'dead-letter',
    reason: 'invalid',
    message:
      'apns.volume3d: expected no such field, found one (if a newer producer knows the field: upgrade the workers, then replay)',
  });
  expect(sandbox.journal.all).toEqual([]);
});
