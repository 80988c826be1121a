import { describe, expect, test } from 'vitest';
import { createCredential, type CredentialOptions, type SignedIn } from '../../src/providers/credential.ts';
import type { Reply } from '../../src/providers/provider.ts';

const MINUTE_MS = 60_000;
const FAILED: Reply = { meaning: 'later', alerted: 'no', unsent: true, trouble: 'auth', code: 'sign-in-refused' };

/** Headers `token-1`, `token-2` and so on, good for an hour, on a clock of our own. */
function open(options: Partial<CredentialOptions> = {}) {
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
    const { credential, signIns, clock } = open();
    expect(credential.current()).toBeUndefined();
    const all = await Promise.all([credential.obtain(), credential.obtain(), credential.obtain()]);
    expect(all).toEqual(['token-1', 'token-1', 'token-1']);
    clock.ms += 49 * MINUTE_MS;
    expect(credential.current()).toBe('token-1');
    expect(await credential.obtain()).toBe('token-1');
    expect(signIns.count).toBe(1);
  });

  test('is renewed ahead of its end, while the old one is still used', async () => {
    const { credential, signIns, clock, next } = open();
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
    const { credential, signIns, clock, next } = open();
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

  test('with less than half a minute left a send waits for the next one', async () => {
    const { credential, clock } = open();
    await credential.obtain();
    clock.ms += 60 * MINUTE_MS - 29_000;
    expect(credential.current()).toBeUndefined();
    expect(await credential.obtain()).toBe('token-2');
  });

  test('that takes too long has failed, and what comes of it later does no harm', async () => {
    const { credential, next, clock } = open({ timeoutMs: 50 });
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

  test('the next one waits: a second, doubled up to a minute; sends meanwhile are told the failure', async () => {
    const { credential, signIns, clock, next } = open();
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
  });

  test('the one that is still valid is used until its end', async () => {
    const { credential, signIns, clock, next } = open();
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
    const { credential, clock, next, make } = open();
    next.signIn = refused;
    expect(await credential.obtain()).toBe(FAILED);
    next.signIn = () => Promise.resolve(make());
    clock.ms -= 86_400_000;
    expect(await credential.obtain()).toBe('token-2');
  });

  test('one that worked begins the waits anew', async () => {
    const { credential, clock, next, make } = open();
    next.signIn = refused;
    for (let failures = 0; failures < 5; failures += 1) {
      await credential.obtain();
      clock.ms += MINUTE_MS;
    }
    next.signIn = () => Promise.resolve(make());
    await credential.obtain();
    next.signIn = refused;
    clock.ms += 60 * MINUTE_MS;
    expect(await credential.obtain()).toBe(FAILED);
    next.signIn = () => Promise.resolve(make());
    clock.ms += 1_000;
    expect(await credential.obtain()).toMatch(/^token-/);
  });
});

describe('credentials that the provider calls expired', () => {
  test('are replaced once for all sends that had them, also where the answers come one by one', async () => {
    const { credential, signIns, clock } = open();
    await credential.obtain();
    clock.ms += 5 * MINUTE_MS;
    const together = await Promise.all([credential.replace('token-1'), credential.replace('token-1')]);
    expect(together).toEqual([true, true]);
    await settle();
    expect(await credential.replace('token-1')).toBe(true); // another one is there already
    expect(signIns.count).toBe(2);
    expect(credential.current()).toBe('token-2');
  });

  test('are not replaced sooner than that is allowed: a clock may be wrong', async () => {
    const { credential, signIns, clock } = open();
    await credential.obtain();
    clock.ms += MINUTE_MS - 1;
    expect(await credential.replace('token-1')).toBe(false);
    clock.ms += 1;
    expect(await credential.replace('token-1')).toBe(true);
    expect(await credential.replace('token-2')).toBe(false);
    expect(signIns.count).toBe(2);
  });

  test('are no reason to send again where no others can be had', async () => {
    const { credential, clock, next } = open();
    await credential.obtain();
    clock.ms += 5 * MINUTE_MS;
    next.signIn = () => Promise.reject(new Error('invalid_grant'));
    expect(await credential.replace('token-1')).toBe(false);
    expect(await credential.obtain()).toBe(FAILED);
  });
});
