import type { Platform } from '../../src/domain/notification.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { createGate } from '../../src/delivery/gate.ts';
import { deliver, type DeliverParts, type Pass } from '../../src/delivery/deliver.ts';
import { readProgress, type Progress } from '../../src/delivery/progress.ts';
import type { ReplyEvent } from '../../src/delivery/send.ts';
import { createTransit } from '../../src/delivery/transit.ts';
import type { Concluded } from '../../src/delivery/conclude.ts';
import { createRedisLimiter } from '../../src/limiter/redis-limiter.ts';
import type { Limiter } from '../../src/limiter/limiter.ts';
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

/** One alert a second, so that the second of two is blocked for long enough to be seen. */
export const POLICY: Policy = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 1_000 };

/** The pipeline over a real limiter on Redis and real clients at the loopback providers. */
export async function openBench(platforms: readonly Platform[] = ['apns', 'fcm']): Promise<Bench> {
  const sandbox = await openSandbox();
  const limiter = createRedisLimiter({ redis: connectRedis(), policy: POLICY, prefix: testPrefix() });
  const providers = new Map<Platform, Provider>();
  if (platforms.includes('apns')) providers.set('apns', await openApns(sandbox));
  if (platforms.includes('fcm')) providers.set('fcm', await openFcm(sandbox));
  const replies: ReplyEvent[] = [];
  const parts: DeliverParts = {
    limiter,
    providers,
    gate: createGate(),
    quotas: new Map(),
    transit: createTransit(),
    maxWaitMs: 3_600_000,
    retry: { attempts: 3, backoffBaseMs: 1_000, backoffMaxMs: 60_000 },
    now: Date.now,
    random: () => 0,
    onReply: (event) => replies.push(event),
  };
  return {
    sandbox,
    limiter,
    replies,
    parts,
    run: (data, progress = readProgress(0), overrides = {}) => {
      const id = (data as { id?: string }).id ?? 'job-1';
      const save = () => Promise.resolve();
      const pass = {
        jobId: id,
        data,
        progress,
        signal: new AbortController().signal,
        save,
        isUnsent: false,
        ...overrides,
      };
      return deliver(pass, { ...parts, ...overrides });
    },
  };
}
