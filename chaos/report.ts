import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { longestMs } from '../demo/providers-process.ts';
import { countBalance, unknownRequests, judgeWaiting } from './balance.ts';
import { POLICIES, refOf } from './workload.ts';
import type { Fault } from './faults.ts';
import { lostLocks, stopsWithoutRedis, thawsOf } from './fleet.ts';
import { underWay, whatWasForgotten } from './forgotten.ts';
import {
  countDuplicates,
  saysAccepted,
  judgePacing,
  type ChaosResult,
  type Check,
  type ClusterResult,
} from './judge.ts';
import { countBreakers } from './logs.ts';
import type { Facts, RunOptions } from './run.ts';

/** The result of a run, and details of everything that went wrong. */
export interface Judged {
  readonly result: ChaosResult;
  readonly troubles: Readonly<Record<string, readonly string[]>>;
}

/** The last lines of a log are lost with its process: those of this time. */
const LOST_LOG_MS = 250;

/**
 * The logs of workers that were killed and may have sent this: they had the job, or had just ended it, and did not live to log who sent
 * it. The log line of a pass is written at its end.
 */
function killedOf(incidents: Facts['injected']['incidents']): (id: string, at: number) => string[] {
  return (id, at) =>
    incidents.flatMap((kill) => {
      const mayHaveSent = at <= kill.at && (kill.ids.has(id) || kill.at - at < LOST_LOG_MS);
      return kill.log !== undefined && mayHaveSent ? [kill.log] : [];
    });
}

/** Computes the result from the facts alone. */
export function judgeRun(facts: Facts, { seed, seconds, cluster }: JudgeOptions): Judged {
  const { enqueued, entries, ends, injected, leaks, logs, left, prefix, canceledAt } = facts;
  const { failovers } = injected;
  const waits = (cluster?.waitReplicas ?? 0) > 0;
  const forgotten = whatWasForgotten({ failovers, prefix, enqueued, logs, canceledAt, waits });
  const thaws = thawsOf(injected.freezes, logs);
  const { suspects, forgotten: lostNotifications, ...balance } = countBalance(enqueued, entries, ends, forgotten);
  const { bursts, burstsAfterFreeze, burstsAfterStall, burstsAfterFailover, ...pacing } = judgePacing(
    enqueued,
    facts.delays.counted(entries, ({ data }) => refOf(data), killedOf(injected.incidents)),
    POLICIES,
    thaws,
    forgotten,
  );
  const incidents = [
    ...injected.incidents,
    ...stopsWithoutRedis(injected.freezes, logs),
    ...underWay(failovers, prefix, enqueued, entries),
    ...lostLocks(logs),
  ];
  const inHand = new Set([...incidents, ...thaws].flatMap(({ ids }) => [...ids]));
  const { unexplained, explainedBy, forgottenEnds, ...duplicates } = countDuplicates({
    ...{ enqueued, entries, ends, thaws, cuts: injected.cuts, incidents, forgotten },
  });
  const unknown = unknownRequests(enqueued, entries);
  const waited = judgeWaiting({ enqueued, entries, ends, cancels: facts.cancels, inHand });
  const { digests, quietAlerts } = waited;
  const { faults = [], lostWaiting = [] } = Object.groupBy(waited.faults, (fault) =>
    forgotten.waiting(fault.slice(0, fault.indexOf(':'))) ? 'lostWaiting' : 'faults',
  );
  const { breakersOpened, breakersByOneDevice } = countBreakers(logs);
  const { counts, oddDevices } = injected;
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
    ...(cluster !== undefined && {
      cluster: clusterResult(facts, cluster.waitReplicas),
      replicationLost: {
        notifications: lostNotifications.length,
        admissions: failovers.flatMap(({ admissions }) => admissions).length,
        violations: burstsAfterFailover.length,
        ends: forgottenEnds,
        waiting: lostWaiting.length,
        windowMs: Math.max(0, ...failovers.map(windowMs)),
      },
    }),
  };
  const troubles = {
    'neither ended nor queued as it should': suspects,
    'still queued': ends.queued,
    'a burst': bursts,
    'late after a freeze': burstsAfterFreeze,
    'forgotten by a failover': [...lostNotifications, ...burstsAfterFailover, ...lostWaiting],
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

interface JudgeOptions extends Pick<RunOptions, 'cluster'> {
  readonly seed: number;
  readonly seconds: number;
}

/** How long before the kill the writes began that may be lost. */
function windowMs({ at, keptUntil }: Facts['injected']['failovers'][number]): number {
  return Math.ceil(at - keptUntil);
}

function clusterResult({ injected: { failovers, slotsMoved } }: Facts, waitReplicas: number): ClusterResult {
  return {
    failovers: failovers.length,
    slotsMoved: slotsMoved.length,
    keysMoved: slotsMoved.reduce((sum, { keys }) => sum + keys, 0),
    waitReplicas,
    lostBeforeWindow: failovers.flatMap(({ admissions, keptUntil }) => admissions.filter(({ at }) => at < keptUntil))
      .length,
    kills: failovers.map((one) => ({
      at: new Date(one.at).toISOString(),
      lagMs: one.lagMs,
      windowMs: windowMs(one),
      awayMs: Math.round(one.until - one.at),
      admissions: one.admissions.length,
    })),
  };
}

/** Writes the facts of a run as NDJSON, to find the cause of a failure. Contains tokens and texts (generated ones). */
export async function keepFacts(folder: string, { enqueued, entries, ends, injected, leaks }: Facts): Promise<void> {
  const incidents = injected.incidents.map((incident) => ({ ...incident, ids: [...incident.ids] }));
  const files: Readonly<Record<string, readonly unknown[]>> = {
    enqueued: [...enqueued.values()],
    journal: entries,
    completed: ends.completed,
    'dead-letters': ends.dead,
    incidents: [...incidents, ...injected.cuts],
    ...(injected.failovers.length > 0 && { failovers: injected.failovers, 'slots-moved': injected.slotsMoved }),
    freezes: injected.freezes.map((freeze) => ({ ...freeze, holders: [...freeze.holders] })),
    leaks,
  };
  for (const [name, lines] of Object.entries(files)) {
    await writeFile(join(folder, `${name}.ndjson`), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }
}

/** The report for a person at the end. */
export function renderReport(result: ChaosResult, verdict: readonly Check[]): string {
  const { superseded, merged, canceled } = result;
  const { notifications, delivered, deadLettered, expired, dropped, requeues, minGapMs, drainMs } = result;
  return [
    `\n${notifications} notifications: ${delivered} delivered, ${deadLettered} dead letters, ${expired} expired, ${dropped} dropped.`,
    `Waited together: ${superseded} superseded, ${merged} merged into digests; ${canceled} canceled.`,
    `Dead letters: ${counted(result.deadLetters)}. Duplicates by their reason: ${counted(result.duplicatesBy)}.`,
    `Breakers opened: ${counted(result.breakersOpened)}.`,
    `${requeues} requeues; least gap ${minGapMs} ms; drained within ${(drainMs / 1_000).toFixed(1)} s.`,
    ...clusterLines(result),
    ...verdict.map(({ what, found, ok }) => `${ok ? 'ok  ' : 'FAIL'}  ${what}: ${found}`),
  ].join('\n');
}

function clusterLines({ cluster, replicationLost }: ChaosResult): string[] {
  if (cluster === undefined || replicationLost === undefined) return [];
  const { windowMs: longest, ...lost } = replicationLost;
  const kills = cluster.kills.map(
    ({ at, windowMs: window, awayMs }) => `${at.slice(11, 23)} (window ${window} ms, no master for ${awayMs} ms)`,
  );
  return [
    `Masters killed at ${kills.join(', ')}; ${cluster.slotsMoved} slots moved with ${cluster.keysMoved} keys.`,
    `Lost by replication, of the last ${longest} ms before a kill: ${counted(lost)}.`,
  ];
}

/** `47 unregistered, 13 invalid` */
function counted(counts: Readonly<Record<string, number>>): string {
  const some = Object.entries(counts).filter(([, count]) => count > 0);
  if (some.length === 0) return 'none';
  return some
    .toSorted(([, a], [, b]) => b - a)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ');
}

const MOST_SHOWN = 20;

/** The first 20 of each kind of trouble, one line each: `a burst: recipient-7: gap, 263 ms at …`. */
export function renderTroubles(troubles: Readonly<Record<string, readonly string[]>>): string[] {
  return Object.entries(troubles).flatMap(([what, found]) => {
    const lines = found.slice(0, MOST_SHOWN).map((one) => `${what}: ${one}`);
    return found.length > MOST_SHOWN ? [...lines, `${what}: ${found.length - MOST_SHOWN} more`] : lines;
  });
}

/** `  12.3 s  worker 4 is stopped for 7.1 s`: one line of the plan. */
export function describeFault(fault: Fault): string {
  return `${seconds(fault.atMs).padStart(8)}  ${what(fault)}`;
}

function what(fault: Fault): string {
  switch (fault.kind) {
    case 'kill-worker':
      return `worker ${fault.worker} is killed, and replaced`;
    case 'restart-worker':
      return `worker ${fault.worker} gets SIGTERM, and is replaced`;
    case 'stop-worker':
      return `worker ${fault.worker} is frozen for ${seconds(fault.forMs)}`;
    case 'kill-redis':
      if (fault.of !== undefined) return killText(fault);
      return `Redis is killed, and comes back after ${seconds(fault.forMs)}`;
    case 'pause-redis':
      if (fault.of !== undefined) return `the master of a ${fault.of} answers no client for ${seconds(fault.forMs)}`;
      return `Redis answers no client for ${seconds(fault.forMs)}`;
    case 'move-slot':
      return `the slot of a ${fault.of} moves to another master`;
    case 'cut-clients':
      return 'Redis cuts every connection';
    case 'answers':
      return `${fault.platform} for ${seconds(fault.forMs)}: ${fault.name} (${percents(fault)})`;
    case 'go-away':
      return `${fault.platform} for ${seconds(fault.forMs)}: a GOAWAY every ${fault.every} requests`;
    case 'drop-connections':
      return `${fault.platform}: every connection is reset`;
    case 'close-idle':
      return `${fault.platform}: every idle connection is closed`;
    case 'odd-device':
      return `${fault.platform}: one device is answered ${fault.word}`;
    case 'revoke-key':
      return `${fault.platform} for ${seconds(fault.forMs)}: the workers' credentials are refused`;
    case 'provider-down':
      return `${fault.platform} for ${seconds(fault.forMs)}: the server is down`;
  }
}

function killText({ of, forMs, lagMs = 0 }: Extract<Fault, { kind: 'kill-redis' }>): string {
  const lag = lagMs === 0 ? '' : `, ${seconds(lagMs)} after its replica was cut off`;
  return `the master of a ${of} is killed${lag}; it comes back ${seconds(forMs)} after its replica took over`;
}

function percents({ rates }: Extract<Fault, { kind: 'answers' }>): string {
  return rates.map(({ rate }) => `${(rate * 100).toFixed(1)} %`).join(', ');
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
