import { describe, expect, it } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { parseNotification } from '../../src/domain/notification.ts';
import { redact } from '../../src/domain/redact.ts';

const APNS = { platform: 'apns', token: 'abcdef01' };
const good = { id: 'msg-1', recipientId: 'teacher-42', devices: [APNS], alert: { title: 'Room 12' } };
const background = { ...good, pushType: 'background', alert: undefined };

function faultsOf(raw: unknown): string[] {
  const parsed = parseNotification(raw);
  return parsed.ok ? [] : parsed.faults.map(formatFault);
}

describe('an unknown field is named with the one that was meant', () => {
  it.each([
    [{ ...good, apns: { treadId: 'a' } }, 'apns.treadId: expected no such field (did you mean threadId?), found one'],
    [{ ...good, threadId: 'a' }, 'threadId: expected no such field (did you mean apns.threadId?), found one'],
    [{ ...good, channelID: 'a' }, 'channelID: expected no such field (did you mean android.channelId?), found one'],
    [{ ...good, alert: { titel: 'a' } }, 'alert.titel: expected no such field (did you mean title?), found one'],
    [{ ...good, android: { tagg: 'a' } }, 'android.tagg: expected no such field (did you mean tag?), found one'],
    [
      { ...good, requireInteraction: true },
      'requireInteraction: expected no such field (did you mean webpush.requireInteraction?), found one',
    ],
    [{ ...good, fcm: { mesage: {} } }, 'fcm.mesage: expected no such field (did you mean message?), found one'],
    [
      { ...good, devices: [{ ...APNS, tokn: 'a' }] },
      'devices[0].tokn: expected no such field (did you mean token?), found one',
    ],
    [
      { ...good, apns: { sound: { name: 'a', volumme: 1 } } },
      'apns.sound.volumme: expected no such field (did you mean volume?), found one',
    ],
    [{ ...good, subject: 'a' }, 'subject: expected no such field, found one'],
  ])('%j', (raw, fault) => expect(faultsOf(raw)).toContain(fault));
});

it('tells all faults of all platforms at once', () => {
  const raw = {
    ...good,
    alert: { titleLocArgs: [1] },
    imageUrl: 'http://example.com',
    apns: { interruptionLevel: 'loud', relevanceScore: 2, priority: 7, sound: {}, treadId: 'a' },
    android: { color: 'red', notificationCount: -1 },
    analyticsLabel: 'ä',
  };
  expect(faultsOf(raw).map((fault) => fault.split(':')[0])).toEqual([
    'alert.titleLocArgs[0]',
    'imageUrl',
    'apns.interruptionLevel',
    'apns.relevanceScore',
    'apns.sound.name',
    'apns.priority',
    'apns.treadId',
    'android.color',
    'android.notificationCount',
    'analyticsLabel',
    'alert.titleLocKey',
  ]);
  expect(faultsOf(raw).join()).toContain('apns.interruptionLevel: expected "passive" or "active" or');
  expect(faultsOf(raw).join()).toContain('apns.priority: expected 1, 5 or 10, found 7');
  expect(faultsOf(raw).join()).not.toContain('example.com');
});

describe('keys of texts', () => {
  const keys = { p256dh: `B${'A'.repeat(86)}`, auth: 'A'.repeat(22) };
  const browser = { platform: 'webpush', endpoint: 'https://updates.push.services.mozilla.com/a', keys };
  const devices = [APNS, browser];

  it.each([[{ titleLocKey: 'FORMS' }], [{ bodyLocKey: 'FORMS', body: '' }]])(
    'alone are nothing that a browser could show: %j',
    (alert) => {
      expect(faultsOf({ ...good, alert })).toEqual([]);
      expect(faultsOf({ ...good, devices, alert })).toEqual([
        'alert: expected a title or a body that is not empty, since a browser has no texts for keys, found keys alone',
      ]);
    },
  );

  it('may stand beside a text, which a browser shows', () => {
    expect(faultsOf({ ...good, devices, alert: { titleLocKey: 'FORMS', title: 'Forms' } })).toEqual([]);
  });
});

describe('a background push', () => {
  it('needs no alert, and has the outcome of one by default', () => {
    expect(faultsOf(background)).toEqual([]);
    expect(
      faultsOf({ ...background, data: { a: 1 }, apns: { priority: 5, topic: 'a.b' }, onThrottle: 'drop' }),
    ).toEqual([]);
    expect(parseNotification(good)).toMatchObject({ notification: { pushType: 'alert' } });
  });

  it('goes to no browser, which must show every push', () => {
    const keys = { p256dh: `B${'A'.repeat(86)}`, auth: 'A'.repeat(22) };
    const browser = { platform: 'webpush', endpoint: 'https://updates.push.services.mozilla.com/a', keys };
    expect(faultsOf({ ...background, devices: [...good.devices, browser] })).toEqual([
      'devices[1].platform: expected another platform in a background push: a browser must show every push, found "webpush"',
    ]);
  });

  it('has nothing that alerts, wherever it is written', () => {
    const raw = {
      ...background,
      alert: { title: 'a' },
      sound: 'default',
      badge: 1,
      imageUrl: 'https://example.com/a.jpg',
      android: { channelId: 'a' },
      apns: { interruptionLevel: 'active', priority: 10, payload: { aps: { alert: 'a' } } },
      fcm: { message: { notification: { title: 'a' }, android: { notification: {} } } },
      onThrottle: 'silence',
    };
    expect(faultsOf(raw).map((fault) => fault.split(':')[0])).toEqual([
      'alert',
      'sound',
      'badge',
      'imageUrl',
      'android',
      'apns.interruptionLevel',
      'apns.payload.aps.alert',
      'fcm.message.notification',
      'fcm.message.android.notification',
      'apns.priority',
      'onThrottle',
    ]);
  });

  const headers = (given: object) => ({ fcm: { message: { apns: { headers: given } } } });
  const NEEDED = {
    'apns-push-type': 'expected "background", as Apple asks of a background push',
    'apns-priority': 'expected "5", as Apple asks of a background push',
  };

  it.each<[object, string]>([
    [
      { apns: { payload: { aps: { 'content-available': null } } } },
      'apns.payload.aps.content-available: expected 1 in a background push, found null',
    ],
    [
      { apns: { payload: { aps: { 'content-available': 0 } } } },
      'apns.payload.aps.content-available: expected 1 in a background push, found 0',
    ],
    [
      { apns: { payload: { aps: { category: 'FORM' } } } },
      'apns.payload.aps.category: expected none in a background push, whose aps has only content-available, found one',
    ],
    [
      { fcm: { message: { apns: { payload: { aps: { sound: 'default' } } } } } },
      'fcm.message.apns.payload.aps.sound: expected none in a background push, which shows nothing, found one',
    ],
    [
      { fcm: { message: { apns: { payload: { aps: { badge: 1 } } } } } },
      'fcm.message.apns.payload.aps.badge: expected none in a background push, which shows nothing, found one',
    ],
    [
      { fcm: { message: { apns: { payload: { aps: { 'content-available': null } } } } } },
      'fcm.message.apns.payload.aps.content-available: expected 1 in a background push, found null',
    ],
    [
      { fcm: { message: { apns: { payload: { aps: null } } } } },
      'fcm.message.apns.payload.aps: expected an object, since a background push needs its part, found null',
    ],
    [
      { fcm: { message: { apns: { payload: null } } } },
      'fcm.message.apns.payload: expected an object, since a background push needs its part, found null',
    ],
    [
      { fcm: { message: { apns: { headers: null } } } },
      'fcm.message.apns.headers: expected an object, since a background push needs its part, found null',
    ],
    [
      headers({ 'apns-priority': '10' }),
      `fcm.message.apns.headers.apns-priority: ${NEEDED['apns-priority']}, found "10"`,
    ],
    [
      headers({ 'Apns-Priority': '10' }),
      `fcm.message.apns.headers.Apns-Priority: ${NEEDED['apns-priority']}, found "10"`,
    ],
    [
      headers({ 'apns-priority': null }),
      `fcm.message.apns.headers.apns-priority: ${NEEDED['apns-priority']}, found null`,
    ],
    [
      headers({ 'apns-push-type': 'alert' }),
      `fcm.message.apns.headers.apns-push-type: ${NEEDED['apns-push-type']}, found "alert"`,
    ],
    [
      { fcm: { message: { android: { priority: 'HIGH' } } } },
      'fcm.message.android.priority: expected "normal" in a background push, which shows nothing, found "HIGH"',
    ],
    [
      { fcm: { message: { webpush: { notification: { title: 'a' } } } } },
      'fcm.message.webpush.notification: expected none in a background push, which shows nothing, found one',
    ],
    [
      { fcm: { message: { apns: { fcm_options: { image: 'a' } } } } },
      'fcm.message.apns.fcm_options.image: expected none in a background push, which shows nothing, found one',
    ],
  ])('is not made loud, or something else, by a patch: %j', (fields, fault) => {
    expect(faultsOf({ ...background, ...fields })).toEqual([fault]);
  });

  it('may be patched where it stays one', () => {
    const message = {
      data: { a: 'b' },
      android: { direct_boot_ok: true, priority: 'normal' },
      apns: {
        headers: { 'apns-priority': '5', 'apns-push-type': 'background', 'apns-expiration': '0' },
        payload: { aps: { 'content-available': 1 }, more: 1 },
      },
    };
    expect(faultsOf({ ...background, apns: { payload: { aps: { sync: null }, more: 1 } }, fcm: { message } })).toEqual(
      [],
    );
  });

  it('is none in the header alone: the alert would keep its sound and its priority', () => {
    expect(faultsOf({ ...good, sound: 'default', ...headers({ 'apns-push-type': 'background' }) })).toEqual([
      'fcm.message.apns.headers.apns-push-type: expected pushType "background" in its place: a background push has no alert, sound and badge, found "background"',
    ]);
  });

  it('is asked for: without it an alert must be there', () => {
    expect(faultsOf({ ...good, alert: undefined })).toEqual(['alert: expected an object, found nothing']);
  });
});

describe('what is merged at the end', () => {
  it.each([
    [{ apns: { payload: { aps: null } } }, "apns.payload.aps: expected an object, in which Apple's keys are"],
    [{ apns: { payload: [1] } }, 'apns.payload: expected an object, JSON of at most 20 levels'],
    [{ fcm: { message: { token: 'a' } } }, 'fcm.message.token: expected none: the device decides'],
    [{ fcm: { message: { topic: 'a', condition: 'b' } } }, 'fcm.message.condition: expected none'],
    [{ fcm: { message: { fid: 'a' } } }, 'fcm.message.fid: expected none: the device decides'],
    [{ fcm: { message: { data: { from: 'a' } } } }, 'fcm.message.data.from: expected a key that FCM does not reserve'],
    [{ fcm: { message: { data: { a: 1 } } } }, 'fcm.message.data.a: expected a text'],
    [
      { fcm: { message: { android: { data: { 'google.a': 'b' } } } } },
      'fcm.message.android.data.google.a: expected a key',
    ],
    [
      { fcm: { message: { android: { notification: { channelId: 'a' } } } } },
      "fcm.message.android.notification.channelId: expected the name as in Google's reference, channel_id",
    ],
  ])('%j is refused', (fields, fault) => {
    expect(faultsOf({ ...good, ...fields }).join()).toContain(fault);
  });

  it('may have names of the sender in its maps', () => {
    const message = {
      data: { camelCase: 'a' },
      webpush: { notification: { title: 'Room 12', requireInteraction: true } }, // a browser's names
      apns: { headers: { 'apns-priority': '5' }, payload: { camelCase: 1 } },
    };
    expect(faultsOf({ ...good, fcm: { message } })).toEqual([]);
  });
});

describe('any JSON', () => {
  const nested = (levels: number): unknown => (levels === 0 ? 'x' : { a: nested(levels - 1) });

  it.each([
    ['20 levels', nested(19), true],
    ['21 levels', nested(21), false],
    ['a date', new Date(), false],
    ['no number', NaN, false],
    ['nothing', undefined, false],
    ['__proto__', JSON.parse('{"__proto__":{"a":1}}') as unknown, false],
    ['a list of everything', [null, true, 1.5, 'a', { b: [] }], true],
  ])('in data: %s', (_what, value, isValid) => {
    expect(faultsOf({ ...good, data: { value } }).length === 0).toBe(isValid);
  });

  it('cannot exhaust the stack', () => {
    expect(
      faultsOf({ ...good, data: { value: JSON.parse('['.repeat(2_000) + ']'.repeat(2_000)) as unknown } }),
    ).toHaveLength(1);
  });
});

describe('what is private', () => {
  const secret = 'a-secret-of-nobody';

  it.each([
    { imageUrl: `ftp://${secret}` },
    { apns: secret },
    { apns: { payload: secret } },
    { apns: { payload: { aps: secret } } },
    { fcm: { message: { data: { a: [secret] } } } },
    { fcm: { message: { token: secret } } },
    { android: [secret] },
    { webpush: { icon: secret } },
    { webpush: { actions: [{ action: `${secret}\n`, title: 7 }] } },
  ])('is not in a fault: %j', (fields) => {
    const told = faultsOf({ ...good, ...fields });
    expect(told.length).toBeGreaterThan(0);
    expect(told.join()).not.toContain(secret);
  });

  it.each([
    { imageUrl: `https://${secret}` },
    { apns: { payload: { a: [secret] } } },
    { fcm: { message: { a: secret } } },
    { webpush: { actions: [{ action: secret, title: 'a' }] } },
  ])("is not in a provider's words: %j", (fields) => {
    expect(redact(`Invalid value: ${secret}`, { ...good, ...fields })).toBe('Invalid value: [redacted]');
  });
});
