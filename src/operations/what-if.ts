import { setTimeout as sleep } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import { isObject, parseJson } from '../domain/json.ts';
import { countedAs, type CategoryPolicy, type Policy } from '../domain/limits.ts';
import type { Change } from '../limiter/foresee.ts';
import { paceOf } from '../limiter/pace.ts';
import type { Foresight } from '../limiter/redis/foresight.ts';
import { readJobs } from '../queue/readable.ts';
import type { Connection } from '../redis/connection.ts';

/** Limits that are tried on the alerts that wait now. Limits that are left out stay as they are. */
export interface TriedLimits {
  readonly policy?: Policy;
  /** Only for categories that have limits already. */
  readonly categories?: Readonly<Record<string, CategoryPolicy>>;
}

/** One figure under the limits in force, and under those that are tried. */
export interface NowAndThen {
  readonly now: number;
  readonly then: number;
}

/** What other limits would do to alerts that wait for a slot now. Durations are milliseconds from now until the slot. */
export interface WhatIf {
  /** How many recipients were looked at. */
  readonly recipients: number;
  /** How many alerts with a reserved slot have to wait for it. */
  readonly waiting: NowAndThen;
  /** The longest wait, the median and the 99th percentile, over all alerts with a reserved slot; those sent now count as 0. */
  readonly longestMs: NowAndThen;
  readonly p50Ms: NowAndThen;
  readonly p99Ms: NowAndThen;
  /** How many of these alerts would be sent earlier, later, and at the same time. */
  readonly earlier: number;
  readonly later: number;
  readonly same: number;
  /**
   * The time for which the limiter keeps sent slots, if a tried window is longer than that. Then earlier slots are not counted,
   * so the real waits may be longer. Absent if all sent slots are counted.
   */
  readonly countedMs?: number;
}

/** Tries these limits on one recipient, also in place of limits that are stored for it. */
export async function tryOnRecipient(recipientId: string, tried: TriedLimits, foresight: Foresight): Promise<WhatIf> {
  const { policy, categories } = tried;
  const change: Change = { kind: 'policies', policy, replacesStored: true, ...(categories && { categories }) };
  return summaryOf(1, await waitsOf(recipientId, change, foresight), tried, foresight);
}

export interface SampleParts {
  /** The foresight of the limiter of alerts. */
  readonly foresight: Foresight;
  /** The queue's Redis. */
  readonly connection: Connection;
  /** The queue of each shard. */
  readonly queues: readonly Queue[];
  /** Stops the look between its steps, because nobody waits for it any more. */
  readonly signal?: AbortSignal;
}

export interface SampleWhatIf extends WhatIf {
  /** How many delayed jobs were looked at to find the recipients, and how many there are. */
  readonly lookedAt: number;
  readonly of: number;
}

const MOST_RECIPIENTS = 1_000;
const JOBS_A_READ = 100;
/** This many recipients are read at once, so that other commands get through in between. */
const RECIPIENTS_AT_ONCE = 8;
const MOST_LOOKED_AT = 20_000;
/** The pause after each read, so that Redis can do other work. */
const PAUSE_MS = 2;

/**
 * Tries these general limits on a sample of the recipients with waiting alerts. Limits that are stored for a recipient stay in
 * force. The more alerts of a recipient wait, the more likely the recipient is in the sample.
 */
export async function tryOnSample(
  tried: TriedLimits,
  parts: SampleParts,
  most = MOST_RECIPIENTS,
): Promise<SampleWhatIf> {
  const { foresight, signal } = parts;
  const { found, lookedAt, of } = await sampleRecipients(parts, most);
  const { policy, categories } = tried;
  const change: Change = { kind: 'policies', policy, ...(categories && { categories }) };
  const waits: Wait[] = [];
  for (let from = 0; from < found.length; from += RECIPIENTS_AT_ONCE) {
    signal?.throwIfAborted();
    const some = found.slice(from, from + RECIPIENTS_AT_ONCE);
    for (const ofOne of await Promise.all(some.map((id) => waitsOf(id, change, foresight)))) waits.push(...ofOne);
    await sleep(PAUSE_MS);
  }
  return { ...summaryOf(found.length, waits, tried, foresight), lookedAt, of };
}

/** How long an alert waits under the limits in force, and under those that are tried. 0 or less: it is sent now. */
type Wait = readonly [now: number, then: number];

async function waitsOf(
  recipientId: string,
  change: Extract<Change, { kind: 'policies' }>,
  foresight: Foresight,
): Promise<Wait[]> {
  const { now, slots } = await foresight.foresee(recipientId, change, 0);
  return slots.map(({ from, at }) => [from - now, at - now] as const);
}

function summaryOf(
  recipients: number,
  waits: readonly Wait[],
  { policy, categories = {} }: TriedLimits,
  { longestMs: countedMs }: Foresight,
): WhatIf {
  const sorted = (all: readonly number[]) => all.map((ms) => Math.max(0, ms)).sort((a, b) => a - b);
  const before = sorted(waits.map(([now]) => now));
  const after = sorted(waits.map(([, then]) => then));
  const later = waits.filter(([now, then]) => then > now).length;
  const earlier = waits.filter(([now, then]) => then < now).length;
  const tried = [...(policy === undefined ? [] : [policy]), ...Object.values(categories)];
  const isLonger = tried.some((each) => paceOf(each).longestMs > countedMs);
  const both = (of: (all: readonly number[]) => number): NowAndThen => ({ now: of(before), then: of(after) });
  return {
    recipients,
    waiting: both((all) => all.filter((ms) => ms > 0).length),
    longestMs: both((all) => all.at(-1) ?? 0),
    p50Ms: both((all) => quantile(all, 0.5)),
    p99Ms: both((all) => quantile(all, 0.99)),
    ...{ earlier, later, same: waits.length - later - earlier },
    ...(isLonger && { countedMs }),
  };
}

/** The smallest value that at least this share of all values does not exceed; 0 if there are no values. */
function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

interface Sample {
  readonly found: readonly string[];
  readonly lookedAt: number;
  readonly of: number;
}

/**
 * Recipients with delayed alerts. Reads pages that are spread over the delayed sets of all shards, so that short and long waits
 * are both in the sample.
 */
async function sampleRecipients({ connection, queues, signal }: SampleParts, most: number): Promise<Sample> {
  const counts = await Promise.all(queues.map((queue) => queue.getDelayedCount()));
  const of = counts.reduce((sum, count) => sum + count, 0);
  const pages = queues.flatMap((queue, shard) =>
    Array.from({ length: Math.ceil((counts[shard] ?? 0) / JOBS_A_READ) }, (_, page) => ({ queue, page })),
  );
  const found = new Set<string>();
  let lookedAt = 0;
  for (const { queue, page } of spread(pages)) {
    if (lookedAt >= MOST_LOOKED_AT || found.size >= most) break;
    signal?.throwIfAborted();
    const from = page * JOBS_A_READ;
    const jobIds = await connection.zrange(queue.toKey('delayed'), String(from), String(from + JOBS_A_READ - 1));
    if (jobIds.length === 0) continue;
    for (const [, data] of await readJobs(queue, jobIds, 0)) {
      const job = parseJson(data ?? '');
      if (!isObject(job) || typeof job['recipientId'] !== 'string' || countedAs(job) !== 'alert') continue;
      if (found.size < most) found.add(job['recipientId']);
    }
    lookedAt += jobIds.length;
    await sleep(PAUSE_MS);
  }
  return { found: [...found], lookedAt, of };
}

/** All items, in an order in which each is far from the item before it: by steps of the golden ratio. */
function spread<T>(all: readonly T[]): T[] {
  const { length } = all;
  let step = Math.max(1, Math.round(length * 0.618));
  while (greatestDivisor(step, length) > 1) step += 1;
  return all.flatMap((_, index) => all[(index * step) % length] ?? []);
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}
