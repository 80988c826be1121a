import { expect, test } from 'vitest';
import { asDigest } from '../../src/notification/schema.ts';
import { formatFault } from '../../src/domain/faults.ts';
import { parseNotification, type Notification } from '../../src/notification/notification.ts';
import { pushId, tagsOf } from '../../src/notification/device.ts';
import { checkInput, type EnqueueInput } from '../../src/producer/producer.ts';
import { openApns, openFcm, openSandbox, openWebpush, sendPush } from '../support/providers.ts';
import { makeDevice, makeNotification } from '../support/push.ts';

/** The first half of an emoji, as a text that was cut by its length ends in. */
const HALF = '\ud83d';
/** What stands in its place. */
const INSTEAD = '\ufffd';

const DEVICES = [
  { platform: 'apns', token: 'a1b2c3d4' },
  { platform: 'fcm', token: 'f1:APA91b' },
] as const;

const good: EnqueueInput = {
  id: 'cut',
  recipientId: 'teacher-42',
  devices: [...DEVICES],
  alert: { title: 'Room 12', body: 'Forms' },
};

function parsed(fields: Partial<EnqueueInput>): Notification {
  const result = parseNotification({ ...good, ...fields });
  if (!result.ok) throw new Error(result.faults.map(formatFault).join());
  return result.notification;
}

/** What each provider got, as JSON: there a lone surrogate is an escape. */
async function sentToAll(fields: Partial<EnqueueInput>, change = (notification: Notification) => notification) {
  const sandbox = await openSandbox();
  const browser = { platform: 'webpush', ...sandbox.webpush.subscription('ana') } as const;
  const notification = change(parsed({ ...fields, devices: [...DEVICES, browser] }));
  const providers = {
    apns: await openApns(sandbox),
    fcm: await openFcm(sandbox),
    webpush: await openWebpush(sandbox),
  };
  for (const [index, device] of notification.devices.entries()) {
    const push = { notification, device, pushId: pushId(notification.id, index), silent: false };
    expect(await sendPush(providers[device.platform], push)).toMatchObject({ meaning: 'accepted' });
  }
  return sandbox.journal.all.map(({ payload }) => JSON.stringify(payload));
}

test('half a character goes out as U+FFFD, in UTF-8, wherever in a text, in data or in a patch it stands', async () => {
  const sent = await sentToAll({
    alert: {
      title: `title${HALF}`,
      subtitle: `sub${HALF}`,
      body: `${HALF}body`,
      titleLocKey: 'K',
      titleLocArgs: [HALF],
    },
    data: { a: HALF, [`name${HALF}`]: 'b', deep: { b: [{ [`below${HALF}`]: [HALF] }] } },
    apns: { payload: { aps: { alert: { 'launch-image': `launch${HALF}` } }, [`own${HALF}`]: [HALF] } },
    fcm: { message: { android: { notification: { ticker: `ticker${HALF}` } } } },
  });
  expect(sent).toHaveLength(3);
  for (const json of sent) {
    expect(json).not.toMatch(/\\+ud[89a-f]/i);
    for (const text of [`title${INSTEAD}`, `${INSTEAD}body`, `name${INSTEAD}`, `below${INSTEAD}`]) {
      expect(json).toContain(text);
    }
  }
  const [apns, fcm] = sent;
  for (const json of [apns, fcm]) expect(json).toContain(`"launch${INSTEAD}"`);
  expect(fcm).toContain(`"ticker${INSTEAD}"`);
});

test('so does one in a digest', async () => {
  const digest = { key: 'k', title: `7b${HALF}`, body: `{{count}} new ${HALF}` };
  const sent = await sentToAll({ onThrottle: 'digest', digest }, (notification) => asDigest(notification, 5));
  for (const json of sent) {
    expect(json).toContain(`5 new ${INSTEAD}`);
    expect(json).not.toMatch(/\\+ud[89a-f]/i);
  }
});

test('the size is that of what goes out: three bytes for each half', () => {
  const frame = Buffer.byteLength(JSON.stringify({ aps: { alert: { title: '' } } }));
  const title = (room: number) => ({ title: HALF.repeat(Math.floor(room / 3)) + 'x'.repeat(room % 3) });
  const enqueue = (bytes: number) => checkInput({ ...good, devices: [DEVICES[0]], alert: title(bytes - frame) });
  expect(enqueue(4_096)).toMatchObject({ kind: 'added' });
  expect(enqueue(4_097)).toMatchObject({ kind: 'invalid', faults: [{ found: '4097 bytes' }] });
});

test('what is compared is refused with one, since two different ones could become the same', () => {
  const result = parseNotification({
    ...{ id: `a${HALF}`, recipientId: HALF, category: HALF, collapseId: HALF, cancellationKey: HALF, sound: HALF },
    ...{ onThrottle: 'digest', digest: { key: HALF, title: 'a' }, alert: { titleLocKey: HALF } },
    ...{ apns: { threadId: HALF }, android: { channelId: HALF }, devices: [{ platform: 'fcm', token: HALF }] },
  });
  expect(result.ok ? [] : result.faults.map(({ path }) => path).toSorted()).toEqual([
    ...['alert.titleLocKey', 'android.channelId', 'apns.threadId', 'cancellationKey', 'category', 'collapseId'],
    ...['devices[0].token', 'digest.key', 'id', 'recipientId', 'sound'],
  ]);
});

test('a null in data is as a key that is not there; inside of a value it stays', async () => {
  const sent = await sentToAll({ data: { nothing: null, form: { due: null, tags: [null] } } });
  for (const json of sent) expect(json).not.toContain('nothing');
  expect(sent[0]).toContain('"form":{"due":null,"tags":[null]}');
});

test('a push id is a UUID of version 5 that never changes', () => {
  expect(pushId('msg-8841', 0)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  // Written down: an upgrade in the middle of a retry must not change it.
  expect(pushId('msg-8841', 0)).toBe('d40149f3-0d92-5661-b93b-9b0c8ac11be2');
});

test('each device and each notification has its own', () => {
  const ids = ['msg-1', 'msg-11', 'msg-2'].flatMap((id) => [0, 1, 10, 11].map((index) => pushId(id, index)));
  expect(new Set(ids).size).toBe(ids.length);
});

test('the tags of several devices are each there once, and those of a device that is not there are none', () => {
  const devices = [makeDevice('apns'), makeDevice('fcm'), makeDevice('webpush')];
  const notification = makeNotification({ devices });
  expect(tagsOf(notification, [0, 1, 2, 7])).toEqual([0, 1, 2].map((index) => pushId(notification.id, index)));
  expect(tagsOf({ ...notification, collapseId: 'a' }, [0, 1, 2])).toEqual(['a']);
  expect(tagsOf(notification, [])).toEqual([]);
});
