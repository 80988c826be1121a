import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, describe, onTestFinished } from 'vitest';
import type { DeliverParts } from '../../src/delivery/parts.ts';
import { readProgress } from '../../src/delivery/progress.ts';
import type { Rule } from '../../src/domain/limits.ts';
import { quotaNameOf, type Service } from '../../src/notification/device.ts';
import type { Platform } from '../../src/notification/notification.ts';
import type { Provider } from '../../src/providers/provider.ts';
import type { Quota } from '../../src/quota/quota.ts';
import { createRedisQuota } from '../../src/quota/redis-quota.ts';
import { openSandbox, openWebpush } from '../support/providers.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { useTimerClock, type TimerClock } from '../support/timer-clock.ts';
import { waitFor } from '../support/wait.ts';
import { heldBack, lockOf, openBench, none, POLICY } from './support.ts';

/** Everything that a job's progress was, in turn, under AT_MOST_ONCE. */
function recordSaves() {
  const saved: unknown[] = [];
  return { saved, lock: lockOf((progress) => Promise.resolve(saved.push(structuredClone(progress)) > 0)) };
}

describe('AT_MOST_ONCE', () => {
  it('notes each device that is still being sent to, also when another one has been acknowledged', async () => {
    const bench = await openBench();
    const { run, sandbox } = bench;
    const { saved, lock } = recordSaves();
    const providers = heldBack(bench, 'fcm', () => waitFor(() => expect(saved).toHaveLength(2)));
    const notification = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const { outcome, progress } = await run(notification, readProgress(0), { lock, providers, atMostOnce: true });
    expect(outcome).toEqual({ kind: 'delivered' });
    expect(progress.trying).toBeUndefined();
    expect(saved).toMatchObject([
      { devices: {}, trying: ['apns#0', 'fcm#1'] },
      { devices: { 'apns#0': 'delivered' }, trying: ['fcm#1'] },
    ]);

    // Its worker ended just after that: the other device may have been alerted.
    const next = await run(notification, readProgress(saved.at(-1)), { lock, atMostOnce: true });
    expect(next.progress.devices).toEqual({ 'apns#0': 'delivered', 'fcm#1': 'ambiguous' });
    expect(sandbox.journal.accepted).toHaveLength(2);
  });

  it('does not give up a device that was certainly not alerted, while another one is under way', async () => {
    const bench = await openBench();
    const { run, sandbox } = bench;
    const [busy, slow] = [makeDevice('apns'), makeDevice('fcm')];
    sandbox.apns.script(busy.token, [{ kind: 'refuse', status: 429, reason: 'TooManyRequests' }]);
    const { saved, lock } = recordSaves();
    const providers = heldBack(bench, 'fcm', () => waitFor(() => expect(saved).toHaveLength(2)));
    await run(makeNotification({ devices: [busy, slow] }), readProgress(0), { lock, providers, atMostOnce: true });
    expect(saved.at(-1)).toMatchObject({ devices: {}, trying: ['fcm#1'] });
  });

  it('counts a client that throws as an answer that leaves it open, and loses none of the others', async () => {
    const { run, parts, sandbox } = await openBench();
    const real = parts.providers.get('fcm');
    if (real === undefined) throw new Error('expected a provider for fcm');
    const fcm: Provider = { ...real, send: () => Promise.reject(new TypeError('unforeseen')) };
    const providers: typeof parts.providers = {
      get: (account) => (account === 'fcm' ? fcm : parts.providers.get(account)),
    };
    const overrides = { providers, atMostOnce: true };
    const { progress } = await run(
      makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] }),
      readProgress(0),
      overrides,
    );
    expect(progress.devices).toEqual({ 'apns#0': 'delivered', 'fcm#1': 'ambiguous' });
    expect(progress.attempts).toMatchObject([{ device: 'fcm#1', error: 'unexpected-error: unforeseen' }]);
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('notes what may have been alerted also where the rest has expired meanwhile', async () => {
    const { run, clock } = await openBench();
    const devices = [makeDevice('apns'), makeDevice('apns')];
    const notification = makeNotification({ devices, expiresAt: clock.now() - 1 });
    const { outcome } = await run(notification, readProgress({ trying: ['apns#0'] }), { atMostOnce: true });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'ambiguous' });
  });

  it('sends nothing that Redis would not note, gives the slot back, and tries again', async () => {
    const { run, sandbox, limiter } = await openBench({ platforms: ['apns'] });
    const refused = lockOf(() => Promise.reject(new Error('OOM command not allowed when used memory > maxmemory')));
    const notification = makeNotification();
    const first = await run(notification, readProgress(0), { lock: refused, atMostOnce: true });
    expect(first.outcome).toMatchObject({ kind: 'deferred', code: 'not-noted', waitMs: 1_000 });
    expect(sandbox.journal.all).toEqual([]);
    expect((await limiter.inspect(notification.recipientId)).sent).toEqual([]);
    const second = await run(notification, first.progress, { atMostOnce: true });
    expect(second.outcome).toEqual({ kind: 'delivered' });
  });

  it('does not send again what was under way when our own code failed', async () => {
    const { run, sandbox } = await openBench();
    const fail = () => Promise.reject(new TypeError('unforeseen'));
    const notification = makeNotification();
    const first = await run(notification, readProgress(0), { atMostOnce: true, onReply: fail });
    expect(first.outcome).toMatchObject({ kind: 'retried', code: 'unexpected-error' });
    const second = await run(notification, readProgress(first.progress), { atMostOnce: true });
    expect(second.outcome).toMatchObject({ kind: 'dead-letter', reason: 'ambiguous' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });
});

function openQuotas(rule: Rule, platforms: readonly Platform[] = ['fcm']): ReadonlyMap<Platform, Quota> {
  const [redis, prefix] = [onClock(connectRedis(), useTimerClock().now), testPrefix()];
  const quotas = platforms.map((name) => [name, createRedisQuota({ redis, name, rules: [rule], prefix })] as const);
  onTestFinished(async () => {
    for (const [, quota] of quotas) await quota.close();
  });
  return new Map(quotas);
}

function toFcm(recipientId: string, devices = 1) {
  return makeNotification({ recipientId, devices: Array.from({ length: devices }, () => makeDevice('fcm')) });
}

describe('a provider that is over its quota', () => {
  it('puts the notification back until there is room, gives its slot back, and sends it then', async () => {
    const { run, sandbox, limiter, clock } = await openBench();
    const quotas = openQuotas({ max: 1, perMs: 60_000 });
    await quotas.get('fcm')?.take(); // as for a send to somebody else
    const second = toFcm('b');
    const { outcome, progress } = await run(second, none, { quotas });
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'fcm:1/1m' });
    expect(progress).toMatchObject({ requeues: 1, tries: 0, quotaAt: { fcm: expect.any(Number) as number } });
    expect(await limiter.refund({ recipientId: 'b', id: `${second.id}/0` })).toBe(false);
    expect(await limiter.peek({ recipientId: 'b', id: 'another' })).toMatchObject({ kind: 'admitted' });

    clock.advance((outcome as { waitMs: number }).waitMs);
    const again = await run(second, progress, { quotas });
    expect(again.outcome).toEqual({ kind: 'delivered' });
    expect(again.progress.quotaAt).toBeUndefined();
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('calls what is left back at the instant that is set aside for it, and no later', async () => {
    const { run, sandbox, clock } = await openBench();
    const quotas = openQuotas({ max: 1, perMs: 60_000 });
    const random = () => 1;
    await quotas.get('fcm')?.take();
    const both = makeNotification({ recipientId: 'b', devices: [makeDevice('fcm'), makeDevice('apns')] });
    const { outcome, progress } = await run(both, none, { quotas, random });
    const { delayMs } = outcome as { delayMs: number };
    expect(clock.now() + delayMs).toBeLessThanOrEqual(Number(progress.quotaAt?.['fcm']) + 2);
    clock.advance(delayMs);
    expect((await run(both, progress, { quotas, random })).outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(2);
  });

  /** The quotas, of which one makes the process stand still once after a token, until the slot and the token are too old. */
  function standingStill(quotas: ReadonlyMap<Platform, Quota>, once: Platform, clock: TimerClock) {
    let left = 1;
    const take = async (name: Platform, promisedAt: number | undefined) => {
      const answer = await quotas.get(name)?.take(promisedAt);
      if (answer === undefined) throw new Error(`no quota ${name}`);
      if (name === once && left-- > 0) clock.advance(700);
      return answer;
    };
    return {
      get: (name: Service) =>
        quotas.has(name as Platform)
          ? { take: (promisedAt?: number) => take(name as Platform, promisedAt) }
          : undefined,
    };
  }

  it('notes no device as being sent to, if its token came to nothing and there is no other, under AT_MOST_ONCE', async () => {
    const { run, sandbox, clock } = await openBench();
    const quotas = standingStill(openQuotas({ max: 1, perMs: 60_000 }), 'fcm', clock);
    const { saved, lock } = recordSaves();
    const { outcome, progress } = await run(toFcm('a'), none, { quotas, lock, atMostOnce: true });
    expect(saved).toMatchObject([{ trying: ['fcm#0'] }]);
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'fcm:1/1m' });
    expect(progress.trying).toBeUndefined();
    expect(sandbox.journal.all).toEqual([]);
  });

  it('keeps the promise to one device, though the slot was missed and another device is sent to', async () => {
    const { run, sandbox, clock } = await openBench();
    const known = openQuotas({ max: 2, perMs: 60_000 }, ['fcm', 'apns']);
    for (let taken = 0; taken < 2; taken++) await known.get('fcm')?.take();
    const both = makeNotification({ recipientId: 'b', devices: [makeDevice('fcm'), makeDevice('apns')] });
    const { outcome, progress } = await run(both, none, { quotas: standingStill(known, 'apns', clock) });
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'fcm:2/1m' });
    expect(progress).toMatchObject({
      devices: { 'apns#1': 'delivered' },
      quotaAt: { fcm: expect.any(Number) as number },
    });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('ends what expires before there is room', async () => {
    const { run, limiter, sandbox, clock } = await openBench();
    const quotas = openQuotas({ max: 1, perMs: 60_000 });
    await run(toFcm('a'), none, { quotas });
    const shortLived = { ...toFcm('b'), expiresAt: clock.now() + 30_000 };
    expect((await run(shortLived, none, { quotas })).outcome).toEqual({ kind: 'expired' });
    expect(await limiter.peek({ recipientId: 'b', id: 'another' })).toMatchObject({ kind: 'admitted' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('does not end what also waits for a worker with the credentials of another device', async () => {
    const { run, clock } = await openBench({ platforms: ['fcm'] });
    const quotas = openQuotas({ max: 1, perMs: 60_000 });
    await run(toFcm('a'), none, { quotas });
    const devices = [makeDevice('apns'), makeDevice('fcm')];
    const shortLived = makeNotification({ recipientId: 'b', devices, expiresAt: clock.now() + 30_000 });
    const first = await run(shortLived, none, { quotas });
    expect(first.outcome).toEqual({ kind: 'deferred', waitMs: 1_000, code: 'no-credentials' });
    const second = await run(shortLived, first.progress, { quotas });
    expect(second.outcome).toEqual({ kind: 'deferred', waitMs: 2_000, code: 'no-credentials' });
  });

  it('takes a token for each device, and keeps those that are left for later', async () => {
    const { run, sandbox } = await openBench();
    const quotas = openQuotas({ max: 2, perMs: 60_000 });
    const { progress } = await run(toFcm('a', 3), none, { quotas });
    expect(progress.devices).toEqual({ 'fcm#0': 'delivered', 'fcm#1': 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(2);
  });
});

describe('a push service with a quota of its own', () => {
  it('counts in that alone, and lets the other push services go on', async () => {
    const { run, sandbox, clock } = await openBench({ platforms: [] });
    const other = await openSandbox({ dir: dirname(sandbox.caFile) }); // with the same key and authority
    const origins = [sandbox.webpush.url, other.webpush.url];
    const providers = new Map([['webpush' as const, await openWebpush(other, { origins })]]);
    const limited = `webpush@${new URL(sandbox.webpush.url).host}` as const;
    const [redis, prefix] = [onClock(connectRedis(), clock.now), testPrefix()];
    const rules = (max: number) => [{ max, perMs: 60_000 }];
    const ofAll = createRedisQuota({ redis, prefix, name: 'webpush', rules: rules(5) });
    const ofOne = createRedisQuota({ redis, prefix, name: quotaNameOf(limited), rules: rules(1) });
    onTestFinished(() => Promise.all([ofAll.close(), ofOne.close()]).then(() => undefined));
    const quotas = new Map<Service, Quota>([
      ['webpush', ofAll],
      [limited, ofOne],
    ]);
    await ofOne.take(); // as for a send to somebody else
    const devices = [sandbox, other].map(({ webpush }) => makeDevice('webpush', webpush.url));
    const both = makeNotification({ devices });
    const { outcome, progress } = await run(both, none, { quotas, providers });
    expect(outcome).toMatchObject({ kind: 'requeued', rule: `${limited}:1/1m` });
    expect(progress.devices).toEqual({ 'webpush#1': 'delivered' });
    expect(Object.keys(progress.quotaAt ?? {})).toEqual([limited]);
    expect([sandbox.webpush.counts.requests, other.webpush.counts.accepted]).toEqual([0, 1]);
    expect((await ofAll.used()).map(({ used }) => used)).toEqual([1]);
    expect((await ofOne.used()).map(({ used }) => used)).toEqual([1]);
  });
});

describe('a quota whose answer takes long', () => {
  /** The real quota, whose first answer is held back. */
  function slowOnce(quotas: ReadonlyMap<Platform, Quota>, byMs: number): DeliverParts['quotas'] {
    let leftMs = byMs;
    return new Map(
      [...quotas].map(([platform, quota]) => [
        platform,
        {
          take: async (promisedAt?: number) => {
            const answer = await quota.take(promisedAt);
            const waitMs = leftMs;
            leftMs = 0;
            await sleep(waitMs);
            return answer;
          },
        },
      ]),
    );
  }

  it('lets no alert out so late after its slot that it would land on the next one: it asks for another slot', async () => {
    const { run, sandbox, limiter } = await openBench();
    const quotas = slowOnce(openQuotas({ max: 100, perMs: 60_000 }), 0.7 * POLICY.minGapMs);
    expect((await run(toFcm('a'), none, { quotas })).outcome).toEqual({ kind: 'delivered' });
    const [slot] = (await limiter.inspect('a')).sent;
    const [arrived] = sandbox.journal.accepted;
    expect((arrived?.at ?? NaN) - (slot?.at ?? NaN)).toBeLessThan(POLICY.minGapMs / 4);
  });

  it('takes another token where the first one has run out before the slot', async () => {
    const { run, sandbox } = await openBench();
    const quotas = slowOnce(openQuotas({ max: 100, perMs: 1_000 }), 60); // a lease of 50 ms
    expect((await run(toFcm('b'), none, { quotas })).outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('uses no token past its time for an alert without a slot', async () => {
    const { run, sandbox } = await openBench();
    await run(toFcm('a'));
    const quotas = slowOnce(openQuotas({ max: 100, perMs: 1_000 }), 60); // a lease of 50 ms
    const late = { ...toFcm('a'), onThrottle: 'silence' };
    const { outcome, progress } = await run(late, none, { quotas });
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'too-late' });
    expect(sandbox.journal.accepted).toHaveLength(1);
    expect((await run(late, progress, { quotas })).outcome).toEqual({ kind: 'delivered', silenced: true });
    expect(sandbox.journal.accepted).toHaveLength(2);
  });
});
