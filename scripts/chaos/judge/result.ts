import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { longestMs } from '../../support/providers-process.ts';
import { POLICIES } from '../plan/environment.ts';
import { refOf } from '../plan/workload.ts';
import { countBreakers } from '../run/logs.ts';
import type { Facts } from '../run/run.ts';
import { countBalance, unknownRequests } from './balance.ts';
import { countDuplicates, saysAccepted } from './duplicates.ts';
import { stopsWithoutRedis, thawsOf } from '../run/freezes.ts';
import { judgePacing } from './pacing.ts';
import { judgeWaiting } from './waiting.ts';
import type { ChaosResult } from './verdict.ts';

/** The result of a run, and details of everything that went wrong. */
export interface Judged {
  readonly result: ChaosResult;
  readonly troubles: Readonly<Record<string, readonly string[]>>;
}

/**
 * Whether a worker that was killed may have sent this: it had the job, and it did not live to log who sent it. The log line of a pass
 * is written at its end, and the last 100 ms of a log are lost with its process.
 */
function wasKilled(incidents: Facts['struck']['incidents']): (id: string, at: number) => boolean {
  const kills = incidents.filter(({ kind }) => kind === 'kill');
  return (id, at) => kills.some((kill) => at <= kill.at && kill.ids.has(id));
}

/** Computes the result from the facts alone. */
export function judgeRun(facts: Facts, { seed, seconds }: { readonly seed: number; readonly seconds: number }): Judged {
  const { enqueued, entries, ends, struck, leaks, logs, left } = facts;
  const thaws = thawsOf(struck.freezes, logs);
  const { suspects, ...balance } = countBalance(enqueued, entries, ends);
  const { bursts, burstsAfterFreeze, burstsAfterStall, ...pacing } = judgePacing(
    enqueued,
    facts.delays.counted(entries, ({ data }) => refOf(data), wasKilled(struck.incidents)),
    POLICIES,
    thaws,
  );
  const incidents = [...struck.incidents, ...stopsWithoutRedis(struck.freezes, logs)];
  const inHand = new Set([...incidents, ...thaws].flatMap(({ ids }) => [...ids]));
  const { unexplained, explainedBy, ...duplicates } = countDuplicates({
    ...{ enqueued, entries, ends, thaws, cuts: struck.cuts, incidents },
  });
  const unknown = unknownRequests(enqueued, entries);
  const { faults, digests, quietAlerts } = judgeWaiting({ enqueued, entries, ends, cancels: facts.cancels, inHand });
  const { breakersOpened, breakersByOneDevice } = countBreakers(logs);
  const { counts, oddDevices } = struck;
  const result: ChaosResult = {
    ...balance,
    ...pacing,
    ...duplicates,
    duplicatesBy: explainedBy,
    unknownRequests: unknown.length,
    digests,
    quietAlerts,
    waitingFaults: faults.length,
    breakersOpened,
    breakersByOneDevice: breakersByOneDevice.length,
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
    oddDevices: oddDevices.filter(({ token, word }) =>
      entries.some((entry) => entry.token === token && entry.reason === word),
    ).length,
    browserPushes: entries.filter(({ platform, accepted }) => accepted && platform === 'webpush').length,
    refusals: entries.filter((entry) => !saysAccepted(entry)).length,
    drainMs: facts.drainMs,
    longestStallMs: longestMs(facts.stalls),
    seed,
    seconds,
  };
  const troubles = {
    'neither ended nor queued as it should': suspects,
    'still queued': ends.queued,
    'a burst': bursts,
    'late after a freeze': burstsAfterFreeze,
    'under way while a process did not run': burstsAfterStall,
    'a request that nobody asked for': unknown,
    'what waited together, or was canceled': faults,
    'a breaker that one device opened': breakersByOneDevice,
    'a duplicate without a reason': unexplained,
    'a secret': leaks.map(({ where, name, times }) => `${name} in ${where}, ${times} times`),
    'a worker that crashed': facts.crashes.map((pid) => `process ${pid}`),
    'still running': left.map((pid) => `process ${pid}`),
  };
  return { result, troubles };
}

/** Writes the facts of a run as NDJSON, to find the cause of a failure. Contains tokens and texts (generated ones). */
export async function keepFacts(folder: string, { enqueued, entries, ends, struck, leaks }: Facts): Promise<void> {
  const incidents = struck.incidents.map((incident) => ({ ...incident, ids: [...incident.ids] }));
  const files: Readonly<Record<string, readonly unknown[]>> = {
    enqueued: [...enqueued.values()],
    journal: entries,
    completed: ends.completed,
    'dead-letters': ends.dead,
    incidents: [...incidents, ...struck.cuts],
    freezes: struck.freezes.map((freeze) => ({ ...freeze, holders: [...freeze.holders] })),
    leaks,
  };
  for (const [name, lines] of Object.entries(files)) {
    await writeFile(join(folder, `${name}.ndjson`), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }
}
