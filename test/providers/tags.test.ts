import { expect, test } from 'vitest';
import { valueAt } from '../../src/domain/json.ts';
import { pushId, tagsOf } from '../../src/notification/device.ts';
import { openApns, openFcm, openSandbox, openWebpush, sendPush } from '../support/providers.ts';
import { makeDevice, makeNotification, makePush, type PushFields } from '../support/push.ts';

test.each<PushFields>([
  {},
  { collapseId: 'thread-77' },
  { collapseId: 'Elternabend: Grüße 🎒' },
  { android: { tag: 'forms' } },
  { collapseId: 'thread-77', android: { tag: 'Grüße' } },
])('the tags of %j are those under which the devices show it', async (fields) => {
  const sandbox = await openSandbox();
  const [apns, fcm] = [makePush({ id: 'a', ...fields }), makePush({ id: 'f', platform: 'fcm', ...fields })];
  const web = makePush({ id: 'w', platform: 'webpush', server: sandbox.env()['WEBPUSH_ORIGINS'] ?? '', ...fields });
  await sendPush(await openApns(sandbox), apns);
  await sendPush(await openFcm(sandbox), fcm);
  await sendPush(await openWebpush(sandbox), web);
  const [toApns, toFcm, toWeb] = sandbox.journal.all;
  const paths = ['android.notification.tag', 'apns.headers.apns-collapse-id'];
  const ofFcm = new Set(paths.map((path) => valueAt(toFcm?.payload, path)));
  expect(tagsOf(apns.notification, [0])).toEqual([toApns?.collapseId]);
  expect(tagsOf(fcm.notification, [0])).toEqual([...ofFcm]);
  expect(tagsOf(web.notification, [0])).toEqual([toWeb?.tag]);
});

test('the tags of several devices are each there once, and those of a device that is not there are none', () => {
  const devices = [makeDevice('apns'), makeDevice('fcm'), makeDevice('webpush')];
  const notification = makeNotification({ devices });
  expect(tagsOf(notification, [0, 1, 2, 7])).toEqual([0, 1, 2].map((index) => pushId(notification.id, index)));
  expect(tagsOf({ ...notification, collapseId: 'a' }, [0, 1, 2])).toEqual(['a']);
  expect(tagsOf(notification, [])).toEqual([]);
});
