import { randomUUID } from 'node:crypto';
import { createDeadline } from './errors.ts';
import { createLease, type LeaseAsk, type LeaseReply } from './quota/lease.ts';
import { quotaKeys } from './quota/keys.ts';
import { checkPromise, checkTerms, type Tier } from './quota/tiers.ts';
import type { Over, Quota, QuotaTerms } from './quota.ts';
import { readScript, type LimiterRedis } from './redis/scripts.ts';

export interface RedisQuotaOptions extends QuotaTerms {
  /** A client that the caller opens and closes. It must not be a subscriber. */
  readonly redis: Pick<LimiterRedis, 'defineCommand'>;
  /** The first part of every key; braces are removed. */
  readonly prefix?: string;
  /** How long an answer may take before LimiterUnavailableError. */
  readonly timeoutMs?: number;
  /** Epoch milliseconds in place of Redis's clock and of this process's, for tests. */
  readonly now?: () => number;
}

type TakeReply = [now: number, more: number, instantsAndTiers: number[], used: number[]];
type Call = (...keysAndArgs: (string | number)[]) => Promise<TakeReply>;

/** Stands for Infinity in ARGV: more tokens than any batch has. */
const ALL = 1e12;

/** The quota that all workers share. quota.ts has its promise, quota.lua and docs/quota.md its algorithm. */
export function createRedisQuota(options: RedisQuotaOptions): Quota {
  const { redis, prefix = 'pushpacer', timeoutMs = 2_000, now } = options;
  const { name, tiers, leaseMs } = checkTerms(options);
  const run = defineScript(redis, tiers.length);
  const answered = createDeadline(timeoutMs);
  const keys = quotaKeys(prefix, name, randomUUID(), tiers);
  const limits = tiers.flatMap(({ max, widthMs, span, slack }) => [max, widthMs, span, slack]);
  let calls = 0;

  async function ask({ unused, promises, newcomers, extra }: LeaseAsk): Promise<LeaseReply<Over>> {
    calls += 1;
    const asked = [calls, Math.min(unused, ALL), newcomers, extra, now?.() ?? ''];
    const [at, more, pairs] = await answered(run(...keys, ...asked, ...limits, ...promises));
    return { extra: more, answers: toAnswers(pairs, at, tiers) };
  }

  const lease = createLease({ ask, leaseMs, now: now ?? (() => performance.now()) });
  return {
    async take(promisedAt) {
      checkPromise(promisedAt);
      return lease.take(promisedAt);
    },
    async used() {
      const [, , , used] = await answered(run(...keys, 0, 0, 0, 0, now?.() ?? '', ...limits));
      return tiers.map(({ name: rule, max }, index) => ({ rule, max, used: used[index] ?? 0 }));
    },
    close: () => lease.close(),
  };
}

/** A command's number of keys is fixed when it is defined, so there is one command for each number of tiers. */
function defineScript(redis: RedisQuotaOptions['redis'], tiers: number): Call {
  const command = `pushpacer:quota:${tiers}`;
  redis.defineCommand(command, { lua: readScript('quota/quota.lua', import.meta.url), numberOfKeys: 2 + 2 * tiers });
  const call = (redis as unknown as Record<string, Call>)[command];
  if (call === undefined) throw new Error(`the client has no command ${command} after it was defined`);
  return call.bind(redis);
}

function toAnswers(pairs: readonly number[], now: number, tiers: readonly Tier[]): ('taken' | Over)[] {
  return Array.from({ length: pairs.length / 2 }, (_, index) => {
    const at = pairs[2 * index] ?? 0;
    if (at === 0) return 'taken';
    const rule = tiers[(pairs[2 * index + 1] ?? 0) - 1]?.name ?? 'none';
    return { kind: 'over', at, waitMs: Math.max(1, at - now), rule };
  });
}
