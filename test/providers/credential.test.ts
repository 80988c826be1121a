import { describe, expect, onTestFinished, test } from 'vitest';
import { tokenOf } from '../../src/notification/device.ts';
import { createCredential, type CredentialOptions, type SignedIn } from '../../src/providers/credential.ts';
import { readFcmAnswer } from '../../src/providers/fcm/answers.ts';
import { encodeFcm } from '../../src/providers/fcm/fcm.ts';
import type { Prepared, Push, Reply } from '../../src/providers/provider.ts';
import { parseEndpoint, trustBeside } from '../../src/providers/sender/result.ts';
import { createHttp2Provider, createSender } from '../../src/providers/sender/sender.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { fcmOptions, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';

const MINUTE_MS = 60_000;
const FAILED: Reply = { meaning: 'later', alerted: 'no', unsent: true, trouble: 'auth', code: 'sign-in-refused' };

/** Headers `token-1`, `token-2` and so on, good for an hour, on a clock of our own. */
function openCredential(options: Partial<CredentialOptions> = {}) {
  const clock = { ms: 1_000_000_000_000 };
  const signIns = { count: 0 };
  const make = (): SignedIn => ({ authorization: `token-${signIns.count}`, lifetimeMs: 60 * MINUTE_MS });
  const next = { signIn: (): Promise<SignedIn> => Promise.resolve(make()) };
  const credential = createCredential({
    signIn() {
      signIns.count += 1;
      return next.signIn();
    },
    failureReply: () => FAILED,
    renewBelowMs: 10 * MINUTE_MS,
    leastRenewalMs: MINUTE_MS,
    now: () => clock.ms,
    ...options,
  });
  return { clock, signIns, credential, next, make };
}

/** Lets a renewal that has begun come to its end. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a sign-in', () => {
  test('serves all sends of its lifetime, also those that ask at once', async () => {
    const { credential, signIns, clock } = openCredential();
    expect(credential.current()).toBeUndefined();
    const all = await Promise.all([credential.obtain(), credential.obtain(), credential.obtain()]);
    expect(all).toEqual(['token-1', 'token-1', 'token-1']);
    clock.ms += 49 * MINUTE_MS;
    expect(credential.current()).toBe('token-1');
    expect(await credential.obtain()).toBe('token-1');
    expect(signIns.count).toBe(1);
  });

  test('is renewed ahead of its end, while the old one is still used', async () => {
    const { credential, signIns, clock, next } = openCredential();
    await credential.obtain();
    const renewal = Promise.withResolvers<SignedIn>();
    next.signIn = () => renewal.promise;
    clock.ms += 51 * MINUTE_MS;
    expect(credential.current()).toBe('token-1');
    expect(credential.current()).toBe('token-1');
    expect(signIns.count).toBe(2);
    renewal.resolve({ authorization: 'renewed', lifetimeMs: 60 * MINUTE_MS });
    await settle();
    expect(credential.current()).toBe('renewed');
  });

  test('that gives a short life is not repeated with every send', async () => {
    const { credential, signIns, clock, next } = openCredential();
    next.signIn = () => Promise.resolve({ authorization: 'short', lifetimeMs: 6 * MINUTE_MS });
    await credential.obtain();
    for (let sent = 0; sent < 50; sent += 1) {
      expect(credential.current()).toBe('short');
      await settle();
    }
    expect(signIns.count).toBe(1);
    clock.ms += MINUTE_MS;
    credential.current();
    await settle();
    expect(signIns.count).toBe(2);
  });

  test('is renewed after the clock was set back by more than a minute, since its end is not known any more', async () => {
    const { credential, signIns, clock } = openCredential();
    await credential.obtain();
    for (const [backMs, before, after] of [
      [MINUTE_MS, 'token-1', 'token-1'],
      [1, 'token-1', 'token-2'],
      [0, 'token-2', 'token-2'],
    ] as const) {
      clock.ms -= backMs;
      expect(credential.current()).toBe(before);
      await settle();
      expect(credential.current()).toBe(after);
    }
    expect(signIns.count).toBe(2);
  });

  test('with less than half a minute left a send waits for the next one', async () => {
    const { credential, clock } = openCredential();
    await credential.obtain();
    clock.ms += 60 * MINUTE_MS - 29_000;
    expect(credential.current()).toBeUndefined();
    expect(await credential.obtain()).toBe('token-2');
  });

  test('that takes too long has failed, and what comes of it later does no harm', async () => {
    const { credential, next, clock } = openCredential({ timeoutMs: 50 });
    const late = Promise.withResolvers<SignedIn>();
    next.signIn = () => late.promise;
    expect(await credential.obtain()).toBe(FAILED);
    late.reject(new Error('refused in the end'));
    await settle();
    next.signIn = () => Promise.resolve({ authorization: 'later', lifetimeMs: 60 * MINUTE_MS });
    clock.ms += 1_000;
    expect(await credential.obtain()).toBe('later');
  });
});

describe('after a sign-in that failed', () => {
  const refused = (): Promise<never> => Promise.reject(new Error('invalid_grant'));

  test('the next one waits: a second, doubled up to a minute; sends meanwhile fail with the same error', async () => {
    const { credential, signIns, clock, next, make } = openCredential();
    next.signIn = refused;
    const waitsMs: number[] = [];
    for (let tries = 1; tries <= 9; tries += 1) {
      const before = clock.ms;
      while (signIns.count < tries) {
        expect(await credential.obtain()).toBe(FAILED);
        if (signIns.count < tries) clock.ms += 500;
      }
      waitsMs.push(clock.ms - before);
    }
    expect(waitsMs).toEqual([0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
    next.signIn = () => Promise.resolve(make());
    clock.ms += MINUTE_MS;
    expect(await credential.obtain()).toBe('token-10');
    next.signIn = refused;
    clock.ms += 60 * MINUTE_MS;
    expect(await credential.obtain()).toBe(FAILED);
    next.signIn = () => Promise.resolve(make());
    clock.ms += 1_000; // one that worked begins the waits anew
    expect(await credential.obtain()).toBe('token-12');
  });

  test('the one that is still valid is used until its end', async () => {
    const { credential, signIns, clock, next } = openCredential();
    await credential.obtain();
    next.signIn = refused;
    clock.ms += 55 * MINUTE_MS;
    expect(credential.current()).toBe('token-1');
    await settle();
    expect(signIns.count).toBe(2);
    expect(await credential.obtain()).toBe('token-1');
    clock.ms += 5 * MINUTE_MS;
    expect(credential.current()).toBeUndefined();
    expect(await credential.obtain()).toBe(FAILED);
  });

  test('a clock that is set back by a day does not keep the next one off', async () => {
    const { credential, clock, next, make } = openCredential();
    next.signIn = refused;
    expect(await credential.obtain()).toBe(FAILED);
    next.signIn = () => Promise.resolve(make());
    clock.ms -= 86_400_000;
    expect(await credential.obtain()).toBe('token-2');
  });
});

test('credentials that the provider calls expired are not replaced sooner than is allowed, nor where no others can be had', async () => {
  const { credential, signIns, clock, next } = openCredential();
  await credential.obtain();
  clock.ms += MINUTE_MS - 1; // a clock may be wrong
  expect(await credential.replace('token-1')).toBe(false);
  clock.ms += 1;
  expect(await credential.replace('token-1')).toBe(true);
  expect(await credential.replace('token-1')).toBe(true); // another one is there already
  expect(await credential.replace('token-2')).toBe(false);
  expect(signIns.count).toBe(2);
  clock.ms += 5 * MINUTE_MS;
  next.signIn = () => Promise.reject(new Error('invalid_grant'));
  expect(await credential.replace('token-2')).toBe(false);
  expect(await credential.obtain()).toBe(FAILED);
});

const GOOD: SignedIn = { authorization: 'Bearer owner', lifetimeMs: 3_600_000 };
const STALE: SignedIn = { authorization: 'Bearer stale', lifetimeMs: 3_600_000 };

/** FCM with a sign-in of our own; the loopback server takes `Bearer owner`, and calls all else unauthenticated. */
async function openProvider(sandbox: Sandbox, signIn: () => Promise<SignedIn>, encode?: (push: Push) => Prepared) {
  const { endpoint, ca, projectId } = await fcmOptions(sandbox);
  const clock = { ms: Date.now() };
  const now = (): number => clock.ms;
  const provider = createHttp2Provider({
    platform: 'fcm',
    sender: createSender({ endpoint: parseEndpoint(endpoint, 'endpoint'), secureContext: trustBeside(ca) }),
    credential: createCredential({ signIn, failureReply: () => FAILED, renewBelowMs: 0, leastRenewalMs: 60_000, now }),
    prepare: encode ?? ((push) => encodeFcm(push, { projectId }, now())),
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
  test('that are always called expired cost one more request, and then the reply says so', async () => {
    const sandbox = await openSandbox();
    let made = 0;
    const signIn = () => Promise.resolve({ ...STALE, authorization: `Bearer stale-${++made}` });
    const { provider, clock } = await openProvider(sandbox, signIn);
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
    const { provider, clock } = await openProvider(sandbox, signIn);
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
    const { provider, clock } = await openProvider(sandbox, signIn);
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
    const { provider } = await openProvider(sandbox, () => slow.promise);
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

test('a request that cannot be made is answered too, its stream is given back, and nothing private is shown', async () => {
  const sandbox = await openSandbox({ maxStreams: 1 });
  let isBroken = true;
  const { projectId } = await fcmOptions(sandbox);
  const { provider } = await openProvider(
    sandbox,
    () => Promise.resolve(GOOD),
    (one) => {
      const prepared = encodeFcm(one, { projectId }, 0);
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
  const { provider, clock } = await openProvider(sandbox, () =>
    asked++ === 0 ? Promise.resolve(STALE) : renewal.promise,
  );
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
