import type { Ask } from '../../src/limiter/limiter.ts';
import type { Trial } from './trial.ts';

/** One job of a crowd, as its worker would ask for it. Instants are milliseconds from the start of the test. */
export interface CrowdJob {
  readonly id: string;
  readonly asksAt: number;
  readonly category?: string;
  /** How late it comes back at a slot, early if negative; 0 if it is left out. */
  readonly lateMs?: (slot: number) => number;
}

/** What became of a job. */
export interface Passed {
  readonly id: string;
  readonly category?: string | undefined;
  readonly asks: number;
  readonly at: number;
  /** How late it came back each time. */
  readonly lateMsOf: readonly number[];
}

interface Turn {
  readonly job: CrowdJob;
  readonly at: number;
  readonly lateMsOf: readonly number[];
}

const MOST_ASKS = 100;

/**
 * All jobs ask at their instants and come back at the slots of the answers, each so late, until all were admitted. In the
 * order in which they were.
 */
export async function passAll(trial: Trial, jobs: readonly CrowdJob[]): Promise<Passed[]> {
  const turns = new Turns(jobs.map((job) => ({ job, at: job.asksAt, lateMsOf: [] })));
  const passed: Passed[] = [];
  for (let turn = turns.next(); turn !== undefined; turn = turns.next()) {
    const { job, lateMsOf } = turn;
    const asks = lateMsOf.length + 1;
    trial.goTo(turn.at);
    const more: Partial<Ask> = job.category === undefined ? {} : { category: job.category };
    const answer = (await trial.ask(job.id, more)) as { readonly kind: string; readonly at: number };
    if (asks > MOST_ASKS) throw new Error(`${job.id} asks more than ${MOST_ASKS} times`);
    if (answer.kind === 'admitted') {
      passed.push({ id: job.id, category: job.category, asks, at: answer.at, lateMsOf });
      continue;
    }
    const lateMs = job.lateMs?.(answer.at) ?? 0;
    turns.add({ job, at: Math.max(turn.at, answer.at + lateMs), lateMsOf: [...lateMsOf, lateMs] });
  }
  return passed;
}

/** The turns to come, the next first; of one instant the one that was added first. */
class Turns {
  readonly #turns: Turn[];

  constructor(turns: readonly Turn[]) {
    this.#turns = turns.toSorted((a, b) => a.at - b.at);
  }

  next(): Turn | undefined {
    return this.#turns.shift();
  }

  add(turn: Turn): void {
    let [low, high] = [0, this.#turns.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#turns[middle]?.at ?? Infinity) <= turn.at) low = middle + 1;
      else high = middle;
    }
    this.#turns.splice(low, 0, turn);
  }
}

/** How many that asked later each job was overtaken by, by its id; `jobs` in the order of asking. */
export function overtakenBy(jobs: readonly CrowdJob[], passed: readonly Passed[]): Map<string, number> {
  const asked = new Map(jobs.map(({ id }, index) => [id, index]));
  const order = passed.toSorted((a, b) => a.at - b.at).map(({ id }) => asked.get(id) ?? NaN);
  return new Map(
    passed.map(({ id }) => {
      const own = asked.get(id) ?? NaN;
      return [id, order.slice(0, order.indexOf(own)).filter((other) => other > own).length];
    }),
  );
}

export function averageAsks(passed: readonly Passed[]): number {
  return passed.reduce((sum, { asks }) => sum + asks, 0) / passed.length;
}

/** Numbers from 0 to 1 that look random, the same in every run (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
