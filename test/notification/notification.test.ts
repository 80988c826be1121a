import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseNotification } from '../../src/notification/notification.ts';
import { redact } from '../../src/notification/redact.ts';
import { publishedSchema } from '../support/json-schema.ts';
import { faultsOf } from '../support/push.ts';

const SECRET = 'b00bf00d-secret-token';
const APNS = { platform: 'apns', token: 'abcdef01' };
const FID = 'cQx3v8fZTn6tE1mKp0aB9d';
const BROWSER = {
  platform: 'webpush',
  endpoint: 'https://updates.push.services.mozilla.com/a',
  keys: { p256dh: `B${'A'.repeat(86)}`, auth: 'A'.repeat(22) },
};
const good = {
  id: 'msg-8841',
  recipientId: 'teacher-42',
  devices: [APNS],
  alert: { title: 'Room 12', body: 'Field trip forms are due' },
};
const background = { ...good, pushType: 'background', alert: undefined };

describe('what fits', () => {
  it('fills in the defaults', () => {
    expect(parseNotification(good)).toEqual({
      ok: true,
      notification: { ...good, pushType: 'alert', priority: 'normal', onThrottle: 'delay', onQuiet: 'delay' },
    });
  });

  it.each([
    ['2026-11-21T18:00:00Z', Date.UTC(2026, 10, 21, 18)],
    ['2026-11-21T18:00:00.5+01:00', Date.UTC(2026, 10, 21, 17, 0, 0, 500)],
    [1_795_284_000_000, 1_795_284_000_000],
  ])('reads expiresAt %s', (expiresAt, ms) => {
    expect(parseNotification({ ...good, expiresAt })).toMatchObject({ notification: { expiresAt: ms } });
  });

  it.each(['Frau Müller-Łukasz', '{braces}', 'a'.repeat(256), '先生', '👩‍🏫'])(
    'takes the recipient %j',
    (recipientId) => {
      expect(faultsOf({ ...good, recipientId })).toEqual([]);
    },
  );
});

describe('what does not fit', () => {
  const AT = Date.UTC(2026, 10, 21, 18);
  const SECONDS = 'expected epoch milliseconds or ISO 8601 (it looks like seconds), found 1795284000';

  it.each<[object, string]>([
    [{ id: 'a b' }, 'id: expected 1 to 128 of A-Z a-z 0-9 . _ ~ -, found "a b"'],
    [{ devices: [] }, 'devices: expected at least 1 entry, found an array of 0'],
    [{ devices: [{ platform: 'sms' }] }, 'devices[0].platform: expected "apns" or "fcm" or "webpush", found "sms"'],
    [{ devices: [{ platform: 'fcm' }] }, 'devices[0].token: expected a text, or a fid in its place, found nothing'],
    [
      { devices: [{ platform: 'fcm', token: 'f1:APA91b', fid: FID }] },
      'devices[0].fid: expected none beside token: a device has one of the two, found a string of 22 characters',
    ],
    [
      { devices: [{ platform: 'fcm', fid: 'f1:APA91b' }] },
      'devices[0].fid: expected a Firebase installation id: 22 characters of base64url that begin with c, d, e or f, ' +
        'found a string of 9 characters',
    ],
    [{ devices: [{ platform: 'apns', token: 'a1', fid: FID }] }, 'devices[0].fid: expected no such field, found one'],
    [{ alert: { title: '' } }, 'alert: expected a title or a body that is not empty, found an object'],
    [{ alert: undefined }, 'alert: expected an object, found nothing'],
    [{ priority: 'urgent' }, 'priority: expected "high" or "normal", found "urgent"'],
    [{ badge: 1.5 }, 'badge: expected an integer, found 1.5'],
    [
      { sendAfter: AT, expiresAt: '2026-11-21T18:00:00Z' },
      'sendAfter: expected a time before expiresAt, which is 2026-11-21T18:00:00.000Z, found 2026-11-21T18:00:00.000Z',
    ],
    [{ expiresAt: AT / 1_000 }, `expiresAt: ${SECONDS}`],
    [{ sendAfter: AT / 1_000 }, `sendAfter: ${SECONDS}`],
    [{ cancellationKey: '' }, 'cancellationKey: expected 1 to 128 printable characters, found ""'],
    [{ expiresAt: 'soon' }, 'expiresAt: expected an RFC 3339 date-time or epoch milliseconds, found "soon"'],
    [{ data: { n: NaN } }, 'data.n: expected JSON of at most 20 levels, without the key __proto__, found NaN'],
    [{ expireAt: 1 }, 'expireAt: expected no such field (did you mean expiresAt?), found one'],
  ])('is named by its path: %j', (fields, fault) => expect(faultsOf({ ...good, ...fields })).toEqual([fault]));

  it('is named where it is no object', () => {
    expect(faultsOf('text')).toEqual(['expected an object, found a string of 4 characters']);
  });

  it.each(['a\nb', 'a\0b', '\ud800', '', 'a'.repeat(257)])('refuses the recipient %j', (recipientId) => {
    expect(faultsOf({ ...good, recipientId })).toHaveLength(1);
  });

  it.each(['id', 'recipientId'])('refuses the %s that every URL parser takes out of a path', async (field) => {
    const check = await publishedSchema();
    for (const dots of ['.', '..']) {
      const fault = `${field}: expected another text than . and .., which no URL can name, found "${dots}"`;
      expect(faultsOf({ ...good, [field]: dots })).toEqual([fault]);
      expect(check({ ...good, [field]: dots })).toHaveLength(1);
    }
    for (const text of ['...', '.a', '..-', 'a..']) {
      expect(faultsOf({ ...good, [field]: text })).toEqual([]);
      expect(check({ ...good, [field]: text })).toEqual([]);
    }
  });

  it('counts the bytes of a collapse id, not its characters', () => {
    expect(faultsOf({ ...good, collapseId: 'é'.repeat(32) })).toEqual([]);
    expect(faultsOf({ ...good, collapseId: 'é'.repeat(33) })).toHaveLength(1);
  });

  it('repeats neither tokens nor texts', () => {
    const found = faultsOf({
      ...good,
      devices: [{ platform: 'apns', token: SECRET }],
      alert: { title: 5, body: SECRET.repeat(999) },
      data: { aps: SECRET },
    }).join();
    expect(found).toContain(
      'devices[0].token: expected an APNs device token: 2 to 512 hexadecimal digits, found a string of',
    );
    expect(found).not.toContain(SECRET);
  });

  it('never throws, whatever it is given', () => {
    fc.assert(fc.property(fc.anything(), (raw) => void parseNotification(raw)));
  });
});

it.each([
  [{ apns: { treadId: 'a' } }, 'apns.treadId', 'threadId'],
  [{ threadId: 'a' }, 'threadId', 'apns.threadId'],
  [{ ttl: 60 }, 'ttl', 'expiresAt'],
  [{ recipient: 'a' }, 'recipient', 'recipientId'],

  [{ alert: { text: 'a' } }, 'alert.text', 'body'],
  [{ alert: { bodyText: 'a' } }, 'alert.bodyText', 'body'],
  [{ channelID: 'a' }, 'channelID', 'android.channelId'],
  [{ alert: { titel: 'a' } }, 'alert.titel', 'title'],
  [{ android: { tagg: 'a' } }, 'android.tagg', 'tag'],
  [{ requireInteraction: true }, 'requireInteraction', 'webpush.requireInteraction'],
  [{ fcm: { mesage: {} } }, 'fcm.mesage', 'message'],
  [{ devices: [{ ...APNS, tokn: 'a' }] }, 'devices[0].tokn', 'token'],
  [{ apns: { sound: { name: 'a', volumme: 1 } } }, 'apns.sound.volumme', 'volume'],
])('an unknown field is named with the one that was meant: %j', (fields, path, meant) => {
  const fault = `${path}: expected no such field (did you mean ${meant}?), found one`;
  expect(faultsOf({ ...good, ...fields })).toContain(fault);
});

it('an unknown field is named where nothing is near it', () => {
  expect(faultsOf({ ...good, subject: 'a' })).toEqual(['subject: expected no such field, found one']);
});

it('reports all faults of all platforms at once', () => {
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

it('reports the faults of a device on FCM at once, also that it has no target, and shows no installation id', () => {
  const devices = [
    { platform: 'fcm', app: 'a b', name: 'phone' },
    { platform: 'fcm', token: 'a b', fid: FID },
  ];
  const faults = faultsOf({ ...good, devices });
  expect(faults.map((fault) => fault.split(':')[0])).toEqual([
    'devices[0].app',
    'devices[0].name',
    'devices[0].token',
    'devices[1].token',
    'devices[1].fid',
  ]);
  expect(faults.join()).not.toContain(FID);
  expect(redact(`no device ${FID}`, { ...good, devices })).toBe('no device [redacted]');
});

describe('keys of texts', () => {
  const devices = [APNS, BROWSER];

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

  it.each<[object | undefined]>([
    [undefined],
    [{ pushpacer: { tags: ['a'] } }],
    [{ pushpacer: { retract: 'a' } }],
    [{ pushpacer: [] }],
    [{ retract: ['a'] }],
  ])('goes to no browser, which must show every push: %j', (data) => {
    expect(faultsOf({ ...background, ...(data && { data }), devices: [APNS, BROWSER] })).toEqual([
      'devices[1].platform: expected another platform in a background push: a browser must show every push, found "webpush"',
    ]);
  });

  it('goes to browsers too if it is a retraction', () => {
    const data = { pushpacer: { retract: ['msg-1'], tags: ['a'] } };
    expect(faultsOf({ ...background, devices: [APNS, BROWSER], data, badge: 0 })).toEqual([]);
  });

  it('has nothing that alerts, wherever it is written', () => {
    const raw = {
      ...background,
      alert: { title: 'a' },
      sound: 'default',
      imageUrl: 'https://example.com/a.jpg',
      android: { channelId: 'a' },
      apns: { interruptionLevel: 'active', priority: 10, payload: { aps: { alert: 'a', badge: 1 } } },
      fcm: { message: { notification: { title: 'a' }, android: { notification: {} } } },
      onThrottle: 'silence',
    };
    expect(faultsOf(raw).map((fault) => fault.split(':')[0])).toEqual([
      'alert',
      'sound',
      'imageUrl',
      'android',
      'apns.interruptionLevel',
      'apns.payload.aps.alert',
      'apns.payload.aps.badge',
      'fcm.message.notification',
      'fcm.message.android.notification',
      'apns.priority',
      'onThrottle',
    ]);
  });

  const ofFcm = (apns: object) => ({ fcm: { message: { apns } } });
  const headers = (given: object) => ofFcm({ headers: given });
  const aps = (given: unknown) => ({ payload: { aps: given } });
  const CONTENT = 'expected 1 in a background push';
  const PART = 'expected an object, since a background push needs its part, found null';
  const SHOWN = 'expected none in a background push, which shows nothing, found one';
  const TYPE = 'expected "background", as Apple asks of a background push';
  const PRIORITY = 'expected "5", as Apple asks of a background push';

  it.each<[object, path: string, fault: string]>([
    [{ apns: aps({ 'content-available': null }) }, 'apns.payload.aps.content-available', `${CONTENT}, found null`],
    [{ apns: aps({ 'content-available': 0 }) }, 'apns.payload.aps.content-available', `${CONTENT}, found 0`],
    [
      { apns: aps({ category: 'FORM' }) },
      'apns.payload.aps.category',
      'expected none in a background push, whose aps has only content-available, found one',
    ],
    [ofFcm(aps({ sound: 'default' })), 'fcm.message.apns.payload.aps.sound', SHOWN],
    [ofFcm(aps({ badge: 1 })), 'fcm.message.apns.payload.aps.badge', SHOWN],
    [
      ofFcm(aps({ 'content-available': null })),
      'fcm.message.apns.payload.aps.content-available',
      `${CONTENT}, found null`,
    ],
    [ofFcm(aps(null)), 'fcm.message.apns.payload.aps', PART],
    [ofFcm({ payload: null }), 'fcm.message.apns.payload', PART],
    [ofFcm({ headers: null }), 'fcm.message.apns.headers', PART],
    [headers({ 'apns-priority': '10' }), 'fcm.message.apns.headers.apns-priority', `${PRIORITY}, found "10"`],
    [headers({ 'Apns-Priority': '10' }), 'fcm.message.apns.headers.Apns-Priority', `${PRIORITY}, found "10"`],
    [headers({ 'apns-priority': null }), 'fcm.message.apns.headers.apns-priority', `${PRIORITY}, found null`],
    [headers({ 'apns-push-type': 'alert' }), 'fcm.message.apns.headers.apns-push-type', `${TYPE}, found "alert"`],
    [
      { fcm: { message: { android: { priority: 'HIGH' } } } },
      'fcm.message.android.priority',
      'expected "normal" in a background push, which shows nothing, found "HIGH"',
    ],
    [{ fcm: { message: { webpush: { notification: {} } } } }, 'fcm.message.webpush.notification', SHOWN],
    [ofFcm({ fcm_options: { image: 'a' } }), 'fcm.message.apns.fcm_options.image', SHOWN],
  ])('is not made loud, or something else, by a patch: %j', (fields, path, fault) => {
    expect(faultsOf({ ...background, ...fields })).toEqual([`${path}: ${fault}`]);
  });

  it('is an alert to Apple with a badge, also in a patch', () => {
    expect(faultsOf({ ...background, badge: 3, ...headers({ 'apns-push-type': 'alert' }) })).toEqual([]);
    expect(faultsOf({ ...background, badge: 3, ...headers({ 'apns-push-type': 'background' }) })).toEqual([
      'fcm.message.apns.headers.apns-push-type: expected "alert", as Apple asks of a background push with a badge, found "background"',
    ]);
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
});

describe('what is merged at the end', () => {
  it.each([
    [{ apns: { payload: { aps: null } } }, "apns.payload.aps: expected an object, in which Apple's keys are"],
    [{ apns: { payload: [1] } }, 'apns.payload: expected an object, JSON of at most 20 levels'],
    [{ fcm: { message: { token: 'a' } } }, 'fcm.message.token: expected none: the device decides'],
    [{ fcm: { message: { topic: 'a', condition: 'b' } } }, 'fcm.message.condition: expected none'],
    [{ fcm: { message: { fid: 'a' } } }, 'fcm.message.fid: expected none: the device decides'],
    [{ fcm: { message: { android_v2: {} } } }, 'fcm.message.android_v2: expected none: write into android'],
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
    const found = faultsOf({ ...good, ...fields });
    expect(found.length).toBeGreaterThan(0);
    expect(found.join()).not.toContain(secret);
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
