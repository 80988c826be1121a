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
  /** The most dead letters that are taken in a second; Infinity: without a pause. */
  readonly perSecond: number;
  /** The operator who started the run. */
  readonly by: string;
}

/** `failed`: `error` says why. Dead letters that were not taken still exist, so the run may be started again. */
export type RunState = 'running' | 'done' | 'stopped' | 'failed';

/** A replay or discard of many dead letters in the background. */
export interface Run extends RunRequest {
  readonly id: string;
  readonly state: RunState;
  /** Epoch milliseconds on this machine's clock. */
  readonly beganAt: number;
  readonly endedAt?: number;
  /** How many dead letters were chosen. Absent while they are counted, and if the run ended before all were counted. */
  readonly of?: number;
  /** How many dead letters the run has taken. */
  readonly done: number;
  readonly byReason: ReasonCounts;
  /** How many chosen dead letters others had taken before the run came to them. */
  readonly gone: number;
  /** Since when Redis does not answer: epoch milliseconds. Absent while Redis answers. */
  readonly awaySince?: number;
  /** If the run ended because Redis did not answer: the id of the dead letter that may have been taken or not. */
  readonly unsure?: string;
  readonly error?: string;
}

export type Started =
  | { readonly kind: 'started'; readonly run: Run }
  /** This many runs go on in this process already. */
  | { readonly kind: 'full'; readonly most: number };

export interface Runs {
  /** The run takes nothing before `ready` resolves, which must not reject. */
  start(request: RunRequest, ready?: Promise<unknown>): Started;
  /** The runs that go on and the last ones that ended, the newest first. */
  list(): readonly Run[];
  find(id: string): Run | undefined;
  /** The run ends before its next dead letter. False if it has ended already, or never existed. */
  stop(id: string): boolean;
  /** Stops all runs, and resolves when they have ended. */
  close(): Promise<void>;
}

export interface RunsOptions {
  readonly shards: () => Promise<readonly Pick<DeadLetters, 'walk' | 'find' | 'replay' | 'discard'>[]>;
  /** Turns an error into a RedisAwayError if Redis is away; answers any other error as it is. */
  readonly explain: (error: unknown) => unknown;
  /** Called with each run that has ended. */
  readonly onEnd?: (run: Run) => void;
  /** How many runs may go on at once. */
  readonly most?: number;
  /** How long a run waits while Redis does not answer, before it fails. Milliseconds. */
  readonly patienceMs?: number;
}

const MOST = 3;
const PATIENCE_MS = 60_000;
const AGAIN_MS = 500;
/** This many runs that have ended are remembered. */
const REMEMBERED = 50;

/**
 * Runs that a console or the HTTP API starts. A run ends with the process that started it, and dead letters that it has not
 * taken still exist. Each dead letter is taken in one step in Redis: if two runs choose the same one, only one of them takes
 * it. While Redis does not answer, a run waits. Then it walks again over the dead letters that are left.
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
    const of = await attend(async () => {
      const walk = walkChosen(opened, run, { signal });
      let count = 0;
      while ((await walk.next()).done !== true) count++;
      return count;
    });
    if (stopping.signal.aborted) return; // only some were counted
    run.of = of;
    const pace = createPace(run.perSecond, { signal });
    // A reshard may move dead letters to a place that the walk has passed. So walks are repeated until one takes nothing.
    for (let before = -1; before < run.done && run.done + run.gone < of;) {
      before = run.done;
      await attend(async () => {
        const now = await shards();
        for await (const found of walkChosen(now, run, { signal })) {
          delete run.awaySince;
          await pace();
          if (signal.aborted) return;
          await take(each, found, now);
        }
      });
    }
  }

  /**
   * Takes one dead letter. An error of Redis does not say whether it was taken: if it is gone at the next try, it was taken.
   */
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

  /** Repeats `work` while Redis does not answer. Rejects if that takes too long or cannot help, or if the run is stopped. */
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
  const { name, trouble } = error as Partial<RedisAwayError>; // only the folders that put the parts together import the class
  return name === 'RedisAwayError' && trouble !== undefined && !isLasting(trouble);
}
