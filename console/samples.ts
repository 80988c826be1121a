import type { Queue } from 'bullmq';
import { LATENESS_BOUNDS_MS, repeat } from '../src/domain/time.ts';
import { readAges, type Overview } from '../src/queue/overview.ts';
import type { ShardQueues } from '../src/queue/shards/shards.ts';
import { readWorkers, type SeenWorker } from '../src/queue/workers.ts';
import type { Connection } from '../src/redis/connection.ts';

/** The state at one instant. */
export interface Sample {
  /** Epoch milliseconds on Redis's clock. */
  readonly at: number;
  /** Sent notifications per second since the sample before. */
  readonly sentPerS: number;
  readonly requeuedPerS: number;
  readonly waiting: number;
  readonly oldestDueMs: number;
  /** How late wake-ups were since the sample before, milliseconds; null if there were none. */
  readonly lateP50Ms: number | null;
  readonly lateP99Ms: number | null;
}

export interface Sampler {
  /** The samples of the last hour, or since this console started if that is later; the oldest first. */
  samples(): readonly Sample[];
  stop(): void;
}

interface SamplerParts {
  readonly connection: Connection;
  readonly shards: () => Promise<readonly ShardQueues[]>;
  readonly prefix: string;
}

/** Longer than the 5 s between two writes of a worker's counts. */
const EVERY_MS = 10_000;
const KEPT = 360;

/** A worker may finish nothing for this time while notifications are due: a pass waits for a provider for 30 s at most. */
const WEDGED_MS = 40_000;

/** Whether a worker is alive and finishes nothing, although notifications are due. */
export function isWedged(
  { alive, stopping, tally, startedAt }: Pick<SeenWorker, 'alive' | 'stopping' | 'tally' | 'startedAt'>,
  { now, due }: Pick<Overview, 'now' | 'due'>,
): boolean {
  if (!alive || stopping || tally === undefined || due.oldestAt === undefined) return false;
  return now - Math.max(tally.lastPassAt ?? startedAt, due.oldestAt) > WEDGED_MS;
}

/** Takes a sample every ten seconds, and keeps one hour of samples in memory. Takes none while Redis does not answer. */
export function startSampler(parts: SamplerParts): Sampler {
  const kept: Sample[] = [];
  let before: Look | undefined;
  const take = async (): Promise<void> => {
    const now = await look(parts);
    if (before !== undefined && now.at > before.at) kept.push(sampleOf(before, now));
    before = now;
    if (kept.length > KEPT) kept.shift();
  };
  const takes = repeat(take, EVERY_MS);
  void takes.now();
  return { samples: () => kept, stop: () => void takes.stop() };
}

interface Look {
  readonly at: number;
  readonly workers: ReadonlyMap<string, SeenWorker>;
  readonly waiting: number;
  readonly oldestDueMs: number;
}

async function look({ connection, shards, prefix }: SamplerParts): Promise<Look> {
  const queues: readonly Queue[] = (await shards()).map(({ queue }) => queue);
  const [{ now: at, workers }, { jobs, oldestDueMs }] = await Promise.all([
    readWorkers(connection, prefix),
    readAges(queues, connection),
  ]);
  const waiting = ['waiting', 'prioritized', 'delayed'].reduce((sum, state) => sum + (jobs[state] ?? 0), 0);
  return { at, workers: new Map(workers.map((worker) => [worker.id, worker])), waiting, oldestDueMs };
}

function sampleOf(before: Look, now: Look): Sample {
  const { delivered, requeued, late } = growth(before, now);
  const seconds = (now.at - before.at) / 1_000;
  return {
    at: now.at,
    sentPerS: delivered / seconds,
    requeuedPerS: requeued / seconds,
    waiting: now.waiting,
    oldestDueMs: now.oldestDueMs,
    lateP50Ms: quantileOf(late, 0.5),
    lateP99Ms: quantileOf(late, 0.99),
  };
}

/** What all workers did between two looks. A worker that started meanwhile counts from 0; one that ended does not count. */
function growth(before: Look, now: Look): { delivered: number; requeued: number; late: number[] } {
  const sum = { delivered: 0, requeued: 0, late: Array<number>(LATENESS_BOUNDS_MS.length + 1).fill(0) };
  for (const [id, { tally }] of now.workers) {
    if (tally === undefined) continue;
    const known = before.workers.get(id)?.tally;
    sum.delivered += tally.delivered - (known?.delivered ?? 0);
    sum.requeued += tally.requeued - (known?.requeued ?? 0);
    for (const place of sum.late.keys()) {
      sum.late[place] = (sum.late[place] ?? 0) + (tally.late[place] ?? 0) - (known?.late[place] ?? 0);
    }
  }
  return sum;
}

/** The lowest bound that this share of the wake-ups did not exceed; null if there were none. */
export function quantileOf(late: readonly number[], share: number): number | null {
  const all = late.reduce((sum, each) => sum + each, 0);
  if (all === 0) return null;
  let seen = 0;
  for (const [place, each] of late.entries()) {
    seen += each;
    if (seen >= share * all) return LATENESS_BOUNDS_MS[place] ?? Infinity;
  }
  return Infinity;
}
