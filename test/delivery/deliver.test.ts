import { describe, expect, it, test } from 'vitest';
import { shownOf } from '../../sandbox/journal.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import { heldBack, lockOf, none, openBench, RECIPIENT } from './support.ts';

describe('before anything is asked', () => {
  it('without credentials for its platform it waits for a worker that has them, and becomes a dead letter if none comes', async () => {
    const { run, clock } = await openBench({ platforms: ['apns'] });
    const one = makeNotification({ devices: [makeDevice('fcm')] });
    const waits = await run(one);
    expect(waits.outcome).toEqual({ kind: 'deferred', waitMs: 1_000, code: 'no-credentials' });
    expect(waits.progress).toMatchObject({ rule: 'credentials', tries: 0, asks: 0, devices: {} });
    expect(waits.progress.lackedSince).toBeGreaterThan(clock.now() - 1_000);
    for (const hours of [0, 8]) {
      const heldAt = clock.now() - hours * 3_600_000;
      const again = await run(one, { ...none, heldSince: heldAt - 60_000, heldAt }); // by its provider
      expect(again.outcome).toMatchObject({ kind: 'deferred', code: 'no-credentials' });
      expect(again.progress.lackedSince).toBeLessThanOrEqual(clock.now());
    }
    const { outcome, progress } = await run(one, { ...waits.progress, lackedSince: clock.now() - 60_000 });
    const [reason, message] = ['provider-not-configured', 'no credentials for fcm'];
    expect(outcome).toEqual({ kind: 'dead-letter', reason, message });
    expect(progress.attempts).toMatchObject([{ device: 'fcm#0', error: message }]);
  });

  it('a field that this worker does not know ends it, with what to do', async () => {
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
});

describe('several devices', () => {
  it('take one slot, and only the failed one is tried again', async () => {
    const { run, sandbox, limiter } = await openBench();
    const [phone, tablet] = [makeDevice('apns'), makeDevice('fcm')];
    sandbox.fcm.script(tablet.token, [{ kind: 'refuse', status: 503, reason: 'UNAVAILABLE' }]);
    const notification = makeNotification({ devices: [phone, tablet] });
    const first = await run(notification);
    expect(first.outcome).toMatchObject({ kind: 'retried', code: 'UNAVAILABLE' });
    expect(first.progress).toMatchObject({ tries: 1, asks: 1, devices: { 'apns#0': 'delivered' } });
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);

    await limiter.reset(RECIPIENT);
    const second = await run(notification, first.progress);
    expect(second.outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted.map(({ token }) => token)).toEqual([phone.token, tablet.token]);
  });

  it.each(['drop', 'silence'] as const)(
    'that are left wait for the next slot, also with onThrottle "%s"',
    async (onThrottle) => {
      const bench = await openBench();
      const { run, sandbox } = bench;
      const [phone, tablet] = [makeDevice('apns'), makeDevice('fcm')];
      sandbox.fcm.script(tablet.token, [{ kind: 'refuse', status: 503, reason: 'UNAVAILABLE' }]);
      const notification = makeNotification({ devices: [phone, tablet], onThrottle });
      const { progress } = await run(notification);
      expect((await run(notification, progress)).outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
      expect(sandbox.journal.accepted.map(({ token }) => token)).toEqual([phone.token]);
    },
  );

  it('note a failed attempt when it failed, though another device is still under way', async () => {
    const bench = await openBench();
    const { run, sandbox, replies, clock } = bench;
    const [phone, slow] = [makeDevice('apns'), makeDevice('fcm')];
    sandbox.apns.script(phone.token, [{ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' }]);
    const providers = heldBack(bench, 'fcm', async () => {
      await waitFor(() => expect(replies).toHaveLength(1));
      clock.advance(60_000);
    });
    const { progress } = await run(makeNotification({ devices: [phone, slow] }), none, { providers });
    expect(progress.attempts).toMatchObject([{ device: 'apns#0', error: 'ServiceUnavailable' }]);
    expect(progress.attempts[0]?.at).toBeLessThan(clock.now() - 50_000);
  });

  it('are one where the same is listed twice', async () => {
    const { run, sandbox } = await openBench();
    const phone = makeDevice('apns');
    const inCapitals = { ...phone, token: phone.token.toUpperCase() };
    const notification = makeNotification({ devices: [phone, phone, inCapitals] });
    expect((await run(notification)).outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('are delivered where one is gone, which is reported with its time', async () => {
    const { run, sandbox, replies } = await openBench();
    const [phone, old] = [makeDevice(), makeDevice()];
    const timestamp = 1_700_000_000_000;
    sandbox.apns.script(old.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered', timestamp }]);
    const { outcome, progress } = await run(makeNotification({ devices: [phone, old] }));
    expect(outcome).toEqual({ kind: 'delivered' });
    expect(progress.devices).toEqual({ 'apns#0': 'delivered', 'apns#1': 'unregistered' });
    expect(replies.find(({ label }) => label === 'apns#1')?.reply).toMatchObject({ goneSince: timestamp });
  });
});

describe('what was acknowledged', () => {
  it('is saved while another device is under way', async () => {
    const bench = await openBench();
    const saved: object[] = [];
    const save = (progress: object) => Promise.resolve(saved.push(progress) > 0);
    const providers = heldBack(bench, 'fcm', () =>
      waitFor(() => expect(saved).toMatchObject([{ devices: { 'apns#0': 'delivered' } }])),
    );
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const pass = bench.run(both, none, { lock: lockOf(save), providers });
    expect((await pass).progress.devices).toEqual({ 'apns#0': 'delivered', 'fcm#1': 'delivered' });
    expect(saved).toHaveLength(1); // the end of the pass saves the rest
  });

  it('is not sent again because a save fails', async () => {
    const bench = await openBench();
    const { run, sandbox } = bench;
    let saves = 0;
    const save = () => {
      saves += 1;
      return Promise.reject(new Error('OOM command not allowed'));
    };
    const providers = heldBack(bench, 'fcm', () => waitFor(() => expect(saves).toBe(1)));
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const { outcome } = await run(both, none, { lock: lockOf(save), providers });
    expect(outcome).toEqual({ kind: 'delivered' });
    expect(saves).toBe(1);
    expect(sandbox.journal.accepted).toHaveLength(2);
  });
});

describe('sendAfter', () => {
  test.each([
    ['sendAfter', 367 * 86_400_000], // the queue could not keep its due time
    ['expiresAt', Date.now() * 1_000], // a job of another client, in microseconds
  ])('more than 366 days ahead is invalid: %s', async (field, aheadMs) => {
    const { run, sandbox } = await openBench();
    const { outcome } = await run(makeNotification({ [field]: Date.now() + aheadMs }));
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'invalid' });
    const message = `^${field}: expected an instant at most 366 days`;
    expect(outcome).toHaveProperty('message', expect.stringMatching(new RegExp(message)));
    expect(sandbox.journal.all).toEqual([]);
  });

  test('what a producer with a clock a little ahead let pass, is sent', async () => {
    const { run } = await openBench();
    const expiresAt = Date.now() + 366 * 86_400_000 + 60_000;
    expect((await run(makeNotification({ expiresAt }))).outcome).toEqual({ kind: 'delivered' });
  });
});

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

test('one that no device took does not count', async () => {
  const { run, sandbox } = await openBench({ platforms: ['apns'] });
  const gone = makeDevice();
  sandbox.setAnswers([{ platform: 'apns', token: gone.token, reason: 'Unregistered' }]);
  for (let tries = 0; tries < 3; tries++) {
    expect(await run(background({ devices: [gone] }))).toMatchObject({ outcome: { reason: 'unregistered' } });
  }
  expect(await run(background())).toMatchObject({ outcome: { kind: 'delivered' } });
});

const ACTIVITY_DEVICES = {
  apns: makeDevice('apns'),
  fcm: { ...makeDevice('fcm'), liveActivityToken: 'a1b2c3d4' },
};
const update = ({ platform = 'apns', ...fields }: UpdateFields = {}) =>
  makeNotification({
    devices: [ACTIVITY_DEVICES[platform]],
    pushType: 'liveactivity',
    alert: undefined,
    liveActivity: { event: 'update', contentState: { score: '2 : 1' } },
    ...fields,
  });
/** APNs gets `aps` at the top, FCM below `apns`. */
interface ActivityPayload {
  readonly aps?: object;
  readonly apns?: { readonly payload: { readonly aps: object } };
}
type UpdateFields = Parameters<typeof makeNotification>[0] & { platform?: keyof typeof ACTIVITY_DEVICES };
const goal = { title: 'Goal' };

describe.each(['apns', 'fcm'] as const)('a Live Activity on %s', (platform) => {
  test('an update without an alert takes no slot of an alert, nor of a background push', async () => {
    const { run, limiter, backgroundLimiter, liveActivityLimiter, sandbox } = await openBench({
      platforms: ['apns', 'fcm'],
    });
    expect(await run(makeNotification())).toMatchObject({ outcome: { kind: 'delivered' } });
    expect(await run(update({ platform }))).toMatchObject({ outcome: { kind: 'delivered' } });
    expect(await run(update({ platform }))).toMatchObject({ outcome: { kind: 'requeued', rule: '1/2s' } });
    expect(await run(update({ platform, onThrottle: 'drop' }))).toMatchObject({
      outcome: { kind: 'dropped', rule: '1/2s' },
    });
    expect(sandbox.journal.accepted.map((entry) => entry.platform)).toEqual(['apns', platform]);
    expect(sandbox.journal.accepted.map(shownOf)).toEqual(['alert', 'nothing']);
    const standings = await Promise.all(
      [limiter, backgroundLimiter, liveActivityLimiter].map((each) => each.inspect(RECIPIENT)),
    );
    expect(standings.map(({ sent, reserved }) => [sent.length, reserved.length])).toEqual([
      [1, 0],
      [0, 0],
      [1, 1],
    ]);
  });

  test('one with an alert takes a slot of an alert, and is held back by alerts', async () => {
    const { run, limiter, liveActivityLimiter } = await openBench({ platforms: ['apns', 'fcm'] });
    expect(await run(update({ platform, alert: goal }))).toMatchObject({ outcome: { kind: 'delivered' } });
    expect(await run(makeNotification())).toMatchObject({ outcome: { kind: 'requeued', rule: 'gap' } });
    expect(await run(update({ platform, alert: goal }))).toMatchObject({ outcome: { kind: 'requeued', rule: 'gap' } });
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
    expect((await liveActivityLimiter.inspect(RECIPIENT)).sent).toEqual([]);
  });

  test('silenced, one with an alert is delivered at once without it', async () => {
    const { run, sandbox } = await openBench({ platforms: ['apns', 'fcm'] });
    await run(makeNotification());
    const { outcome } = await run(update({ platform, alert: goal, onThrottle: 'silence' }));
    expect(outcome).toMatchObject({ kind: 'delivered' });
    const { apns, aps = apns?.payload.aps } = sandbox.journal.accepted[1]?.payload as ActivityPayload;
    expect(aps).toMatchObject({ event: 'update' });
    expect(aps).not.toHaveProperty('alert');
  });
});
