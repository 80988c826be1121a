import { countBalance } from './balance.ts';
import { countDuplicates } from './duplicates.ts';
import { POLICIES } from './environment.ts';
import { judgePacing } from './pacing.ts';
import type { Facts } from './run.ts';
import type { ChaosResult } from './verdict.ts';

/** What a run came to, and where to look for what went wrong. */
export interface Judged {
  readonly result: ChaosResult;
  readonly troubles: Readonly<Record<string, readonly string[]>>;
}

/** Counts it all, from the facts alone. */
export function judgeRun(facts: Facts, { seed, seconds }: { readonly seed: number; readonly seconds: number }): Judged {
  const { enqueued, entries, ends, struck, leaks, left } = facts;
  const { suspects, ...balance } = countBalance(enqueued, entries, ends);
  const { bursts, ...pacing } = judgePacing(enqueued, entries, POLICIES);
  const { unexplained, explainedBy, ...duplicates } = countDuplicates({ enqueued, entries, ends, ...struck });
  const { counts } = struck;
  const result: ChaosResult = {
    ...balance,
    ...pacing,
    ...duplicates,
    duplicatesBy: explainedBy,
    secretsLeaked: leaks.length,
    processesLeft: left.length,
    crashes: facts.crashes.length,
    requeues: ends.completed.reduce((sum, { progress }) => sum + progress.requeues, 0),
    kills: counts['kill-worker'],
    stops: counts['stop-worker'],
    restarts: counts['restart-worker'],
    redisRestarts: counts['kill-redis'],
    redisPauses: counts['pause-redis'],
    redisCuts: counts['cut-clients'],
    refusals: entries.filter(({ status }) => status !== 200).length,
    drainMs: facts.drainMs,
    longestStallMs: Math.round(Math.max(0, ...facts.stalls)),
    seed,
    seconds,
  };
  const troubles = {
    'neither ended nor queued as it should': suspects,
    'still queued': ends.queued,
    'a burst': bursts,
    'a duplicate without a reason': unexplained,
    'a secret': leaks.map(({ where, name, times }) => `${name} in ${where}, ${times} times`),
    'a worker that crashed': facts.crashes.map((pid) => `process ${pid}`),
    'still running': left.map((pid) => `process ${pid}`),
  };
  return { result, troubles };
}
