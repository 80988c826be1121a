import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseNotification, type Notification, type NotificationInput } from '../../src/notification/notification.ts';
import { pushId } from '../../src/notification/device.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { hostileText } from './hostile.ts';

/** A token of zeros alone is refused, as BadDeviceToken (sandbox/apns/head.ts). */
const hex = fc.stringMatching(/^([0-9a-fA-F]{2}){1,60}$/).filter((token) => !/^0+$/.test(token));
const visible = fc.stringMatching(/^[!-~]{1,120}$/);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });

/** Notifications of hostile texts in every field; most fit the schema, and what does not is thrown away. */
const input = fc
  .record({
    id: fc.stringMatching(/^[A-Za-z0-9._~-]{1,40}$/),
    recipientId: hostileText,
    alert: fc.record({ title: maybe(hostileText), body: hostileText }),
    data: maybe(
      fc.array(fc.tuple(hostileText, hostileText), { maxLength: 4 }).map((pairs) => Object.fromEntries(pairs)),
    ),
    sound: maybe(hostileText),
    collapseId: maybe(hostileText),
    apns: maybe(fc.record({ threadId: hostileText })),
    android: maybe(fc.record({ channelId: hostileText })),
  })
  .map((fields) => JSON.parse(JSON.stringify(fields)) as Omit<NotificationInput, 'devices'>);

/** Gives what fits to a real client, and what the server understood. */
async function sent(
  provider: Provider,
  fields: Omit<NotificationInput, 'devices'>,
  device: Notification['devices'][number],
) {
  // What one field may not contain is left out, so that most of what is tried is sent.
  const { sound, collapseId, data, apns, android, ...rest } = fields;
  const bare = { ...rest, recipientId: 'teacher-42', devices: [device] };
  const optional = [{ sound }, { collapseId }, { data }, { apns }, { android }].filter(
    (field) => parseNotification({ ...bare, ...field }).ok,
  );
  const parsed = parseNotification(Object.assign({}, bare, ...optional) as unknown);
  if (!parsed.ok) return undefined;
  const { notification } = parsed;
  const push = { notification, device, pushId: pushId(notification.id, 0), silent: false };
  return { notification, push, reply: await sendPush(provider, push) };
}

it('APNs gets the path, the headers and the payload that were meant, whatever the texts are', async () => {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox);
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(input, hex, async (fields, token) => {
      sandbox.journal.clear();
      const attempt = await sent(provider, fields, { platform: 'apns', token });
      if (attempt === undefined || attempt.reply.code === 'PayloadTooLarge') return;
      const { notification, push, reply } = attempt;
      expect(reply).toMatchObject({ meaning: 'accepted' });
      const [entry, ...more] = sandbox.journal.all;
      expect(more).toEqual([]);
      expect(entry).toMatchObject({
        token: token.toLowerCase(),
        apnsId: push.pushId,
        priority: '10',
        pushType: 'alert',
      });
      const { alert, sound, data = {}, apns } = notification;
      const aps = JSON.parse(JSON.stringify({ alert, sound, 'thread-id': apns?.threadId })) as unknown;
      expect(entry?.payload).toEqual({ ...data, aps });
      const { collapseId } = notification;
      const isPlain = collapseId !== undefined && /^[!-~]+$/.test(collapseId);
      expect(entry?.collapseId).toMatch(isPlain || collapseId === undefined ? /^[!-~]+$/ : /^[\w-]{43}$/);
      if (isPlain) expect(entry?.collapseId).toBe(collapseId);
      accepted += 1;
    }),
    { numRuns: 300 },
  );
  expect(accepted).toBeGreaterThan(100);
});

it('FCM gets the message that was meant, at the address that was meant', async () => {
  const sandbox = await openSandbox();
  const provider = await openFcm(sandbox);
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(input, visible, async (fields, token) => {
      sandbox.journal.clear();
      const attempt = await sent(provider, fields, { platform: 'fcm', token });
      if (attempt === undefined || attempt.reply.code === 'payload-too-large') return;
      const { notification, push, reply } = attempt;
      expect(reply).toMatchObject({ meaning: 'accepted' });
      const [entry, ...more] = sandbox.journal.all;
      expect(more).toEqual([]);
      const { alert, sound, data, collapseId, apns, android } = notification;
      const aps = JSON.parse(JSON.stringify({ sound, 'thread-id': apns?.threadId })) as object;
      expect(entry?.payload).toEqual({
        token,
        notification: JSON.parse(JSON.stringify(alert)) as unknown,
        ...(data !== undefined && { data }),
        android: {
          priority: 'normal',
          ...(collapseId !== undefined && { collapse_key: collapseId }),
          notification: {
            tag: collapseId ?? push.pushId,
            ...(sound !== undefined && { sound }),
            ...(android !== undefined && { channel_id: android.channelId }),
          },
        },
        apns: {
          headers: {
            'apns-push-type': 'alert',
            'apns-priority': '10',
            'apns-collapse-id': expect.stringMatching(/^[!-~]+$/) as string,
          },
          ...(Object.keys(aps).length > 0 && { payload: { aps } }),
        },
      });
      accepted += 1;
    }),
    { numRuns: 300 },
  );
  expect(accepted).toBeGreaterThan(100);
});

it.each(['..', '../..', 'a/b', '%0d%0a', 'ab\r\nx: y', 'ab\0', '', 'zz', 'ab?c=d', 'ab#c', ' ab'])(
  'an APNs token %j is refused: the path has room for hexadecimal digits alone',
  (token) => {
    const parsed = parseNotification({
      id: 'a',
      recipientId: 'r',
      devices: [{ platform: 'apns', token }],
      alert: { body: 'b' },
    });
    expect(parsed.ok).toBe(false);
  },
);

it('an alert that reads like an answer of APNs changes nothing about that answer', async () => {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox);
  const push = makePush({ alert: { title: 'ExpiredProviderToken' }, data: { reason: 'ExpiredProviderToken' } });
  expect(await sendPush(provider, push)).toMatchObject({ meaning: 'accepted' });
  sandbox.apns.script(push.device.token, [{ kind: 'refuse', status: 400, reason: 'ExpiredProviderToken field' }]);
  expect(await sendPush(provider, push)).toMatchObject({ meaning: 'rejected' });
  expect(sandbox.apns.counts.requests).toBe(2); // neither was sent once more
});

it('an alert that reads like an answer of FCM changes nothing about that answer', async () => {
  const sandbox = await openSandbox();
  const provider = await openFcm(sandbox);
  const push = makePush({ platform: 'fcm', alert: { title: 'QUOTA_EXCEEDED' } });
  sandbox.fcm.script(push.device.token, [{ kind: 'refuse', status: 429, reason: 'QUOTA_EXCEEDED' }]);
  expect(await sendPush(provider, push)).toMatchObject({ code: 'QUOTA_EXCEEDED', suspect: 'quota' });
});
