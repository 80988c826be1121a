import { describe, expect, it } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { parseNotification } from '../../src/notification/notification.ts';
import { checkInput, type EnqueueInput } from '../../src/producer/producer.ts';
import { none, openBench, RECIPIENT } from '../delivery/support.ts';
import { openApns, openFcm, openSandbox } from '../support/providers.ts';
import { makeNotification } from '../support/push.ts';

const APNS = { platform: 'apns', token: 'abcdef01' } as const;
const FCM = { platform: 'fcm', token: 'tok:en' } as const;
const good = { id: 'msg-1', recipientId: 'teacher-42', devices: [APNS], alert: { title: 'Room 12' } };

/** What a producer refuses before it enqueues. */
function refusals(input: object): string[] {
  const result = checkInput(input as EnqueueInput);
  return result.kind === 'invalid' ? result.faults.map(formatFault) : [];
}

describe('the size is checked before the queue', () => {
  const text = 'x'.repeat(4_050);

  it.each([
    [[APNS], { data: { text } }, ['expected a payload of at most 4096 bytes for apns, found 4097 bytes']],
    [[FCM], { data: { text } }, ['expected a payload of at most 4096 bytes for fcm, found 4105 bytes']],
    [
      [FCM],
      { apns: { payload: { text: `${text}${text}` } } },
      ['expected a payload of at most 4096 bytes for fcm, found 8111 bytes'],
    ],
    [[APNS], { fcm: { message: { data: { text: `${text}${text}` } } } }, []],
    [[APNS, FCM], { data: { text: 'x'.repeat(4_000) } }, []],
  ])('%j %#', (devices, fields, faults) => {
    expect(refusals({ ...good, devices, ...fields })).toEqual(faults);
  });
});

/** How many bytes a body may have beside all else, so that the loud form is exactly 4,096 bytes. */
const ROOM = {
  apns: 4_096 - Buffer.byteLength(JSON.stringify({ aps: { alert: { body: '' } } })),
  fcm: 4_096 - Buffer.byteLength(`bodytag${'0'.repeat(36)}`),
};
const FULL = {
  apns: { ...good, devices: [APNS], alert: { body: 'x'.repeat(ROOM.apns) } },
  fcm: { ...good, devices: [FCM], alert: { body: 'x'.repeat(ROOM.fcm) } },
};
const BLOCKED = { apns: 31, fcm: 49 };

describe.each(['apns', 'fcm'] as const)('%s: a form that goes only when it is blocked', (platform) => {
  const full = FULL[platform];
  const more = BLOCKED[platform];

  it('is none of what waits, so all 4,096 bytes may be used', () => {
    for (const onThrottle of ['delay', 'drop'] as const) expect(refusals({ ...full, onThrottle })).toEqual([]);
  });

  it.each([
    [{ onThrottle: 'silence' }, 'onThrottle'],
    [{ onQuiet: 'silence' }, 'onQuiet'],
    [{ onThrottle: 'silence', onQuiet: 'silence' }, 'onThrottle, onQuiet'],
  ])('is measured too: %j', (fields, by) => {
    expect(refusals({ ...full, ...fields })).toEqual([
      `expected a payload of at most 4096 bytes for ${platform} where it is silenced (${by}), found ${4_096 + more} bytes`,
    ]);
    const shorter = { ...full, alert: { body: full.alert.body.slice(more) }, ...fields };
    expect(refusals(shorter)).toEqual([]);
  });

  it('is measured as long as it is sent', async () => {
    const sandbox = await openSandbox();
    const provider = await (platform === 'apns' ? openApns(sandbox) : openFcm(sandbox));
    const parsed = parseNotification({ ...full, alert: { body: full.alert.body.slice(more) } });
    const notification = parsed.ok ? parsed.notification : makeNotification();
    const [device = APNS] = notification.devices;
    const push = { notification, device, pushId: '0'.repeat(36), silent: true };
    expect(provider.prepare(push).kind).toBe('ready');
    const tooLong = { ...notification, alert: { body: `${notification.alert?.body ?? ''}x` } };
    expect(provider.prepare({ ...push, notification: tooLong }).kind).toBe('refused');
  });

  it('of a digest has the longest count', () => {
    const room = ROOM[platform];
    const digest = (bytes: number) => ({ key: 'k', body: `${'x'.repeat(bytes)}{{count}}` });
    const given = { ...full, alert: { title: 'a' }, onThrottle: 'digest' };
    expect(refusals({ ...given, digest: digest(room - 4) })).toEqual([]);
    expect(refusals({ ...given, digest: digest(room - 3) })).toEqual([
      `expected a payload of at most 4096 bytes for ${platform} as a digest, found 4097 bytes`,
    ]);
  });
});

it('a job of another client whose silent form is too long is rejected before it asks for a slot', async () => {
  const { run, limiter, sandbox } = await openBench();
  const { outcome, progress } = await run(makeNotification({ ...FULL.apns, onThrottle: 'silence' }));
  expect(outcome).toEqual({
    kind: 'dead-letter',
    reason: 'rejected',
    message:
      'payload-too-large: expected a payload of at most 4096 bytes for apns where it is silenced (onThrottle), found 4127 bytes',
  });
  expect(progress.devices).toEqual({ 'apns#0': 'rejected' });
  expect(await limiter.inspect(RECIPIENT)).toMatchObject({ sent: [], reserved: [] });
  expect(sandbox.journal.all).toEqual([]);
});

it('a device of a platform where every form fits still gets it', async () => {
  const { run, sandbox } = await openBench();
  // With a short tag FCM has 4,096 bytes, and APNs one more.
  const body = 'x'.repeat(4_039);
  const both = makeNotification({ devices: [APNS, FCM], alert: { body }, collapseId: 'c', onQuiet: 'silence' });
  const { outcome, progress } = await run(both, none);
  expect(outcome).toEqual({ kind: 'delivered' });
  expect(progress.devices).toMatchObject({ 'apns#0': 'rejected' });
  expect(sandbox.journal.accepted.map(({ platform }) => platform)).toEqual(['fcm']);
});
