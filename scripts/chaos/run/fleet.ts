import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Freeze } from './freezes.ts';
import { startWorker, type ChaosWorker } from './worker.ts';

/** Epoch milliseconds with a fraction, computed like the journal's time stamps: this clock is never set. */
export function epochMs(): number {
  return performance.timeOrigin + performance.now();
}

/** The workers, each at a numbered place. A worker that is killed or restarted is replaced at its place. */
export interface Fleet {
  /** Freezes the worker, calls `witness` (which reads the jobs that it has), kills it, and starts another one. */
  kill(place: number, witness: () => Promise<void>): Promise<void>;
  /** Freezes it for a while, and calls `witness` meanwhile, which reads the jobs that it has. */
  freeze(place: number, ms: number, witness: () => Promise<void>): Promise<Omit<Freeze, 'holders'>>;
  /** Starts another one, and sends SIGTERM to this one. */
  restart(place: number): Promise<void>;
  /** The addresses of the pages of all workers that take jobs. */
  urls(): string[];
  /** Resolves when the worker at every place takes jobs; rejects if one does not. */
  ready(): Promise<unknown>;
  /** Every process that was ever started. */
  readonly pids: readonly number[];
  /** Workers that ended without being told to, or with an error when they were told to. */
  readonly crashes: readonly number[];
  stop(): Promise<void>;
}

export interface FleetOptions {
  readonly count: number;
  readonly env: Readonly<Record<string, string>>;
  /** Each worker's output is a file in this folder. */
  readonly logFolder: string;
}

/** A worker that was told to stop is killed after this. */
const STOP_MS = 20_000;

export async function startFleet({ count, env, logFolder }: FleetOptions): Promise<Fleet> {
  const pids: number[] = [];
  const crashes: number[] = [];
  const leaving: Promise<void>[] = [];
  /** Killed on purpose. */
  const condemned = new Set<ChaosWorker>();
  /** Told to stop. */
  const dismissed = new Set<ChaosWorker>();
  let started = 0;
  const start = async (): Promise<ChaosWorker> => {
    const worker = await startWorker(env, join(logFolder, `worker-${started++}.log`));
    pids.push(worker.pid);
    void worker.ended.then((code) => {
      if (!condemned.has(worker) && !(dismissed.has(worker) && code === 0)) crashes.push(worker.pid);
    });
    return worker;
  };
  const places = await Promise.all(Array.from({ length: count }, start));
  const workerAt = async (place: number): Promise<ChaosWorker> => {
    const worker = places[place];
    if (worker === undefined) throw new RangeError(`no worker at place ${place}`);
    await worker.ready.catch(() => undefined);
    return worker;
  };

  return {
    pids,
    crashes,
    async kill(place, witness) {
      const worker = await workerAt(place);
      condemned.add(worker);
      worker.signal('SIGSTOP');
      await witness();
      worker.signal('SIGKILL');
      await worker.ended;
      places[place] = await start();
    },
    async freeze(place, ms, witness) {
      const worker = await workerAt(place);
      const at = epochMs();
      const thawed = worker.freeze(ms).then(epochMs);
      await witness();
      return { log: basename(worker.logFile), at, forMs: ms, thawedAt: await thawed };
    },
    async restart(place) {
      const worker = await workerAt(place);
      dismissed.add(worker);
      places[place] = await start();
      leaving.push(end(worker));
    },
    urls: () => places.map((worker) => worker.url()).filter((url) => url !== undefined),
    ready: () => Promise.all(places.map(({ ready }) => ready)),
    async stop() {
      for (const worker of places) dismissed.add(worker);
      await Promise.all([...places.map(end), ...leaving]);
    },
  };
}

async function end(worker: ChaosWorker): Promise<void> {
  if (!worker.isAlive()) return;
  worker.signal('SIGTERM');
  worker.signal('SIGCONT'); // it may be frozen
  const late = sleep(STOP_MS, true, { ref: false });
  if ((await Promise.race([worker.ended, late])) === true) worker.signal('SIGKILL');
  await worker.ended;
}
