import { setTimeout as sleep } from 'node:timers/promises';
import type { DeadLetterReason } from '../notification/outcome.ts';
import type { RedisAwayError } from '../redis/connection.ts';
import { isLasting } from '../redis/diagnosis.ts';
import { createPace } from './pace.ts';
import type { DeadLetters } from './store.ts';
import { countIn, walkChosen, type Choice, type FoundDeadLetter, type ReasonCounts } from './take.ts';

/** What is done with each dead letter. */
export type Verb = 'replay' | 'discard';

export interface RunRequest extends Choice {
  readonly verb: Verb;
  /** The most that are taken in a second; Infinity: without a pause. */
  readonly perSecond: number;
  /** Who wants it. */
  readonly by: string;
}

/** `failed`: `error` says why; the rest is still there, so it may be started again. */
export type RunState = 'running' | 'done' | 'stopped' | 'failed';

/** A replay or discard of many dead letters, which goes on while nobody waits for it. */
export interface Run extends RunRequest {
  readonly id: string;
  readonly state: RunState;
  /** Epoch milliseconds on this machine's clock. */
  readonly beganAt: number;
  readonly endedAt?: number;
  /** How many were chosen; absent while they are counted. */
  readonly of?: number;
  /** How many were taken. */
  readonly done: number;
  readonly byReason: ReasonCounts;
  /** How many others had taken when their turn came. */
  readonly gone: number;
  /** Since when Redis does not answer: epoch milliseconds. Absent if it does. */
  readonly awaySince?: number;
  /** The id of the one that was under way when Redis did not answer any more: it may have been taken. Only of a run that ended so. */
  readonly unsure?: string;
  readonly error?: string;
}

export type Started =
  | { readonly kind: 'started'; readonly run: Run }
  /** So many go on in this process already. */
  | { readonly kind: 'full'; readonly most: number };

export interface Runs {
  /** It takes nothing before `ready` resolves, which must not reject. */
  start(request: RunRequest, ready?: Promise<unknown>): Started;
  /** The newest first: those that go on, and the last ones that ended. */
  list(): readonly Run[];
  find(id: string): Run | undefined;
  /** It ends before the next dead letter. False if it has ended already, or never was. */
  stop(id: string): boolean;
  /** Stops all, and resolves when they have ended. */
  close(): Promise<void>;
}

export interface RunsOptions {
  readonly shards: () => Promise<readonly Pick<DeadLetters, 'walk' | 'find' | 'replay' | 'discard'>[]>;
  /** RedisAwayError if that is what the error means. */
  readonly explain: (error: unknown) => unknown;
  /** Called with each run that has ended. */
  readonly onEnd?: (run: Run) => void;
  /** How many may go on at once. */
  readonly most?: number;
  /** How long a run waits for a Redis that does not answer, before it fails. */
  readonly patienceMs?: number;
}

const MOST = 3;
const PATIENCE_MS = 60_000;
const AGAIN_MS = 500;
/** So many that have ended are remembered. */
const REMEMBERED = 50;

/**
 * Runs that a console or the HTTP API starts. Each lives in the process that started it: if that ends, the run ends with it, and what it has not taken
 * is still there. Dead letters are taken one by one, each in a step of its own in Redis, so of two runs over the same ones each is
 * taken by one. If Redis goes away, a run waits, then goes on from the beginning of what is left.
 */
export function createRuns({ shards, explain, onEnd, most = MOST, patienceMs = PATIENCE_MS }: RunsOptions): Runs {
  const all = new Map<string, Going>();

  const going = () => [...all.values()].filter(({ run }) => run.state === 'running');

  async function go(each: Going, ready: Promise<unknown>): Promise<void> {
    const { run, stopping } = each;
    const { signal } = stopping;
    await ready;
    if (signal.aborted) return;
    const attend = <T>(work: () => Promise<T>) => untilAnswered(each, work);
    const opened = await attend(shards);
    run.of = await attend(async () => {
      const walk = walkChosen(opened, run, { signal });
      let count = 0;
      while ((await walk.next()).done !== true) count++;
      return count;
    });
    const pace = createPace(run.perSecond, { signal });
    await attend(async () => {
      for await (const found of walkChosen(opened, run, { signal })) {
        delete run.awaySince;
        await pace();
        if (signal.aborted) return;
        await take(each, found, opened);
      }
    });
  }

  /** Takes one. An error of Redis does not say whether the step was done: if the dead letter is gone at the next try, it was. */
  async function take(each: Going, found: FoundDeadLetter, opened: Awaited<ReturnType<typeof shards>>): Promise<void> {
    const { run } = each;
    const isTaken = await untilAnswered(each, async () => {
      const wasUnsure = run.unsure !== undefined;
      run.unsure = found.id;
      const shard = opened[found.shard];
      const taken = run.verb === 'replay' ? await shard?.replay(found) : await shard?.discard(found.id);
      delete run.unsure;
      return (run.verb === 'replay' ? taken !== undefined : taken === 'discarded') || wasUnsure;
    });
    if (!isTaken) {
      run.gone++;
      return;
    }
    run.done++;
    countIn(each.byReason, found.letter.reason);
  }

  /** Tries again while Redis is away. Rejects if that takes too long, if it would not help, or if the run is to stop. */
  async function untilAnswered<T>({ run, stopping }: Going, work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        const answer = await work();
        delete run.awaySince;
        return answer;
      } catch (error) {
        const known = explain(error);
        const awayMs = Date.now() - (run.awaySince ??= Date.now());
        if (!mayPass(known) || stopping.signal.aborted || awayMs >= patienceMs) throw known;
        await sleep(AGAIN_MS, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
  }

  async function goToEnd(each: Going, ready: Promise<unknown>): Promise<void> {
    const { run, stopping } = each;
    try {
      await go(each, ready);
      run.state = stopping.signal.aborted ? 'stopped' : 'done';
    } catch (error) {
      run.state = stopping.signal.aborted ? 'stopped' : 'failed';
      run.error = error instanceof Error ? error.message : String(error);
    }
    delete run.awaySince;
    run.endedAt = Date.now();
    const ended = [...all.values()].filter((other) => other.run.state !== 'running');
    for (const old of ended.slice(0, -REMEMBERED)) all.delete(old.run.id);
    onEnd?.(shown(each));
  }

  return {
    start(request, ready: Promise<unknown> = Promise.resolve()) {
      if (going().length >= most) return { kind: 'full', most };
      const run: Going['run'] = {
        ...request,
        ...{ id: crypto.randomUUID().slice(0, 8), state: 'running', beganAt: Date.now() },
        ...{ done: 0, gone: 0 },
      };
      const each: Going = { run, byReason: new Map(), stopping: new AbortController(), ended: Promise.resolve() };
      all.set(run.id, each);
      each.ended = goToEnd(each, ready);
      return { kind: 'started', run: shown(each) };
    },
    list: () => [...all.values()].reverse().map(shown),
    find(id) {
      const each = all.get(id);
      return each && shown(each);
    },
    stop(id) {
      const each = all.get(id);
      if (each?.run.state !== 'running') return false;
      each.stopping.abort();
      return true;
    },
    async close() {
      for (const { stopping } of going()) stopping.abort();
      await Promise.all([...all.values()].map(({ ended }) => ended));
    },
  };
}

/** A run of this process. */
interface Going {
  readonly run: { -readonly [Field in keyof Omit<Run, 'byReason'>]: Run[Field] };
  readonly byReason: Map<DeadLetterReason, number>;
  readonly stopping: AbortController;
  ended: Promise<void>;
}

function shown({ run, byReason }: Going): Run {
  return { ...run, byReason: Object.fromEntries(byReason) };
}

function mayPass(error: unknown): boolean {
  const { name, trouble } = error as Partial<RedisAwayError>; // the class itself is for where programs are put together
  return name === 'RedisAwayError' && trouble !== undefined && !isLasting(trouble);
}
