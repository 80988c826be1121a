import type { Worker } from 'bullmq';
import type { Logger } from '../src/observe/log.ts';
import type { DeadLetters } from '../src/dead-letters/store.ts';

/** How often the failed jobs are looked through for those that a worker left there when it died. */
const SWEEP_EVERY_MS = 15_000;

export interface Burials {
  /** Looks for what dead workers left, now and from time to time. */
  start(): void;
  /** Resolves when no job is being moved any more. */
  stop(): Promise<void>;
}

/** Moves each job of the worker that failed to the dead letters, and now and then those that dead workers left. */
export function createBurials(
  worker: Pick<Worker, 'on'>,
  deadLetters: Pick<DeadLetters, 'bury' | 'sweep'>,
  log: Logger,
): Burials {
  const underWay = new Set<Promise<unknown>>();
  const track = (work: Promise<unknown>): void => {
    const tracked = work.catch((error: unknown) => {
      log.warn({ err: error }, 'failed jobs could not be moved to the dead letters; tried again within 15 s');
    });
    underWay.add(tracked);
    void tracked.finally(() => underWay.delete(tracked));
  };
  worker.on('failed', (job) => {
    if (job?.id !== undefined) track(deadLetters.bury(job.id));
  });
  const sweep = (): void => track(deadLetters.sweep());
  let sweeping: NodeJS.Timeout | undefined;
  return {
    start: () => {
      sweep();
      sweeping = setInterval(sweep, SWEEP_EVERY_MS);
    },
    stop: async () => {
      clearInterval(sweeping);
      await Promise.all(underWay);
    },
  };
}
