import { expect, test } from 'vitest';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush, type PushFields } from '../support/push.ts';

const NOW_S = 1_795_280_400;
const UPDATE = { event: 'update', contentState: { score: '2 : 1' } } as const;

/** A push to a channel. */
const pushTo = (id: string, fields: PushFields = {}) =>
  makePush({
    ...{ recipientId: id, channel: { id }, devices: undefined, alert: undefined },
    ...{ pushType: 'liveactivity', liveActivity: UPDATE },
    ...fields,
  });

/** A channel of the sandbox's app, and what APNs received of a push to it. */
async function received(fields: PushFields = {}, policy: 0 | 1 = 0) {
  const sandbox = await openSandbox();
  const id = channelOf(sandbox, policy);
  const channel = { id, ...(policy === 1 && { storage: 'most-recent' as const }) };
  const push = pushTo(id, { channel, ...fields });
  const provider = await openApns(sandbox, { now: () => NOW_S * 1_000 + 999 });
  const prepared = provider.prepare(push);
  // The token must be new by the real clock, and the request itself may be old.
  const reply = prepared.kind === 'ready' ? await (await openApns(sandbox)).send(prepared.encoded) : prepared.reply;
  return { push, reply, id, entry: sandbox.journal.all[0] };
}

function channelOf(sandbox: Sandbox, policy: 0 | 1 = 0): string {
  return sandbox.apns.channels().create(policy) ?? '';
}

test('it goes to the app’s channel with the headers that Apple documents, and no others', async () => {
  const sandbox = await openSandbox();
  const id = channelOf(sandbox);
  const push = pushTo(id, { collapseId: 'match-12' });
  const prepared = (await openApns(sandbox)).prepare(push);
  expect(prepared).toMatchObject({
    encoded: {
      path: '/4/broadcasts/apps/dev.pushpacer.sandbox',
      headers: {
        'content-type': 'application/json',
        'apns-request-id': push.pushId,
        'apns-channel-id': id,
        'apns-push-type': 'liveactivity',
        'apns-priority': 5,
        'apns-expiration': 0,
      },
    },
  });
  const headers = prepared.kind === 'ready' ? Object.keys(prepared.encoded.headers) : [];
  expect(headers).not.toContain('apns-topic');
  expect(headers).not.toContain('apns-collapse-id');
  expect(await sendPush(await openApns(sandbox), push)).toEqual({ meaning: 'accepted', code: '200', alerted: 'yes' });
  expect(sandbox.journal.of(push.notification.id)).toMatchObject([{ channel: id, apnsId: push.pushId }]);
});

test.each<[what: string, PushFields, 0 | 1, number]>([
  ['a channel that keeps nothing', {}, 0, 0],
  ['the same, although the notification expires', { expiresAt: (NOW_S + 60) * 1_000 }, 0, 0],
  ['a channel that keeps the newest', {}, 1, NOW_S + 8 * 3_600],
  ['the same, until the notification expires', { expiresAt: (NOW_S + 60) * 1_000 }, 1, NOW_S + 60],
  ['the same, for 8 hours at most', { expiresAt: (NOW_S + 86_400) * 1_000 }, 1, NOW_S + 8 * 3_600],
])('apns-expiration of %s', async (_, fields, policy, expected) => {
  const { reply, entry } = await received(fields, policy);
  expect(reply.meaning).toBe('accepted');
  expect(entry?.expiration).toBe(expected);
});

test.each<[PushFields, string]>([
  [{}, '5'],
  [{ priority: 'high' }, '10'],
  [{ alert: { title: 'Goal' } }, '10'],
  [{ alert: { title: 'Goal' }, silent: true }, '5'],
  [{ apns: { priority: 10 } }, '10'],
])('%j is apns-priority %s', async (fields, expected) => {
  const { reply, entry } = await received(fields);
  expect(reply.meaning).toBe('accepted');
  expect(entry?.priority).toBe(expected);
  if (fields.silent === true) expect(entry?.payload).not.toHaveProperty('aps.alert');
});

test('the path has the bundle id without the suffix of Live Activities, which APNs refuses there', async () => {
  const { reply, entry } = await received({ apns: { topic: 'dev.pushpacer.sandbox.push-type.liveactivity' } });
  expect(reply.meaning).toBe('accepted');
  expect(entry?.topic).toBe('dev.pushpacer.sandbox');
});

test('what APNs refuses ends it, or shows that the app is set up wrong', async () => {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox);
  const sent = (id: string, fields: PushFields = {}) => sendPush(provider, pushTo(id, fields));
  const deleted = channelOf(sandbox);
  sandbox.apns.channels().delete(deleted);
  expect(await sent(deleted)).toEqual({ meaning: 'gone', alerted: 'no', code: 'ChannelNotRegistered' });
  expect(await sent('AAAAAAAAAAAAAAAAAAAAAA==')).toEqual({ meaning: 'bad-token', alerted: 'no', code: 'BadChannelId' });
  const own = channelOf(sandbox);
  expect(await sent(own, { channel: { id: own, storage: 'most-recent' } })).toMatchObject({
    meaning: 'rejected',
    code: 'BadExpirationDate',
  });
  expect(await sent(own, { apns: { topic: 'com.example.other' } })).toMatchObject({
    meaning: 'rejected',
    code: 'TopicMismatch',
  });
  sandbox.setAnswers([{ token: own, reason: 'FeatureNotEnabled', times: 1 }]);
  expect(await sent(own)).toEqual({ meaning: 'rejected', alerted: 'no', code: 'FeatureNotEnabled' });
  expect((await sent(own)).meaning).toBe('accepted');
});
