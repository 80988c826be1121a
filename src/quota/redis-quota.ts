import { randomUUID } from 'node:crypto';
import type { OptionNames } from '../domain/faults.ts';
import { createDeadline } from '../redis/deadline.ts';
import { defineScript, readScript, type Call, type ScriptRedis } from '../redis/scripts.ts';
import { createTokenBatches, type BatchAsk, type BatchReply } from './token-batches.ts';
import type { Over, Quota, QuotaTerms } from './quota.ts';
import { checkPromise, checkQuotaOptions, checkTerms, type Tier } from './tiers.ts';

/** The terms of a Redis quota, and its client. */
export interface RedisQuotaOptions extends QuotaTerms {
  /** A client that the caller opens and closes. It must not be a subscriber. */
  readonly redis: ScriptRedis;
  /** The first part of every key; braces are removed. Default: `pushpacer`. */
  readonly prefix?: string;
  /** How long an answer may take before LimiterUnavailableError, in milliseconds. Default: 2,000. */
  readonly timeoutMs?: number;
  /** Epoch milliseconds in place of Redis's clock and of this process's, for tests. Default: those clocks. */
  readonly now?: () => number;
}

const OPTIONS: OptionNames<RedisQuotaOptions> = {
  ...{ name: true, rules: true, leaseMs: true, redis: true, prefix: true, timeoutMs: true, now: true },
};

type TakeReply = [now: number, more: number, instantsAndTiers: number[], used: number[]];

/** Stands for Infinity in ARGV: more tokens than any batch has. */
const ALL = 1e12;

/**
 * The quota that all workers share. {@link Quota} has its promise, docs/quota.md and quota.lua its algorithm. Throws
 * InputError if a term or an option is not usable.
 */
export function createRedisQuota(options: RedisQuotaOptions): Quota {
  checkQuotaOptions(options, OPTIONS);
  const { name, tiers, leaseMs } = checkTerms(options);
  const { redis, prefix = 'pushpacer', timeoutMs = 2_000, now } = options;
  const run = define(redis, tiers.length);
  const answered = createDeadline(timeoutMs);
  const keys = quotaKeys(prefix, name, randomUUID(), tiers);
  const limits = tiers.flatMap(({ max, widthMs, span, slack }) => [max, widthMs, span, slack]);
  let calls = 0;

  async function ask({ unused, promises, newcomers, extra }: BatchAsk): Promise<BatchReply<Over>> {
    calls += 1;
    const asked = [calls, Math.min(unused, ALL), newcomers, extra, now?.() ?? ''];
    const [at, more, pairs] = await answered(run(...keys, ...asked, ...limits, ...promises));
    return { extra: more, answers: toAnswers(pairs, at, tiers) };
  }

  const batches = createTokenBatches({ ask, leaseMs, now: now ?? (() => performance.now()) });
  return {
    async take(promisedAt) {
      checkPromise(promisedAt);
      return batches.take(promisedAt);
    },
    async used() {
      const [, , , used] = await answered(run(...keys, 0, 0, 0, 0, now?.() ?? '', ...limits));
      return tiers.map(({ name: rule, max }, index) => ({ rule, max, used: used[index] ?? 0 }));
    },
    close: () => batches.close(),
    [Symbol.asyncDispose]: () => batches.close(),
  };
}

/** A command's number of keys is fixed when it is defined, so there is one command for each number of tiers. */
function define(redis: ScriptRedis, tiers: number): Call<TakeReply> {
  const lua = readScript('quota.lua', import.meta.url);
  return defineScript(redis, `pushpacer:quota:${tiers}`, lua, 2 + 2 * tiers);
}

function toAnswers(pairs: readonly number[], now: number, tiers: readonly Tier[]): ('taken' | Over)[] {
  return Array.from({ length: pairs.length / 2 }, (_, index) => {
    const at = pairs[2 * index] ?? 0;
    if (at === 0) return 'taken';
    const rule = tiers[(pairs[2 * index + 1] ?? 0) - 1]?.name ?? 'none';
    return { kind: 'over', at, waitMs: Math.max(1, at - now), rule };
  });
}

/**
 * `('pushpacer', 'fcm', '7c5d…', [1m])` → `pushpacer:quota:{fcm}:lease:7c5d…`, `pushpacer:quota:{fcm}:tail`,
 * `pushpacer:quota:{fcm}:60000:taken` and `pushpacer:quota:{fcm}:60000:promised`. The hash tag is the quota's name, so all
 * its keys lie on one node of a cluster. Braces in the prefix are removed.
 */
export function quotaKeys(prefix: string, name: string, client: string, tiers: readonly Tier[]): string[] {
  const stem = `${prefix.replaceAll(/[{}]/g, '')}:quota:{${name}}`;
  const counters = tiers.flatMap(({ perMs }) => [`${stem}:${perMs}:taken`, `${stem}:${perMs}:promised`]);
  return [`${stem}:lease:${client}`, `${stem}:tail`, ...counters];
}
