import { describe, expect, it, test } from 'vitest';
import { factsOf } from '../../src/dead-letters/facts.ts';
import { parseNotification } from '../../src/notification/notification.ts';
import { payloadFaults } from '../../src/notification/rules.ts';
import { redact } from '../../src/notification/redact.ts';
import { targetOf } from '../../src/notification/device.ts';
import { checkInput, type EnqueueInput } from '../../src/producer/producer.ts';
import { faultsOf } from '../support/push.ts';

const ID = 'dHN0LXNyY2gtY2hubA==';
const UPDATE = { event: 'update', contentState: { score: '2 : 1' } } as const;
const good = {
  ...{ id: 'goal-3', recipientId: ID, channel: { id: ID } },
  ...({ pushType: 'liveactivity', liveActivity: UPDATE } as const),
};
const alert = { title: 'Goal' };

test.each([
  [{}],
  [{ channel: { id: ID, storage: 'none', app: 'teacher' } }],
  [{ channel: { id: ID, storage: 'most-recent' }, expiresAt: 1_900_000_000_000 }],
  [{ liveActivity: { ...UPDATE, event: 'end', dismissalDate: Date.UTC(2001, 0, 1) } }],
  [{ alert, sound: 'goal.caf', onThrottle: 'silence', onQuiet: 'drop' }],
  [{ onThrottle: 'latest', collapseId: 'match-12', cancellationKey: 'match-12', category: 'matches' }],
  [{ apns: { priority: 10, topic: 'a.b' } }],
])('is valid: %j', (fields) => expect(faultsOf({ ...good, ...fields })).toEqual([]));

it('is one target at APNs', () => {
  const channel = { id: ID, app: 'teacher' };
  expect(parseNotification({ ...good, channel })).toMatchObject({
    notification: { channel, devices: [{ platform: 'apns', token: ID, app: 'teacher' }] },
  });
  expect(targetOf({ ...good, channel })).toEqual({ platform: 'apns', app: 'teacher' });
  expect(targetOf(good)).toEqual({ platform: 'apns' });
});

test.each<[object, ...faults: string[]]>([
  [
    { devices: [{ platform: 'apns', token: 'ab' }] },
    'devices: expected none beside channel, which stands in their place, found one',
  ],
  [{ channel: undefined }, 'devices: expected a list of 1 to 20 devices, or a channel, found nothing'],
  [
    { recipientId: 'match-12' },
    'recipientId: expected the id of the channel, whose limits hold for all who send to it, found another one',
  ],
  [
    { pushType: 'alert', liveActivity: undefined, alert },
    'pushType: expected "liveactivity" beside channel, which only Live Activities have, found "alert"',
  ],
  [
    { pushType: undefined, liveActivity: undefined, alert },
    'pushType: expected "liveactivity" beside channel, which only Live Activities have, found nothing',
  ],
  [
    { pushType: 'background', liveActivity: undefined },
    'pushType: expected "liveactivity" beside channel, which only Live Activities have, found "background"',
  ],
  [
    { liveActivity: { ...UPDATE, event: 'start', attributesType: 'A', attributes: {} }, alert },
    'liveActivity.event: expected "update" or "end" beside channel: Apple takes a start for devices only, found "start"',
  ],
  [
    { onThrottle: 'digest', digest: { key: 'a', title: 'b' } },
    'digest: expected none beside pushType "liveactivity", found one',
    'onThrottle: expected another one: a Live Activity has no digest, found "digest"',
  ],
  [{ channel: { id: ID, storage: 'all' } }, 'channel.storage: expected "none" or "most-recent", found "all"'],
  [{ channel: { id: ID, policy: 1 } }, 'channel.policy: expected no such field, found one'],
  [
    { channel: { id: ID, app: 'a b' } },
    'channel.app: expected 1 to 64 of A-Z a-z 0-9 . _ -, found a string of 3 characters',
  ],
])('is refused: %j', (fields, ...faults) => expect(faultsOf({ ...good, ...fields })).toEqual(faults));

it.each(['', 'a b', '====', 'a'.repeat(257), 'dHN0=LXN'])(
  'an id that is no base64 is refused, and not shown: %j',
  (id) => {
    const faults = faultsOf({ ...good, recipientId: ID, channel: { id } });
    expect(faults[0]).toBe(
      `channel.id: expected a channel's id: 1 to 256 characters of base64, found a string of ${id.length} characters`,
    );
  },
);

it('may have 5,120 bytes', () => {
  const sized = (bytes: number): EnqueueInput => {
    const liveActivity = { event: 'update', contentState: { text: '' }, timestamp: 1_795_280_400_000 } as const;
    const empty = JSON.stringify({ aps: { timestamp: 1_795_280_400, event: 'update', 'content-state': { text: '' } } });
    const text = 'x'.repeat(bytes - empty.length);
    return { ...good, liveActivity: { ...liveActivity, contentState: { text } } };
  };
  expect(checkInput(sized(5_120))).toMatchObject({ kind: 'added' });
  expect(checkInput(sized(5_121))).toMatchObject({
    faults: [{ path: '', expected: 'a payload of at most 5120 bytes for apns', found: '5121 bytes' }],
  });
  const device = { recipientId: 'r', channel: undefined, devices: [{ platform: 'apns', token: 'ab' }] };
  const parsed = parseNotification({ ...sized(4_097), ...device });
  expect(parsed.ok && payloadFaults(parsed.notification)).toHaveLength(1);
});

it('may have as many numbers as fit into 5,120 bytes', () => {
  const contentState = { points: Array.from({ length: 2_495 }, () => 1) };
  const liveActivity = { event: 'update', contentState } as const;
  expect(checkInput({ ...good, liveActivity })).toMatchObject({ kind: 'added' });
});

describe('as a dead letter', () => {
  const letter = { reason: 'unregistered', message: 'm', attempts: [], deadAt: 1, generation: 0 } as const;
  const notification = { ...good, channel: { id: ID, app: 'teacher' } };

  it('has a platform, an app and a label', () => {
    expect(factsOf({ id: 'goal-3', buriedAt: 1, letter: { ...letter, notification } })).toMatchObject({
      platforms: ['apns'],
      apps: ['teacher'],
      notification: { recipientId: ID, devices: ['apns#0'] },
    });
    const delivered = { ...letter, notification, delivered: ['apns#0'] };
    expect(factsOf({ id: 'goal-3', buriedAt: 1, letter: delivered }).platforms).toBeUndefined();
  });

  it('has its id in no words of a provider', () => {
    expect(redact(`no channel ${ID}`, notification)).toBe('no channel [redacted]');
  });
});
