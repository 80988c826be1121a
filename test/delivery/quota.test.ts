import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { readProgress } from '../../src/delivery/progress.ts';
import type { Platform } from '../../src/domain/notification.ts';
import type { Rule } from '../../src/domain/limits.ts';
import type { Quota } from '../../src/limiter/quota.ts';
import { createRedisQuota } from '../../src/limiter/redis-quota.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { openBench } from './support.ts';

const none = readProgress(0);

function openQuotas(rule: Rule, platforms: readonly Platform[] = ['fcm']): ReadonlyMap<Platform, Quota> {
  const [redis, prefix] = [connectRedis(), testPrefix()];
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
    const { run, sandbox, limiter } = await openBench();
    const quotas = openQuotas({ max: 1, perMs: 800 });
    expect((await run(toFcm('a'), none, { quotas })).outcome).toEqual({ kind: 'delivered' });
    const second = toFcm('b');
    const { outcome, progress } = await run(second, none, { quotas });
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'fcm:1/800ms' });
    expect(progress).toMatchObject({ requeues: 1, tries: 0, quotaAt: { fcm: expect.any(Number) as number } });
    expect(await limiter.refund({ recipientId: 'b', id: `${second.id}/0` })).toBe(false);
    expect(await limiter.peek({ recipientId: 'b', id: 'another' })).toMatchObject({ kind: 'admitted' });

    await sleep((outcome as { waitMs: number }).waitMs);
    const again = await run(second, progress, { quotas });
    expect(again.outcome).toEqual({ kind: 'delivered' });
    expect(again.progress.quotaAt).toBeUndefined();
    expect(sandbox.journal.accepted).toHaveLength(2);
  });

  it('lets the other provider go on', async () => {
    const { run, sandbox } = await openBench();
    const quotas = openQuotas({ max: 1, perMs: 60_000 });
    await run(toFcm('a'), none, { quotas });
    const both = makeNotification({ recipientId: 'b', devices: [makeDevice('fcm'), makeDevice('apns')] });
    const { outcome, progress } = await run(both, none, { quotas });
    expect(outcome).toMatchObject({ kind: 'held' });
    expect((outcome as { waitMs: number }).waitMs).toBeGreaterThan(50_000);
    expect(progress.devices).toEqual({ 'apns#1': 'delivered' });
    expect(sandbox.journal.accepted.map(({ platform }) => platform)).toEqual(['fcm', 'apns']);
  });

  it('takes a token for each device, and keeps those that are left for later', async () => {
    const { run, sandbox } = await openBench();
    const quotas = openQuotas({ max: 2, perMs: 60_000 });
    const { progress } = await run(toFcm('a', 3), none, { quotas });
    expect(progress.devices).toEqual({ 'fcm#0': 'delivered', 'fcm#1': 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(2);
  });

  it('is asked for what goes out silently too', async () => {
    const { run, sandbox } = await openBench();
    const quotas = openQuotas({ max: 1, perMs: 60_000 });
    await run(toFcm('a'), none, { quotas });
    const silenced = { ...toFcm('a'), onThrottle: 'silence' };
    expect((await run(silenced, none, { quotas })).outcome).toMatchObject({ kind: 'requeued', rule: 'fcm:1/1m' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('keeps nobody who is over no quota', async () => {
    const { run, sandbox } = await openBench();
    const quotas = openQuotas({ max: 100, perMs: 1_000 }, ['fcm', 'apns']);
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, number) => run(toFcm(`teacher-${number}`), none, { quotas })),
    );
    expect(outcomes.map(({ outcome }) => outcome.kind)).toEqual(Array(20).fill('delivered'));
    expect(sandbox.journal.accepted).toHaveLength(20);
  });
});
