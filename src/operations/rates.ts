import type { SeenWorker, SeenWorkers } from '../queue/workers.ts';

/** What all workers together do in a second. */
export interface Rates {
  readonly passesPerS: number;
  readonly deliveredPerS: number;
  readonly requeuedPerS: number;
  readonly deadPerS: number;
}

/** What a worker had done when it wrote its entry in the registry. */
interface Written {
  readonly at: number;
  readonly passes: number;
  readonly delivered: number;
  readonly requeued: number;
  readonly dead: number;
}

const NOTHING_DONE = { passes: 0, delivered: 0, requeued: 0, dead: 0 };
const NO_RATES: Rates = { passesPerS: 0, deliveredPerS: 0, requeuedPerS: 0, deadPerS: 0 };

/**
 * Each call answers the rates of the living workers together. A worker writes its counts every 5 s, so its rates are computed
 * from its last two writes. Undefined while no worker has written twice; 0 if no worker is alive. A worker that started after
 * the first call counts from its start.
 */
export function createRates(): (seen: Pick<SeenWorkers, 'now' | 'workers'>) => Rates | undefined {
  const writes = new Map<string, readonly Written[]>();
  let firstLookAt: number | undefined;
  return ({ now, workers }) => {
    firstLookAt ??= now;
    const since = firstLookAt;
    const alive = workers.filter((worker) => worker.alive);
    if (alive.length === 0) return NO_RATES;
    const known = new Set(alive.map(({ id }) => id));
    for (const id of writes.keys()) if (!known.has(id)) writes.delete(id);
    for (const worker of alive) {
      const written = writtenBy(worker);
      if (written === undefined) continue;
      const started = worker.startedAt > since ? [{ ...NOTHING_DONE, at: worker.startedAt }] : [];
      const before = writes.get(worker.id) ?? started;
      if (before.at(-1)?.at !== written.at) writes.set(worker.id, [...before, written].slice(-2));
    }
    const pairs = [...writes.values()].filter((pair) => pair.length === 2);
    return pairs.length === 0 ? undefined : pairs.map(ratesOf).reduce(sumOf);
  };
}

function writtenBy({ seenAt, tally }: SeenWorker): Written | undefined {
  if (tally === undefined) return undefined;
  const { passes, delivered, requeued, dead } = tally;
  return { at: seenAt, passes, delivered, requeued, dead };
}

function ratesOf([first, last]: readonly Written[]): Rates {
  if (first === undefined || last === undefined || last.at <= first.at) return NO_RATES; // a clock may have been set back
  const seconds = (last.at - first.at) / 1_000;
  return {
    passesPerS: (last.passes - first.passes) / seconds,
    deliveredPerS: (last.delivered - first.delivered) / seconds,
    requeuedPerS: (last.requeued - first.requeued) / seconds,
    deadPerS: (last.dead - first.dead) / seconds,
  };
}

function sumOf(a: Rates, b: Rates): Rates {
  return {
    passesPerS: a.passesPerS + b.passesPerS,
    deliveredPerS: a.deliveredPerS + b.deliveredPerS,
    requeuedPerS: a.requeuedPerS + b.requeuedPerS,
    deadPerS: a.deadPerS + b.deadPerS,
  };
}
