import { describe, expect, it } from 'vitest';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import {
  lostAfter,
  none,
  openBench,
  openBreaker,
  RECIPIENT,
  takeDown,
  untilHalfOpen,
  type Bench,
  type Overrides,
} from './support.ts';

describe('an open breaker', () => {
  it('keeps the notification: neither the limiter nor the provider is asked', async () => {
    const { run, sandbox, limiter, breakers } = await openBench();
    openBreaker(breakers, 'apns', 'auth', 'InvalidProviderToken');
    const { outcome, progress } = await run(makeNotification());
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'InvalidProviderToken' });
    expect(progress).toMatchObject({ tries: 0, asks: 0, heldSince: expect.any(Number) as number });
    expect(progress.dueAt).toBeGreaterThanOrEqual(breakers.current('apns')?.until ?? NaN);
    expect(sandbox.journal.all).toEqual([]);
    expect(await limiter.reset(RECIPIENT)).toBe(false);
  });

  it('is opened by refused credentials, and what met them is kept without an attempt', async () => {
    const { run, sandbox, breakers } = await openBench();
    const device = makeDevice();
    sandbox.apns.script(device.token, [{ kind: 'refuse', status: 403, reason: 'InvalidProviderToken' }]);
    const { outcome, progress } = await run(makeNotification({ devices: [device] }));
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'InvalidProviderToken' });
    expect(progress).toMatchObject({ tries: 0, asks: 1 });
    expect(breakers.current('apns')).toMatchObject({ trouble: 'auth', code: 'InvalidProviderToken' });
  });

  it('stops nothing to the other provider, and what is left asks for a slot of its own', async () => {
    const { run, sandbox, breakers } = await openBench();
    openBreaker(breakers, 'apns', 'auth');
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const { outcome, progress } = await run(both);
    expect(outcome).toMatchObject({ kind: 'deferred' });
    expect(progress).toMatchObject({ asks: 1, devices: { 'fcm#1': 'delivered' } });
    expect(sandbox.journal.all.map(({ platform }) => platform)).toEqual(['fcm']);
  });

  it('after which the limiter gives no answer never makes the slot of the other device seem unused', async () => {
    const bench = await openBench({ breakerMs: 200 });
    const { run, limiter, breakers } = bench;
    openBreaker(breakers, 'apns', 'auth');
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const first = await run(both);
    await untilHalfOpen(bench, 'apns');
    const admit = () => Promise.reject(new LimiterUnavailableError('away'));
    const second = await run(both, first.progress, { limiter: { ...limiter, admit } });
    expect(second.outcome).toMatchObject({ kind: 'deferred', code: 'limiter-unavailable' });
    const third = await run(both, second.progress, { isSlotUnused: second.progress.unsent === true });
    expect(third.outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });

  it('does not end what expires meanwhile in any other way', async () => {
    const { run, breakers } = await openBench();
    openBreaker(breakers, 'apns', 'outage');
    const notification = makeNotification({ expiresAt: Date.now() + 60_000 });
    const { progress } = await run(notification);
    const later = { now: () => Date.now() + 60_000 };
    expect((await run(notification, progress, later)).outcome).toEqual({ kind: 'expired' });
  });

  it('leaves the first place to another one where the notification waits for a provider that is back sooner', async () => {
    const { run, breakers } = await openBench();
    openBreaker(breakers, 'apns', 'auth');
    const evidence = { recipientId: 'somebody-else', code: 'QUOTA_EXCEEDED' } as const;
    breakers.report({ service: 'fcm', ...evidence, trouble: 'quota', retryAfterMs: 120_000 });
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const first = await run(both, none, { enqueuedAt: 0 });
    const second = await run(makeNotification({ devices: [makeDevice('fcm')] }), none, { enqueuedAt: 0 });
    const until = (platform: 'apns' | 'fcm') => breakers.current(platform)?.until ?? NaN;
    expect(first.progress.dueAt).toBeLessThan(until('fcm'));
    expect((second.progress.dueAt ?? NaN) - until('fcm')).toBeLessThan(1_000); // the first place, and not a second later
  });
});

describe('what was under way when the breaker opened', () => {
  /** The pass of a notification whose answer takes its time, and the breaker that opens meanwhile. */
  async function overtaken({ run, sandbox, breakers }: Bench, trouble: 'configuration' | 'outage', answer: object) {
    const device = makeDevice();
    sandbox.apns.script(device.token, [{ kind: 'refuse', status: 400, delayMs: 200, ...answer }]);
    const pass = run(makeNotification({ devices: [device] }));
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
    openBreaker(breakers, 'apns', trouble);
    return pass;
  }

  it('keeps the job of a bad token: many of them say that our own configuration is wrong', async () => {
    const bench = await openBench();
    const { outcome, progress } = await overtaken(bench, 'configuration', { reason: 'BadDeviceToken' });
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'BadDeviceToken' });
    expect(progress).toMatchObject({ tries: 0, devices: {} });
    expect((await bench.limiter.inspect(RECIPIENT)).sent).toEqual([]);
  });

  it('ends the job of a bad token in any other trouble', async () => {
    const { outcome } = await overtaken(await openBench(), 'outage', { reason: 'BadDeviceToken' });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'bad-token' });
  });

  it('costs no attempt in an outage', async () => {
    const { outcome, progress } = await overtaken(await openBench(), 'outage', {
      status: 503,
      reason: 'ServiceUnavailable',
    });
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'ServiceUnavailable' });
    expect(progress).toMatchObject({ tries: 0, asks: 1 });
  });

  it('costs one where it may have alerted, and comes back behind the trial', async () => {
    const { outcome, progress } = await overtaken(await openBench(), 'outage', {
      status: 500,
      reason: 'InternalServerError',
    });
    expect(outcome).toMatchObject({ kind: 'retried', code: 'InternalServerError' });
    expect((outcome as { waitMs: number }).waitMs).toBeGreaterThan(55_000);
    expect(progress.tries).toBe(1);
  });
});

describe('a half open breaker', () => {
  async function openHalf(options: object = {}): Promise<Bench> {
    const bench = await openBench({ breakerMs: 200, ...options });
    openBreaker(bench.breakers, 'apns', 'auth');
    await untilHalfOpen(bench, 'apns');
    return bench;
  }

  it('lets one notification through, keeps the others, and closes when that one is accepted', async () => {
    const { run, sandbox, breakers, trialEnds } = await openHalf();
    const passes = Array.from({ length: 10 }, (_, n) => run(makeNotification({ recipientId: `teacher-${n}` })));
    const kinds = (await Promise.all(passes)).map(({ outcome }) => outcome.kind);
    expect(kinds.toSorted()).toEqual([...(Array(9).fill('deferred') as string[]), 'delivered']);
    expect(sandbox.journal.all).toHaveLength(1);
    expect(breakers.current('apns')).toBeUndefined();
    expect(trialEnds).toEqual([{ service: 'apns', result: 'success' }]);
  });

  it('stays open where the trial fails', async () => {
    const { run, sandbox, breakers, trialEnds } = await openHalf();
    const device = makeDevice();
    sandbox.apns.script(device.token, [{ kind: 'refuse', status: 403, reason: 'InvalidProviderToken' }]);
    const { outcome, progress } = await run(makeNotification({ devices: [device] }));
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'InvalidProviderToken' });
    expect(progress.tries).toBe(0);
    expect(breakers.current('apns')).toMatchObject({ trouble: 'auth' });
    expect(trialEnds).toEqual([{ service: 'apns', result: 'failure' }]);
  });

  it('takes a provider that cannot be reached for a trial that failed', async () => {
    const bench = await openHalf();
    await takeDown(bench, 'apns');
    expect((await bench.run(makeNotification())).outcome).toMatchObject({ kind: 'deferred' });
    expect(bench.trialEnds).toEqual([{ service: 'apns', result: 'failure' }]);
  });

  it('counts the first answer of a notification to several devices', async () => {
    const { run, sandbox, trialEnds } = await openHalf();
    const devices = [makeDevice(), makeDevice()];
    sandbox.apns.script(devices[1]?.token ?? '', [{ kind: 'accept', delayMs: 200 }]);
    expect((await run(makeNotification({ devices }))).outcome).toEqual({ kind: 'delivered' });
    expect(trialEnds).toEqual([{ service: 'apns', result: 'success' }]);
  });

  const away = () => Promise.reject(new LimiterUnavailableError('away'));
  it.each<[string, Overrides | undefined, object?]>([
    ['requeued', undefined],
    ['dropped', undefined, { onThrottle: 'drop' }],
    ['too long throttled', { maxWaitMs: 1 }],
    ['taken over', { lock: lostAfter(1) }, { recipientId: 'free' }],
    ['stopped', { signal: AbortSignal.abort() }, { recipientId: 'free' }],
    ['kept for a limiter that is away', { limiter: { admit: away, refund: away, cancel: away, moveUp: away } }],
  ])('gives the trial to another one where its notification is %s', async (_, overrides, fields) => {
    const { run, breakers, limiter, trialEnds, sandbox } = await openHalf();
    await limiter.admit({ recipientId: RECIPIENT, id: 'another' });
    await run(makeNotification(fields), none, overrides);
    expect(trialEnds).toEqual([{ service: 'apns', result: 'unused' }]);
    expect(sandbox.journal.all).toEqual([]);
    await waitFor(async () => {
      const next = await breakers.enter('apns', 'next');
      expect(next.kind).toBe('trial');
      if (next.kind === 'trial') breakers.release(next.trial);
    });
  });
});
