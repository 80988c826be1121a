import { randomUUID } from 'node:crypto';
import type { OptionNames } from '../domain/faults.ts';
import { createDeadline, LimiterUnavailableError } from '../redis/deadline.ts';
import { defineScript, readScript, type Call, type ScriptRedis } from '../redis/scripts.ts';
import {
  type Over,
  type Quota,
  type QuotaTerms,
  checkPromise,
  checkQuotaOptions,
  checkTerms,
  type Tier,
  type Taken,
} from './quota.ts';

/** The terms of a Redis quota, and its client. */
export interface RedisQuotaOptions extends QuotaTerms {
  /** A client that the caller opens and closes. It must not be in subscriber mode. */
  readonly redis: ScriptRedis;
  /** The first part of every key; braces are removed. Default: `pushpacer`. */
  readonly prefix?: string;
  /** How long an answer may take before LimiterUnavailableError, in milliseconds. Default: 2,000. */
  readonly timeoutMs?: number;
}

const OPTIONS: OptionNames<RedisQuotaOptions> = {
  ...{ name: true, rules: true, leaseMs: true, redis: true, prefix: true, timeoutMs: true },
};

type TakeReply = [now: number, more: number, instantsAndTiers: number[], used: number[]];

/** Stands for Infinity in ARGV: more tokens than any batch contains. */
const ALL = 1e12;

/**
 * The quota that all workers share. {@link Quota} says what it promises, docs/quota.md and quota.lua describe its algorithm.
 * Throws InputError if a term or an option is not usable.
 */
export function createRedisQuota(options: RedisQuotaOptions): Quota {
  checkQuotaOptions(options, OPTIONS);
  const { name, tiers, leaseMs } = checkTerms(options);
  const { redis, prefix = 'pushpacer', timeoutMs = 2_000 } = options;
  const run = define(redis, tiers.length);
  const answered = createDeadline(timeoutMs);
  const keys = quotaKeys(prefix, name, randomUUID(), tiers);
  const limits = tiers.flatMap(({ max, widthMs, span, slack }) => [max, widthMs, span, slack]);
  let calls = 0;

  async function ask({ unused, promises, newcomers, extra }: BatchAsk): Promise<BatchReply> {
    calls += 1;
    const asked = [calls, Math.min(unused, ALL), newcomers, extra];
    const [at, more, pairs] = await answered(run(...keys, ...asked, ...limits, ...promises));
    return { extra: more, answers: toAnswers(pairs, at, tiers) };
  }

  const batches = createTokenBatches(ask, leaseMs);
  return {
    async take(promisedAt) {
      checkPromise(promisedAt);
      return batches.take(promisedAt);
    },
    async used() {
      const [, , , used] = await answered(run(...keys, 0, 0, 0, 0, ...limits));
      return tiers.map(({ name: rule, max }, index) => ({ rule, max, used: used[index] ?? 0 }));
    },
    close: () => batches.close(),
    [Symbol.asyncDispose]: () => batches.close(),
  };
}

/** Defines the script's command. A command has a fixed number of keys, so there is one for each number of tiers. */
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
 * `pushpacer:quota:{fcm}:60000:taken` and `pushpacer:quota:{fcm}:60000:promised`. The hash tag is the quota's name, so all keys
 * of a quota lie on one node of a cluster. Braces in the prefix are removed.
 */
export function quotaKeys(prefix: string, name: string, client: string, tiers: readonly Tier[]): string[] {
  const stem = `${prefix.replaceAll(/[{}]/g, '')}:quota:{${name}}`;
  const counters = tiers.flatMap(({ perMs }) => [`${stem}:${perMs}:taken`, `${stem}:${perMs}:promised`]);
  return [`${stem}:lease:${client}`, `${stem}:tail`, ...counters];
}

/** What one call to Redis asks for. */
export interface BatchAsk {
  /** How many tokens of the previous call were not used. Infinity if the answer to that call never came. */
  readonly unused: number;
  /** The promised instants of the asks that come back. */
  readonly promises: readonly number[];
  readonly newcomers: number;
  /** How many extra tokens to take for later, if there are plenty. */
  readonly extra: number;
}

/** The answers. Answers to asks that come back stand first. */
export interface BatchReply {
  readonly answers: readonly ('taken' | Over)[];
  /** How many extra tokens were taken. */
  readonly extra: number;
}

interface Waiting {
  readonly promisedAt: number | undefined;
  readonly resolve: (answer: Taken | Over) => void;
  readonly reject: (error: unknown) => void;
}

/** The most asks in one call: each may need a search, and Redis does nothing else meanwhile. */
const MAX_ASKS = 200;

/**
 * One process's token batches: one call takes many tokens of a quota, and the process hands them out. An ask that finds no
 * token at hand waits for the next call; all asks that come meanwhile share that call. In addition a call takes as many extra
 * tokens as were used in the last `leaseMs`. Tokens at hand are for newcomers: an ask that comes back claims the room that was
 * promised to it.
 */
export function createTokenBatches(
  /** Calls Redis; one call at a time. */
  ask: (ask: BatchAsk) => Promise<BatchReply>,
  /** How long the tokens of a batch may be used. */
  leaseMs: number,
): Pick<Quota, 'take' | 'close'> {
  const demand = createDemand(leaseMs);
  const waiting: Waiting[] = [];
  let atHand = 0;
  let useBy = -Infinity;
  let unused = 0;
  let asking: Promise<void> | undefined;
  let idle: NodeJS.Timeout | undefined;
  let isClosed = false;

  /** `useBy` is counted from before the call, so the batch ends earlier here than by Redis's clock. */
  async function askFor(batch: readonly Waiting[]): Promise<void> {
    const askedAt = performance.now();
    const returning = batch.filter(({ promisedAt }) => promisedAt !== undefined);
    const fresh = batch.filter(({ promisedAt }) => promisedAt === undefined);
    const wanted = {
      unused: unused + atHand,
      promises: returning.map(({ promisedAt }) => Number(promisedAt)),
      newcomers: fresh.length,
      extra: isClosed || fresh.length === 0 ? 0 : demand.at(askedAt),
    };
    atHand = 0;
    unused = Infinity;
    const { answers, extra } = await ask(wanted);
    unused = 0;
    atHand = extra;
    useBy = askedAt + leaseMs;
    for (const [index, { resolve, promisedAt }] of [...returning, ...fresh].entries()) {
      const answer = answers[index];
      if (answer === undefined) throw new Error(`expected ${batch.length} answers, found ${answers.length}`);
      if (answer === 'taken' && promisedAt === undefined) demand.add(askedAt);
      resolve(answer === 'taken' ? { kind: 'taken', useBy } : answer);
    }
  }

  /** Calls Redis until no ask waits. If a call fails, all asks that wait are rejected. */
  async function askOn(): Promise<void> {
    await Promise.resolve(); // all asks of this turn of the event loop share the first call
    clearTimeout(idle);
    do {
      const batch = waiting.splice(0, MAX_ASKS);
      try {
        await askFor(batch);
      } catch (error) {
        for (const { reject } of [...batch, ...waiting.splice(0)]) reject(error);
      }
    } while (waiting.length > 0);
    asking = undefined;
    if (atHand > 0) idle = setTimeout(giveBack, 2 * leaseMs).unref();
  }

  function giveBack(): void {
    if (atHand > 0) asking ??= askOn();
  }

  return {
    take(promisedAt) {
      if (isClosed) return Promise.reject(new LimiterUnavailableError('the quota is closed'));
      const at = performance.now();
      if (promisedAt === undefined && atHand > 0 && at < useBy) {
        atHand -= 1;
        demand.add(at);
        return Promise.resolve({ kind: 'taken', useBy });
      }
      return new Promise((resolve, reject) => {
        waiting.push({ promisedAt, resolve, reject });
        asking ??= askOn();
      });
    },
    async close() {
      isClosed = true;
      await asking;
      giveBack();
      await asking;
      clearTimeout(idle);
    },
  };
}

/** How many tokens were used in the last whole period, or so far in the present one, whichever is more. */
function createDemand(periodMs: number) {
  let since = -Infinity;
  let current = 0;
  let previous = 0;
  function turn(at: number): void {
    const ageMs = at - since;
    if (ageMs < periodMs) return;
    previous = ageMs < 2 * periodMs ? current : 0;
    current = 0;
    since = at;
  }
  return {
    add(at: number): void {
      turn(at);
      current += 1;
    },
    at(at: number): number {
      turn(at);
      return Math.max(previous, current);
    },
  };
}
