import { onTestFinished } from 'vitest';
import type { Platform } from '../../src/domain/notification.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { deliver, type DeliverParts } from '../../src/delivery/deliver.ts';
import type { Pass } from '../../src/delivery/pass.ts';
import { readProgress, type Progress } from '../../src/delivery/progress.ts';
import type { ReplyEvent } from '../../src/delivery/send.ts';
import { createTransit } from '../../src/delivery/transit.ts';
import type { Concluded } from '../../src/delivery/conclude.ts';
import { createPauses } from '../../src/pause/redis-pauses.ts';
import { createRedisLimiter } from '../../src/limiter/redis-limiter.ts';
import type { Limiter } from '../../src/limiter/limiter.ts';
import type { Lease } from '../../src/queue/lease.ts';
import type { Provider } from '../../src/providers/provider.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { openApns, openFcm, openSandbox } from '../support/providers.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

export interface Bench {
  readonly sandbox: Sandbox;
  readonly limiter: Limiter;
  readonly replies: ReplyEvent[];
  readonly parts: DeliverParts;
  /** One pass of a job through the pipeline, on real parts. */
  readonly run: (data: unknown, progress?: Progress, overrides?: Partial<DeliverParts & Pass>) => Promise<Concluded>;
}

/** The hold on a job that nobody else wants; what is saved goes to `save`. */
export function leaseOf(save: (progress: object) => Promise<boolean> = () => Promise.resolve(true)): Lease {
  return { until: Infinity, holds: () => Promise.resolve(true), save };
}

/** One alert a second, so that the second of two is blocked for long enough to be seen. */
export const POLICY: Policy = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 1_000 };

/** The pipeline over a real limiter on Redis and real clients at the loopback providers. */
export async function openBench(platforms: readonly Platform[] = ['apns', 'fcm']): Promise<Bench> {
  const sandbox = await openSandbox();
  const redis = connectRedis();
  const limiter = createRedisLimiter({ redis, policy: POLICY, prefix: testPrefix() });
  const providers = new Map<Platform, Provider>();
  if (platforms.includes('apns')) providers.set('apns', await openApns(sandbox));
  if (platforms.includes('fcm')) providers.set('fcm', await openFcm(sandbox));
  // As a worker does before its first job: what waits for a connection would not leave in time.
  await Promise.all([...providers.values()].map((provider) => provider.warm()));
  sandbox.journal.clear();
  const ignore = () => undefined;
  const pauses = createPauses({ redis, prefix: testPrefix(), baseMs: 1_000, maxMs: 2_000, onChange: ignore });
  onTestFinished(() => pauses.close());
  const replies: ReplyEvent[] = [];
  const parts: DeliverParts = {
    limiter,
    providers,
    pauses,
    atMostOnce: false,
    quotas: new Map(),
    transit: createTransit(),
    maxWaitMs: 3_600_000,
    retry: { attempts: 3, backoffBaseMs: 1_000, backoffMaxMs: 60_000 },
    now: Date.now,
    random: () => 0,
    onReply: (event) => void replies.push(event),
  };
  return {
    sandbox,
    limiter,
    replies,
    parts,
    run: (data, progress = readProgress(0), overrides = {}) => {
      const id = (data as { id?: string }).id ?? 'job-1';
      const pass = {
        jobId: id,
        data,
        progress,
        enqueuedAt: Date.now(),
        signal: new AbortController().signal,
        lease: leaseOf(),
        isUnsent: false,
        ...overrides,
      };
      return deliver(pass, { ...parts, ...overrides });
    },
  };
}
