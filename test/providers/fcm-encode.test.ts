import { expect, test } from 'vitest';
import { tokenOf } from '../../src/domain/device.ts';
import { openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush, type PushFields } from '../support/push.ts';

const NOW_MS = Date.parse('2026-11-21T18:00:00Z');

/** What FCM received of a push. */
async function received(fields: PushFields) {
  const sandbox = await openSandbox();
  const push = makePush({ platform: 'fcm', ...fields });
  const provider = await openFcm(sandbox, { now: () => NOW_MS });
  const reply = await sendPush(provider, push);
  return { push, reply, message: sandbox.journal.all[0]?.payload };
}

test('an alert is a notification with data beside it, and the push id as its tag', async () => {
  const data = { threadId: '77' };
  const { push, reply, message } = await received({ data, sound: 'default', badge: 3, priority: 'high' });
  expect(reply).toEqual({ meaning: 'accepted', code: '200', alerted: 'yes' });
  expect(message).toEqual({
    token: tokenOf(push.device),
    notification: push.notification.alert,
    data,
    android: { priority: 'high', notification: { tag: push.pushId, sound: 'default', notification_count: 3 } },
    apns: {
      headers: { 'apns-push-type': 'alert', 'apns-priority': '10', 'apns-collapse-id': push.pushId },
      payload: { aps: { sound: 'default', badge: 3 } },
    },
  });
});

test('a silent alert goes to the quiet channel, at normal priority', async () => {
  const { push, message } = await received({ silent: true, sound: 'default', badge: 3, priority: 'high' });
  expect(message).toMatchObject({
    notification: push.notification.alert,
    android: {
      priority: 'normal',
      notification: { tag: push.pushId, channel_id: 'silent', notification_priority: 'PRIORITY_LOW' },
    },
  });
  expect(JSON.stringify(message)).not.toMatch(/sound|count/);
});

test('a collapse key only where the producer asked for one', async () => {
  expect((await received({ collapseId: 'thread-77' })).message).toMatchObject({
    android: { collapse_key: 'thread-77', notification: { tag: 'thread-77' } },
  });
  expect((await received({})).message).not.toHaveProperty('android.collapse_key');
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

test('without expiresAt FCM decides how long it keeps it', async () => {
  expect((await received({})).message).not.toHaveProperty('android.ttl');
});
