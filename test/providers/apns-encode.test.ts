import { expect, test } from 'vitest';
import { openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush, type PushFields } from '../support/push.ts';

/** What APNs received of a push. */
async function received(fields: PushFields) {
  const sandbox = await openSandbox();
  const push = makePush(fields);
  const reply = await sendPush(await openApns(sandbox), push);
  return { push, reply, entry: sandbox.journal.all[0] };
}

test('an alert carries its words, its data at the root, and the push id', async () => {
  const data = { threadId: '77', screen: 'thread' };
  const { push, reply, entry } = await received({ data, sound: 'default', badge: 3, category: 'messages' });
  expect(reply).toEqual({ meaning: 'accepted', code: '200', alerted: 'yes' });
  expect(entry).toMatchObject({
    apnsId: push.pushId,
    pushType: 'alert',
    collapseId: push.pushId,
    expiration: undefined,
  });
  expect(entry?.payload).toEqual({ ...data, aps: { alert: push.notification.alert, sound: 'default', badge: 3 } });
});

test.each([
  ['high', false, '10'],
  ['normal', false, '10'],
  ['high', true, '5'],
] as const)('%s priority, silent %s: apns-priority %s', async (priority, silent, expected) => {
  const { entry } = await received({ priority, silent });
  expect(entry?.priority).toBe(expected);
});

test.each([
  [1, false, '1'],
  [1, true, '1'],
  [5, true, '5'],
  [10, true, '5'],
] as const)('apns.priority %d, silent %s: %s', async (priority, silent, expected) => {
  const { entry, reply } = await received({ apns: { priority }, silent });
  expect(reply.meaning).toBe('accepted');
  expect(entry?.priority).toBe(expected);
});

test('a silent alert is passive, without sound and badge', async () => {
  const { push, entry } = await received({ silent: true, sound: 'default', badge: 3 });
  expect(entry?.payload).toEqual({ aps: { alert: push.notification.alert, 'interruption-level': 'passive' } });
  expect(entry?.pushType).toBe('alert');
});

test.each([
  [1_800_000_000_999, 1_800_000_000],
  ['1970-01-01T00:00:00Z', 1], // 0 would mean "once, now, and do not keep"
])('expiresAt %s becomes %d', async (expiresAt, expected) => {
  const { entry } = await received({ expiresAt });
  expect(entry?.expiration).toBe(expected);
});

test('a collapse id goes as it is, or as a hash where a header cannot carry it', async () => {
  expect((await received({ collapseId: 'thread-77' })).entry?.collapseId).toBe('thread-77');
  const [first, again, other] = [
    await received({ collapseId: 'Elternabend: Grüße 🎒' }),
    await received({ collapseId: 'Elternabend: Grüße 🎒' }),
    await received({ collapseId: 'Elternabend: Grüße' }),
  ];
  expect(first.reply.meaning).toBe('accepted');
  expect(first.entry?.collapseId).toMatch(/^[\x21-\x7e]{1,64}$/);
  expect(again.entry?.collapseId).toBe(first.entry?.collapseId);
  expect(other.entry?.collapseId).not.toBe(first.entry?.collapseId);
});
