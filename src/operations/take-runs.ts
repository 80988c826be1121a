import { preview, type Preview } from '../dead-letters/outlook.ts';
import { rateText } from '../dead-letters/pace.ts';
import { createRuns, type Run, type Runs, type RunsOptions, type Started } from '../dead-letters/runs.ts';
import type { DeadLetters } from '../dead-letters/store.ts';
import { defined } from '../domain/json.ts';
import type { Policy } from '../domain/limits.ts';
import type { Logger } from '../observe/log.ts';
import { notNowWord } from '../redis/deadline.ts';
import type { Audit } from './audit.ts';
import { choiceText, type Wish } from './taking.ts';

/** The dead letters of each shard, and Redis's clock. */
export interface OpenedDeadLetters {
  readonly shards: readonly DeadLetters[];
  /** Epoch milliseconds. */
  readonly now: number;
}

export interface TakeRunsParts extends Pick<RunsOptions, 'explain'> {
  readonly open: () => Promise<OpenedDeadLetters>;
  /** The limits of the living workers, for the forecast of a preview. */
  readonly policy: () => Promise<Policy>;
  readonly audit: Pick<Audit, 'write'>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/** What a run would do, with the terms of the forecast. */
export interface TakePreview extends Preview {
  readonly policy: Policy;
  /** Redis's clock when the preview looked: epoch milliseconds. */
  readonly now: number;
}

/** Replays and discards in the background. Their beginning and end are written to the audit. */
export interface TakeRuns extends Pick<Runs, 'list' | 'find' | 'close'> {
  readonly open: TakeRunsParts['open'];
  /** Writes nothing. Ends after `lookMs` milliseconds with what it has seen by then. */
  preview(wish: Wish, opened: OpenedDeadLetters, lookMs: number, leaving?: AbortSignal): Promise<TakePreview>;
  /** Rejects, and takes nothing, if the audit cannot be written. @param by the operator, as the audit shows it */
  start(wish: Wish, by: string): Promise<Started>;
  /** False if the run has ended already, or never existed. */
  stop(id: string, by: string): boolean;
}

export function openTakeRuns({ open, policy, explain, audit, log }: TakeRunsParts): TakeRuns {
  const shards = async () => (await open()).shards;
  const ends = new Set<Promise<void>>();
  const stoppedBy = new Map<string, string>();
  const runs = createRuns({
    ...{ shards, explain },
    onEnd(run) {
      const end = noteEnd(run).finally(() => ends.delete(end));
      ends.add(end);
    },
  });

  /** Writes the end of a run to the audit. If that fails, the log says what the run did. */
  async function noteEnd(run: Run): Promise<void> {
    const { id, verb, by, state, done, of, gone, error } = run;
    const stopper = stoppedBy.get(id);
    stoppedBy.delete(id);
    const counts = defined({ done, of, gone, stoppedBy: stopper });
    log.info(defined({ run: id, verb, by, state, ...counts, error }), 'dead letters taken');
    try {
      await audit.write({ ...takeEntry(run, by), facts: { run: id, state, ...counts } });
    } catch (failed) {
      log.warn({ err: explain(failed), run: id }, 'the end of a run could not be written to the audit');
    }
  }

  return {
    open,
    async preview(wish, { shards: all, now }, lookMs, leaving) {
      const terms = { perSecond: wish.perSecond, policy: await policy(), now };
      const signals = [AbortSignal.timeout(lookMs), ...(leaving === undefined ? [] : [leaving])];
      const seen = await preview(all, wish, { ...terms, signal: AbortSignal.any(signals) });
      return { ...seen, policy: terms.policy, now };
    },
    async start(wish, by) {
      const ready = Promise.withResolvers<undefined>();
      const started = runs.start({ ...wish, by }, ready.promise);
      if (started.kind === 'full') return started;
      const { id, perSecond } = started.run;
      try {
        await noteBegin(audit, wish, by, { run: id, state: 'began', rate: rateText(perSecond) });
      } catch (error) {
        runs.stop(id);
        throw error;
      } finally {
        ready.resolve(undefined);
      }
      return started;
    },
    stop(id, by) {
      const isStopped = runs.stop(id);
      if (isStopped) {
        stoppedBy.set(id, by);
        log.info({ run: id, by }, 'a run was stopped');
      }
      return isStopped;
    },
    list: () => runs.list(),
    find: (id) => runs.find(id),
    async close() {
      await runs.close();
      await Promise.all(ends);
    },
  };
}

/**
 * Writes to the audit that a run begins, before it takes the first dead letter, so that nothing is done without a record.
 * Rejects if it cannot be written, with one exception: a discard while Redis's memory is full makes room, so it may begin
 * without this entry.
 */
export async function noteBegin(
  audit: Pick<Audit, 'write'>,
  wish: Pick<Wish, 'verb' | 'which'>,
  who: string,
  facts: Readonly<Record<string, string | number>>,
): Promise<void> {
  await audit.write({ ...takeEntry(wish, who), facts }).catch((error: unknown) => {
    if (wish.verb !== 'discard' || notNowWord(String(error)) !== 'OOM') throw error;
  });
}

/** The entry of the audit for a replay or discard. The caller adds `facts`: state and counts. */
export function takeEntry({ verb, which }: Pick<Wish, 'verb' | 'which'>, who: string) {
  return { who, action: `dead-letters ${verb}`, on: choiceText(which) };
}
