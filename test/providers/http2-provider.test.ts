import { describe, expect, onTestFinished, test } from 'vitest';
import { tokenOf } from '../../src/domain/device.ts';
import { createCredential, type SignedIn } from '../../src/providers/credential.ts';
import { readFcmAnswer } from '../../src/providers/fcm/answers.ts';
import { encodeFcm } from '../../src/providers/fcm/fcm.ts';
import { createHttp2Provider, createSender } from '../../src/providers/sender/sender.ts';
import type { Prepared, Push, Reply } from '../../src/providers/provider.ts';
import { parseEndpoint, trustBeside } from '../../src/providers/sender/result.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { fcmOptions, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';

const GOOD: SignedIn = { authorization: 'Bearer owner', lifetimeMs: 3_600_000 };
const STALE: SignedIn = { authorization: 'Bearer stale', lifetimeMs: 3_600_000 };
const FAILED: Reply = { meaning: 'later', alerted: 'no', unsent: true, trouble: 'auth', code: 'sign-in-refused' };

/** FCM with a sign-in of our own; the loopback server takes `Bearer owner`, and calls all else unauthenticated. */
async function open(sandbox: Sandbox, signIn: () => Promise<SignedIn>, encode?: (push: Push) => Prepared) {
  const { endpoint, ca, projectId } = await fcmOptions(sandbox);
  const clock = { ms: Date.now() };
  const now = (): number => clock.ms;
  const provider = createHttp2Provider({
    platform: 'fcm',
    sender: createSender({ endpoint: parseEndpoint(endpoint, 'endpoint'), secureContext: trustBeside(ca) }),
    credential: createCredential({ signIn, failureReply: () => FAILED, renewBelowMs: 0, leastRenewalMs: 60_000, now }),
    prepare: encode ?? ((push) => encodeFcm(push, projectId, now())),
    readAnswer: (answer, push) => readFcmAnswer(answer, push, now()),
    isExpired: ({ code }) => code === 'UNAUTHENTICATED',
  });
  onTestFinished(() => provider.close());
  return { provider, clock };
}

const push = (): Push => makePush({ platform: 'fcm' });

/** A sign-in that gives these in turn, the last one for ever. */
function inTurn(...all: readonly SignedIn[]) {
  const asked = { count: 0 };
  const signIn = (): Promise<SignedIn> => Promise.resolve(all[Math.min(asked.count++, all.length - 1)] ?? GOOD);
  return { asked, signIn };
}

describe('credentials', () => {
  test('that are called expired are renewed, and the push is sent exactly once more', async () => {
    const sandbox = await openSandbox();
    const { asked, signIn } = inTurn(STALE, GOOD);
    const { provider, clock } = await open(sandbox, signIn);
    await provider.connect();
    clock.ms += 120_000;
    const reply = await sendPush(provider, push());
    expect(reply.meaning).toBe('accepted');
    expect(sandbox.journal.all.map(({ status }) => status)).toEqual([401, 200]);
    expect(asked.count).toBe(2);
    expect((await sendPush(provider, push())).meaning).toBe('accepted');
    expect(sandbox.journal.all).toHaveLength(3);
  });

  test('that are always called expired cost one more request, and then the reply says so', async () => {
    const sandbox = await openSandbox();
    let made = 0;
    const signIn = () => Promise.resolve({ ...STALE, authorization: `Bearer stale-${++made}` });
    const { provider, clock } = await open(sandbox, signIn);
    await provider.connect();
    clock.ms += 120_000;
    expect(await sendPush(provider, push())).toMatchObject({ code: 'UNAUTHENTICATED', trouble: 'auth' });
    expect(sandbox.fcm.counts.requests).toBe(2);
    expect(await sendPush(provider, push())).toMatchObject({ code: 'UNAUTHENTICATED', trouble: 'auth' });
    expect(sandbox.fcm.counts.requests).toBe(3); // the new ones are too young to be replaced
    expect(made).toBe(2);
  });

  test('one renewal serves a hundred sends that were under way, whenever their answers come', async () => {
    const sandbox = await openSandbox({ latency: { medianMs: 20, p99Ms: 200 } });
    const { asked, signIn } = inTurn(STALE, GOOD);
    const { provider, clock } = await open(sandbox, signIn);
    await provider.connect();
    clock.ms += 120_000;
    const replies = await Promise.all(Array.from({ length: 100 }, () => sendPush(provider, push())));
    expect(replies.filter(({ meaning }) => meaning === 'accepted')).toHaveLength(100);
    expect(asked.count).toBe(2);
    expect(sandbox.journal.accepted).toHaveLength(100);
  });

  test('that cannot be had: nothing is sent, and the permit is given back', async () => {
    const sandbox = await openSandbox({ maxStreams: 1 });
    let isRefused = false;
    const signIn = () => (isRefused ? Promise.reject(new Error('invalid_grant')) : Promise.resolve(GOOD));
    const { provider, clock } = await open(sandbox, signIn);
    const first = await provider.reserve({});
    const second = await provider.reserve({});
    if (first.kind !== 'permit' || second.kind !== 'permit') throw new Error('expected two permits');
    isRefused = true;
    clock.ms += 3_600_000; // they have run out meanwhile
    for (const { permit } of [first, second]) expect(await sendPush(provider, push(), { permit })).toBe(FAILED);
    expect(await provider.reserve({})).toEqual({ kind: 'none', reply: FAILED });
    expect(sandbox.fcm.counts.requests).toBe(0);
    isRefused = false;
    clock.ms += 60_000;
    expect((await sendPush(provider, push())).meaning).toBe('accepted');
    const again = [await provider.reserve({}), await provider.reserve({})];
    expect(again.map(({ kind }) => kind)).toEqual(['permit', 'permit']);
  });

  test('that are still awaited when the sends are given up: nothing is sent when they come', async () => {
    const sandbox = await openSandbox();
    const slow = Promise.withResolvers<SignedIn>();
    const { provider } = await open(sandbox, () => slow.promise);
    const replies = [sendPush(provider, push()), sendPush(provider, push())];
    const reserved = provider.reserve({});
    provider.abort();
    for (const reply of await Promise.all(replies)) expect(reply).toMatchObject({ code: 'cancelled', unsent: true });
    expect(await reserved).toMatchObject({ kind: 'none', reply: { code: 'cancelled' } });
    slow.resolve(GOOD);
    const later = push();
    expect((await sendPush(provider, later)).meaning).toBe('accepted');
    expect(sandbox.journal.all.map(({ token }) => token)).toEqual([tokenOf(later.device)]);
  });
});

test('a request that cannot be made is answered too, its stream is given back, and nothing private is told', async () => {
  const sandbox = await openSandbox({ maxStreams: 1 });
  let isBroken = true;
  const { projectId } = await fcmOptions(sandbox);
  const { provider } = await open(
    sandbox,
    () => Promise.resolve(GOOD),
    (one) => {
      const prepared = encodeFcm(one, projectId, 0);
      if (!isBroken || prepared.kind === 'refused') return prepared;
      return { kind: 'ready', encoded: { ...prepared.encoded, headers: { [`no name ${tokenOf(one.device)}`]: '' } } };
    },
  );
  for (let sent = 0; sent < 10; sent += 1) {
    const one = push();
    const reply = await sendPush(provider, one);
    expect(reply).toMatchObject({ code: 'unexpected-error', meaning: 'later' });
    expect(JSON.stringify(reply)).not.toContain(tokenOf(one.device));
  }
  isBroken = false;
  expect((await sendPush(provider, push())).meaning).toBe('accepted');
  expect(sandbox.fcm.counts.requests).toBe(1);
});

test('close: what is under way ends first, the repetition for renewed credentials too; what comes meanwhile is refused', async () => {
  const sandbox = await openSandbox();
  const renewal = Promise.withResolvers<SignedIn>();
  let asked = 0;
  const { provider, clock } = await open(sandbox, () => (asked++ === 0 ? Promise.resolve(STALE) : renewal.promise));
  await provider.connect();
  clock.ms += 120_000;
  const reply = sendPush(provider, push());
  await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
  const closed = provider.close();
  expect(await sendPush(provider, push())).toMatchObject({ code: 'closed', unsent: true });
  expect(await provider.reserve({})).toMatchObject({ kind: 'none', reply: { code: 'closed' } });
  renewal.resolve(GOOD);
  expect((await reply).meaning).toBe('accepted');
  await closed;
  await provider.connect();
  expect(await sendPush(provider, push())).toMatchObject({ code: 'closed', unsent: true });
  expect(sandbox.journal.all).toHaveLength(2);
  await waitFor(() => expect(sandbox.fcm.openConnections).toBe(0));
});
