import { describe, expect, it, test } from 'vitest';
import { parseNotification } from '../../src/notification/notification.ts';
import { redact } from '../../src/notification/redact.ts';
import { faultsOf } from '../support/push.ts';

const UPDATE = { event: 'update', contentState: { score: '2 : 1' } };
const START = { ...UPDATE, event: 'start', attributesType: 'MatchAttributes', attributes: { home: '7b' } };
const good = {
  id: 'msg-1',
  recipientId: 'teacher-42',
  devices: [{ platform: 'apns', token: 'abcdef01' }],
  pushType: 'liveactivity',
  liveActivity: UPDATE,
};
const alert = { title: 'Goal' };

test.each([
  [{}],
  [{ liveActivity: { ...UPDATE, event: 'end', dismissalDate: Date.UTC(2001, 0, 1) } }],
  [{ alert, sound: 'goal.caf', onThrottle: 'silence', onQuiet: 'drop' }],
  [{ liveActivity: START, alert }],
  [{ onThrottle: 'latest', collapseId: 'match-12', expiresAt: 1_900_000_000_000 }],
  [{ apns: { priority: 10, topic: 'a.b', payload: { aps: { 'input-push-token': 1 } } } }],
])('is valid: %j', (fields) => expect(faultsOf({ ...good, ...fields })).toEqual([]));

test('its instants become epoch milliseconds', () => {
  const liveActivity = { ...UPDATE, timestamp: '2026-11-21T18:00:00+01:00', staleDate: 1_795_281_300_999 };
  expect(parseNotification({ ...good, liveActivity })).toMatchObject({
    notification: { liveActivity: { timestamp: 1_795_280_400_000, staleDate: 1_795_281_300_999 } },
  });
});

const NONE = 'expected none beside pushType "liveactivity", found one';

const AT_END = 'expected none beside event "end", found one';
const activity = (fields: object) => ({ liveActivity: { ...UPDATE, ...fields } });

test.each<[object, ...faults: string[]]>([
  [{ liveActivity: undefined }, 'liveActivity: expected an object beside pushType "liveactivity", found nothing'],
  [{ pushType: 'alert', alert }, 'pushType: expected "liveactivity" beside liveActivity, found "alert"'],
  [{ pushType: undefined, alert }, 'pushType: expected "liveactivity" beside liveActivity, found nothing'],
  [{ pushType: 'background' }, 'pushType: expected "liveactivity" beside liveActivity, found "background"'],
  [
    { liveActivity: { event: 'update' } },
    'liveActivity.contentState: expected an object, JSON of at most 20 levels, without the key __proto__, found nothing',
  ],
  [activity({ event: 'begin' }), 'liveActivity.event: expected "start" or "update" or "end", found "begin"'],
  [
    activity({ contentstate: {} }),
    'liveActivity.contentstate: expected no such field (did you mean contentState?), found one',
  ],
  [
    activity({ event: 'start' }),
    'liveActivity.attributesType: expected a text beside event "start", found nothing',
    'liveActivity.attributes: expected an object beside event "start", found nothing',
    'alert: expected an object, which Apple asks of a start, found nothing',
  ],
  [
    activity({ ...START, event: 'end' }),
    `liveActivity.attributesType: ${AT_END}`,
    `liveActivity.attributes: ${AT_END}`,
  ],
  [{ sound: 'default' }, 'sound: expected none in a Live Activity without an alert, found one'],
  [{ alert: { ...alert, subtitle: '7b' } }, `alert.subtitle: ${NONE}`],
  [{ alert: { ...alert, bodyLocArgs: ['a'] } }, 'alert.bodyLocKey: expected a text beside bodyLocArgs, found nothing'],
  [{ data: { a: 1 }, badge: 1 }, `data: ${NONE}`, `badge: ${NONE}`],
  [{ apns: { sound: { name: 'a' }, threadId: 'b' } }, `apns.threadId: ${NONE}`, `apns.sound: ${NONE}`],
  [{ apns: { payload: { aps: { alert: 'a' } } } }, `apns.payload.aps.alert: ${NONE}`],
  [{ apns: { priority: 1 } }, 'apns.priority: expected 5 or 10 for a Live Activity, found 1'],
  [
    { onThrottle: 'silence' },
    'onThrottle: expected another one: without an alert it is silent already, found "silence"',
  ],
  [
    { liveActivity: START, alert, onThrottle: 'silence', onQuiet: 'silence' },
    'onThrottle: expected another one: a start must alert, found "silence"',
    'onQuiet: expected another one: a start must alert, found "silence"',
  ],
])('is refused: %j', (fields, ...faults) => expect(faultsOf({ ...good, ...fields })).toEqual(faults));

describe('a device on FCM', () => {
  const fid = 'cQx3v8fZTn6tE1mKp0aB9d';
  const on = (...devices: object[]) => ({ devices: devices.map((device) => ({ platform: 'fcm', ...device })) });

  test.each([
    [on({ token: 'f1:APA91b', liveActivityToken: 'abcdef01' }, { fid, liveActivityToken: 'abcdef01' })],
    [{ devices: [...good.devices, ...on({ token: 'f1:APA91b', liveActivityToken: 'abcdef01' }).devices] }],
  ])('has the token of the activity beside its own: %j', (fields) => {
    expect(faultsOf({ ...good, ...fields })).toEqual([]);
  });

  test.each<[object, string]>([
    [on({ fid }), 'devices[0].liveActivityToken: expected a text beside pushType "liveactivity", found nothing'],
    [on({ liveActivityToken: 'abcdef01' }), 'devices[0].token: expected a text, or a fid in its place, found nothing'],
    [
      on({ fid, liveActivityToken: 'no hex' }),
      'devices[0].liveActivityToken: expected the token of a Live Activity: 2 to 512 hexadecimal digits, ' +
        'found a string of 6 characters',
    ],
    [
      { ...on({ fid, liveActivityToken: 'abcdef01' }), ...{ pushType: 'alert', liveActivity: undefined, alert } },
      'devices[0].liveActivityToken: expected none without pushType "liveactivity", found one',
    ],
    [
      { ...on({ fid, liveActivityToken: 'abcdef01' }), ...{ pushType: 'background', liveActivity: undefined } },
      'devices[0].liveActivityToken: expected none without pushType "liveactivity", found one',
    ],
    [
      { devices: [{ platform: 'apns', token: 'abcdef01', liveActivityToken: 'abcdef01' }] },
      'devices[0].liveActivityToken: expected no such field, found one',
    ],
  ])('is refused: %j', (fields, fault) => expect(faultsOf({ ...good, ...fields })).toEqual([fault]));
});

it('is not for browsers', () => {
  const keys = { p256dh: `B${'A'.repeat(86)}`, auth: 'A'.repeat(22) };
  const browser = { platform: 'webpush', endpoint: 'https://updates.push.services.mozilla.com/a', keys };
  expect(faultsOf({ ...good, devices: [...good.devices, browser] })).toEqual([
    'devices[1].platform: expected "apns" or "fcm", the only ones with Live Activities, found "webpush"',
  ]);
});

describe('what is private', () => {
  const secret = 'a-secret-of-nobody';

  it.each([
    { liveActivity: secret },
    { liveActivity: { ...UPDATE, contentState: secret } },
    { liveActivity: { ...START, attributes: [secret] }, alert },
  ])('is not in a fault: %j', (fields) => {
    const shown = faultsOf({ ...good, ...fields });
    expect(shown.length).toBeGreaterThan(0);
    expect(shown.join()).not.toContain(secret);
  });

  it('is not in the words of a provider, and its event is no secret', () => {
    const liveActivity = { ...UPDATE, contentState: { driver: [secret] } };
    expect(redact(`no update for ${secret}`, { ...good, liveActivity })).toBe('no update for [redacted]');
  });
});
