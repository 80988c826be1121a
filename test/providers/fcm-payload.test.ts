import { describe, expect, test } from 'vitest';
import { tokenOf } from '../../src/notification/device.ts';
import { checkInput, type EnqueueInput } from '../../src/producer/producer.ts';
import { openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { faultsOf, makePush, type PushFields } from '../support/push.ts';

const NOW_MS = Date.parse('2026-11-21T18:00:00Z');

/** What FCM received of a push. */
async function received(fields: PushFields) {
  const sandbox = await openSandbox();
  const push = makePush({ platform: 'fcm', ...fields });
  const reply = await sendPush(await openFcm(sandbox, { now: () => NOW_MS }), push);
  const { token, ...message } = (sandbox.journal.all[0]?.payload ?? {}) as Record<string, unknown>;
  expect(token).toBe(tokenOf(push.device));
  return { push, reply, message };
}

test('an alert is a notification with data beside it, and the push id as its tag', async () => {
  const data = { threadId: '77' };
  const { push, reply, message } = await received({ data, sound: 'default', badge: 3, priority: 'high' });
  expect(reply).toEqual({ meaning: 'accepted', code: '200', alerted: 'yes' });
  expect(message).toEqual({
    notification: push.notification.alert,
    data,
    android: { priority: 'high', notification: { tag: push.pushId, sound: 'default', notification_count: 3 } },
    apns: {
      headers: { 'apns-push-type': 'alert', 'apns-priority': '10', 'apns-collapse-id': push.pushId },
      payload: { aps: { sound: 'default', badge: 3 } },
    },
  });
});

test.each([
  [NOW_MS + 90_000, '90s'],
  [NOW_MS + 1_500, '1.5s'],
  [NOW_MS - 1, '0s'],
  [NOW_MS + 90 * 86_400_000, '2419200s'],
])('expiresAt %d leaves a ttl of %s', async (expiresAt, ttl) => {
  const { reply, message } = await received({ expiresAt });
  expect(message).toMatchObject({ android: { ttl } });
  expect(reply.meaning).toBe('accepted');
});

const TEXTS = { title: 'Room 12', body: 'Forms' };
const patched = (message: object) => ({ alert: TEXTS, fcm: { message } }) as PushFields;

test("a header of Apple's in other letters is sent once, with the patch's value", async () => {
  const headers = { 'Apns-Priority': '5', 'APNS-Collapse-Id': null, 'Apns-Topic': 'com.example.school' };
  const { reply, message } = await received(patched({ apns: { headers } }));
  expect(reply.meaning).toBe('accepted');
  expect(message).toHaveProperty('apns.headers', {
    'apns-push-type': 'alert',
    'apns-priority': '5',
    'apns-topic': 'com.example.school',
  });
  const withoutTexts = await received(patched({ notification: null, apns: { headers: { 'Apns-Priority': '5' } } }));
  expect(withoutTexts.message).toHaveProperty('apns.headers.apns-priority', '5');
});

describe('silence adds nothing of a notification that a patch has removed', () => {
  test('a message without a notification stays a data message', async () => {
    const fields = { ...patched({ notification: null }), data: { a: 'b' }, sound: 'default', badge: 3 };
    const { push, reply, message } = await received({ ...fields, silent: true, priority: 'high' });
    expect(reply).toMatchObject({ meaning: 'accepted' });
    expect(message).toEqual({
      data: { a: 'b' },
      android: { priority: 'normal' },
      apns: {
        headers: { 'apns-collapse-id': push.pushId }, // no alert, so neither its push type nor its priority
        payload: { aps: {} },
      },
    });
  });

  test('not even where it goes out loud: Android would show an empty one', async () => {
    const { message } = await received({ ...patched({ notification: null }), data: { a: 'b' }, priority: 'high' });
    expect(message).toMatchObject({ data: { a: 'b' }, android: { priority: 'high' } });
    expect(message).not.toHaveProperty('android.notification');
    const own = { notification: null, android: { notification: { title: 'own' } } };
    expect((await received(patched(own))).message).toHaveProperty('android.notification.title', 'own');
  });

  test('parts that were removed stay away', async () => {
    const { message } = await received({
      ...patched({ notification: null, android: null, apns: null }),
      data: { a: 'b' },
      silent: true,
    });
    expect(message).toEqual({ data: { a: 'b' } });
  });

  test('but what is still shown is silenced, with a whole part', async () => {
    const { reply, message } = await received({ ...patched({ android: null, apns: null }), silent: true });
    expect(reply).toMatchObject({ meaning: 'accepted' });
    expect(message).toEqual({
      notification: TEXTS,
      android: {
        priority: 'normal',
        notification: { channel_id: 'silent', notification_priority: 'PRIORITY_LOW' },
      },
      apns: {
        headers: { 'apns-push-type': 'alert', 'apns-priority': '5' },
        payload: { aps: { 'interruption-level': 'passive' } },
      },
    });
  });

  test('a browser that has an FCM token shows it silently too, whatever the patch says for browsers', async () => {
    const loud = { vibrate: [200], renotify: true, requireInteraction: true, silent: false };
    const webpush = {
      headers: { Urgency: 'high', TTL: '60' },
      notification: { ...loud, icon: '/icon.png' },
      data: { a: 'b' },
    };
    const { message } = await received({ ...patched({ webpush }), silent: true });
    expect(message).toHaveProperty('webpush', {
      headers: { TTL: '60', Urgency: 'low' },
      notification: { icon: '/icon.png', silent: true },
      data: { a: 'b' },
    });
    const dataAlone = await received({
      ...patched({ notification: null, webpush: { data: { a: 'b' } } }),
      silent: true,
    });
    expect(dataAlone.message).toHaveProperty('webpush', { headers: { Urgency: 'low' }, data: { a: 'b' } });
    const loudly = await received(patched({ webpush }));
    expect(loudly.message).toHaveProperty('webpush', webpush);
  });

  test('a priority in other letters is the same header', async () => {
    const apns = { headers: { 'Apns-Priority': '10' } };
    const { message } = await received({ ...patched({ apns }), silent: true });
    expect(message).toHaveProperty('apns.headers', {
      'apns-push-type': 'alert',
      'apns-collapse-id': expect.any(String) as string,
      'apns-priority': '5',
    });
  });
});

const DATA_ONLY: PushFields = {
  alert: { title: 'Room 12', body: 'Forms' },
  data: { form: { id: 7 } },
  sound: 'default',
  badge: 3,
  priority: 'high',
  collapseId: 'forms',
  imageUrl: 'https://example.com/a.jpg',
  android: { dataOnly: true },
};

describe('android.dataOnly', () => {
  test('gives Android the data alone, at its priority, and an iPhone the whole alert', async () => {
    const { reply, message } = await received(DATA_ONLY);
    expect(reply).toMatchObject({ meaning: 'accepted' });
    expect(message).toEqual({
      data: { form: '{"id":7}' },
      android: { priority: 'high', collapse_key: 'forms' },
      apns: {
        headers: { 'apns-push-type': 'alert', 'apns-priority': '10', 'apns-collapse-id': 'forms' },
        payload: { aps: { alert: TEXTS, sound: 'default', badge: 3, 'mutable-content': 1 } },
        fcm_options: { image: 'https://example.com/a.jpg' },
      },
    });
  });

  test('silenced has a field for the app, and normal priority', async () => {
    const { reply, message } = await received({ ...DATA_ONLY, silent: true });
    expect(reply).toMatchObject({ meaning: 'accepted' });
    expect(message).toMatchObject({
      data: { form: '{"id":7}', pushpacer_silent: 'true' },
      android: { priority: 'normal', collapse_key: 'forms' },
      apns: {
        headers: { 'apns-push-type': 'alert', 'apns-priority': '5' },
        payload: { aps: { alert: TEXTS, 'interruption-level': 'passive', 'mutable-content': 1 } },
      },
    });
    expect(message).not.toHaveProperty('notification');
    expect(message).not.toHaveProperty('android.notification');
    expect(JSON.stringify(message)).not.toMatch(/sound|badge/);
  });

  test("has it in Android's own data too, which go before the others", async () => {
    const message = { android: { data: { own: 'a' } } };
    const sent = await received({ ...DATA_ONLY, fcm: { message }, silent: true });
    expect(sent.message).toHaveProperty('android.data', { own: 'a', pushpacer_silent: 'true' });
  });

  test('false is as without it', async () => {
    const { message } = await received({ alert: TEXTS, android: { dataOnly: false, color: '#1a73e8' } });
    expect(message).toMatchObject({ notification: TEXTS, android: { notification: { color: '#1a73e8' } } });
  });

  const good: EnqueueInput = {
    recipientId: 'r',
    devices: [{ platform: 'fcm', token: 't' }],
    alert: TEXTS,
    data: { a: 'b' },
  };

  test.each<[string, object, string[]]>([
    ['data', {}, []],
    ['data of the patch', { data: undefined, fcm: { message: { data: { a: 'b' } } } }, []],
    [
      'no data',
      { data: undefined },
      ['data: expected an object beside android.dataOnly, for the app to draw, found nothing'],
    ],
    [
      'empty data',
      { data: { a: null } },
      ['data: expected an object beside android.dataOnly, for the app to draw, found nothing'],
    ],
    [
      'a digest, whose count the app would not know',
      { onThrottle: 'digest', digest: { key: 'k', title: '{{count}} new' } },
      ['digest: expected none beside android.dataOnly, since the app itself draws, found one'],
    ],
    [
      'what Android draws by',
      { android: { dataOnly: true, channelId: 'a' } },
      ['android.channelId: expected none beside android.dataOnly, since the app itself draws, found one'],
    ],
    [
      'a notification by the patch',
      { fcm: { message: { notification: { title: 'a' }, android: { notification: { title: 'a' } } } } },
      [
        'fcm.message.notification: expected none beside android.dataOnly, since the app itself draws, found one',
        'fcm.message.android.notification: expected none beside android.dataOnly, since the app itself draws, found one',
      ],
    ],
  ])('with %s', (_, fields, faults) => {
    expect(faultsOf({ id: 'i', ...good, android: { dataOnly: true }, ...fields })).toEqual(faults);
  });

  test('has a size of its own: the data for Android, the alert for an iPhone', () => {
    const enqueue = (fields: Partial<EnqueueInput>) => checkInput({ ...good, android: { dataOnly: true }, ...fields });
    expect(enqueue({ data: { a: 'x'.repeat(4_095) } })).toMatchObject({ kind: 'added' });
    expect(enqueue({ data: { a: 'x'.repeat(4_096) } })).toMatchObject({ faults: [{ found: '4097 bytes' }] });
    const frame = Buffer.byteLength(JSON.stringify({ aps: { alert: { body: '' } } }));
    expect(enqueue({ alert: { body: 'x'.repeat(4_096 - frame) } })).toMatchObject({ kind: 'added' });
    expect(enqueue({ alert: { body: 'x'.repeat(4_097 - frame) } })).toMatchObject({ kind: 'invalid' });
  });
});
