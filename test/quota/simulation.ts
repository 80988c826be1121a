import type { Rule } from '../../src/domain/limits.ts';
import type { Quota } from '../../src/quota/quota.ts';

export interface Simulation {
  readonly clients: readonly [Quota, ...Quota[]];
  /** The quota's clock, which stands still until it is moved. */
  readonly clock: { now(): number; goTo(at: number): void };
  readonly rules: readonly Rule[];
  readonly jobs: number;
  /** How late a job comes back. */
  readonly lateMs: () => number;
  /** Between one job's arrival and the next; all at once where it is left out. */
  readonly arrivalMs?: () => number;
}

export interface Played {
  /** When tokens were taken. */
  readonly taken: readonly number[];
  /** Asks of all jobs, and of the one that asked most. */
  readonly asks: number;
  readonly mostAsks: number;
  readonly makespanMs: number;
}

interface Job {
  readonly at: number;
  readonly promisedAt?: number;
  readonly asks: number;
}

/** Jobs that ask, and come back when they are told to, until each has its token; in the order of their instants. */
export async function play({ clients, clock, jobs, lateMs, arrivalMs = () => 0 }: Simulation): Promise<Played> {
  const start = clock.now();
  const due: Job[] = [];
  for (let job = 0, at = start; job < jobs; job += 1, at += arrivalMs()) due.push({ at, asks: 0 });
  const taken: number[] = [];
  let asks = 0;
  let mostAsks = 0;
  while (due.length > 0) {
    due.sort((a, b) => a.at - b.at);
    const now = Math.max(clock.now(), Math.ceil(due[0]?.at ?? 0));
    clock.goTo(now);
    const firstAhead = due.findIndex(({ at }) => at > now);
    const batch = due.splice(0, firstAhead === -1 ? due.length : firstAhead);
    await Promise.all(
      batch.map(async (job, index) => {
        const answer = await (clients[index % clients.length] ?? clients[0]).take(job.promisedAt);
        asks += 1;
        mostAsks = Math.max(mostAsks, job.asks + 1);
        if (answer.kind === 'taken') taken.push(now);
        else due.push({ at: answer.at + lateMs(), promisedAt: answer.at, asks: job.asks + 1 });
      }),
    );
  }
  return { taken, asks, mostAsks, makespanMs: clock.now() - start };
}
