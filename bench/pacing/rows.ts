import { setTimeout as sleep } from 'node:timers/promises';
import type { MachineCounts } from '../../demo/verdict.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { Notification } from '../../src/notification/notification.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { arrivalInstant } from '../../sandbox/journal.ts';
import { judge, type Arrival } from '../../sandbox/judge.ts';
import { PREFIX, type How } from '../redis.ts';
import {
  bucketQuantile,
  countAbove,
  countOf,
  keptBy,
  lateToleranceMs,
  makespanRatios,
  passesOf,
  quantile,
  spreadOf,
  tookOf,
  type Kept,
  type Spread,
  type Took,
} from './figures.ts';
import { makeAlert, onStage, type Alert, type Run, type Setting, type Stage } from './run.ts';

/** What every row counts. */
export interface RowFigures extends Kept {
  /** Of one notification: the mean, and the most. */
  readonly passes: number;
  readonly passesWorst: number;
  /** How late wake-ups of all recipients were, by the workers' histogram. */
  readonly woken: Pick<Spread, 'p50' | 'p99'>;
  /** Wake-ups that may have been later than the late tolerance; 0 means that none was. */
  readonly tooLate: number;
  readonly stallMs: number;
}

/** Passes are those of `ids`; whether the limits were kept is judged by all arrivals. */
async function rowFigures(
  run: Run,
  all: readonly Alert[],
  ids: readonly string[],
  policy: Policy,
): Promise<RowFigures> {
  const { arrivals, jobs, woken, stallMs } = run;
  const { mean, worst } = passesOf(jobs, ids);
  return {
    ...keptBy(
      arrivals,
      all.map(({ id }) => id),
      policy,
    ),
    passes: mean,
    passesWorst: worst,
    woken: { p50: bucketQuantile(woken, 0.5), p99: bucketQuantile(woken, 0.99) },
    tooLate: countAbove(woken, await lateToleranceMs(policy)),
    stallMs,
  };
}

/** A gap alone. A worker wants at least one rule, so it gets one that never makes anybody wait. */
function gapOf(minGapMs: number): Policy {
  return { rules: [{ max: 1_000, perMs: 1_000 }], minGapMs };
}

export interface FloodSize {
  readonly busy: number;
  readonly others: number;
}
export const FLOOD: FloodSize = { busy: 40, others: 2_000 };
export const FLOOD_POLICY = gapOf(250);
const FLOOD_LIMIT_MS = 120_000;

/** The setting but for its policy. */
export type FloodCase = Omit<Setting, 'policy'>;

/** The passes are those of the busy recipient's notifications. */
export interface FloodFigures extends RowFigures {
  /** The busy recipient: from the first alert to the last, over the shortest that the gap allows. */
  readonly ratio: number;
  readonly wakeUps: number;
  readonly lateToleranceMs: number;
  /** Passes of the busy recipient's due notifications. */
  readonly took: readonly Took[];
  /** When the last alert of the others arrived: until then the flood lasted. */
  readonly othersEndAt: number;
  readonly othersMs: number;
  /** What the demo's judge of the machine takes (demo/verdict.ts): of the busy recipient, but for the lateness of all. */
  readonly counts: MachineCounts;
}

function countsOf(own: readonly Arrival[], { jobs, woken }: Run, lateWakes: number, standstillsMs: number[]) {
  const requeues = own
    .map(({ notificationId }) => jobs.get(notificationId)?.requeues ?? 0)
    .filter((count) => count > 0);
  const all = requeues.reduce((total, count) => total + count, 0);
  return {
    ...judge(own, FLOOD_POLICY),
    alertsOfBusiest: own.length,
    requeues: all,
    blocked: requeues.length,
    requeuesPerBlocked: all / requeues.length,
    moreRequeuesOfBusiest: all - requeues.length,
    lateWakes,
    mostLateMs: Math.round(bucketQuantile(woken, 1)),
    standstills: standstillsMs.filter((ms) => ms > 25).length, // longer than a send may be late
  };
}

/** Many notifications for one recipient lie evenly among one each for many others; all are enqueued at once. */
export async function runFlood(redisUrl: string, { busy, others }: FloodSize, how: FloodCase): Promise<FloodFigures> {
  const policy = FLOOD_POLICY;
  const alerts = Array.from({ length: busy + others }, (_, index) => {
    const turn = Math.floor((index * busy) / (busy + others));
    const isBusy = index === 0 || turn !== Math.floor(((index - 1) * busy) / (busy + others));
    return isBusy ? makeAlert(`busy-${turn}`, 'busy') : makeAlert(`other-${index}`, `other-${index}`);
  });
  return onStage(redisUrl, { ...how, policy }, async (stage) => {
    const startedAt = arrivalInstant();
    await stage.queue.add(alerts);
    await stage.queue.settled(FLOOD_LIMIT_MS);
    const run = await stage.collect(alerts);
    const own = run.arrivals.filter(({ recipientId }) => recipientId === 'busy');
    const ids = alerts.filter(({ recipientId }) => recipientId === 'busy').map(({ id }) => id);
    const othersEndAt = run.arrivals.findLast(({ recipientId }) => recipientId !== 'busy')?.at ?? NaN;
    const figures = await rowFigures(run, alerts, ids, policy);
    return {
      ...figures,
      counts: countsOf(own, run, figures.tooLate, stage.replicas.delays.standstillsMs(startedAt)),
      ratio: makespanRatios(own, policy)[0] ?? NaN,
      wakeUps: countOf(run.woken),
      lateToleranceMs: await lateToleranceMs(policy),
      took: tookOf(own, run.jobs, policy),
      othersEndAt,
      othersMs: othersEndAt - startedAt,
    };
  });
}

export interface ManySize {
  readonly recipients: number;
  readonly each: number;
}
export const MANY: ManySize = { recipients: 1_500, each: 4 };
const MANY_LIMIT_MS = 120_000;
/** The setting of every line of alerts. */
const LINES = { concurrency: 50, eachWayMs: 0, warm: true };

export interface ManyCase {
  readonly gapMs: number;
  readonly how: How;
}

export interface ManyFigures extends RowFigures {
  readonly ratios: Spread;
  /** From the first enqueued to the last accepted. */
  readonly seconds: number;
}

/** A few notifications for each of many recipients, a recipient's own one behind the other; all are enqueued at once. */
export async function runMany(
  redisUrl: string,
  { recipients, each }: ManySize,
  { gapMs, how }: ManyCase,
): Promise<ManyFigures> {
  const policy = gapOf(gapMs);
  const alerts = linesOf(recipients, each);
  return onStage(redisUrl, { policy, ...LINES }, async (stage) => {
    const startedAt = arrivalInstant();
    await stage.queue.add(alerts, how);
    await stage.queue.settled(MANY_LIMIT_MS);
    const run = await stage.collect(alerts);
    const ids = alerts.map(({ id }) => id);
    return {
      ...(await rowFigures(run, alerts, ids, policy)),
      ratios: spreadOf(makespanRatios(run.arrivals, policy)),
      seconds: ((run.arrivals.at(-1)?.at ?? NaN) - startedAt) / 1_000,
    };
  });
}

/** `line-0-0`, `line-0-1`, …, `line-1-0`, …: the ids of one recipient's after the other's. */
function linesOf(recipients: number, each: number): Alert[] {
  return Array.from({ length: recipients * each }, (_, index) => {
    const line = `line-${Math.floor(index / each)}`;
    return makeAlert(`${line}-${index % each}`, line);
  });
}

export interface StandstillSize extends ManySize {
  /** WORKER_CONCURRENCY. */
  readonly concurrency: number;
}
/**
 * A load that every machine can do, one of 1,000 alerts a second, and one that workers with 8 places in all cannot do on any
 * machine, because each send takes 40 ms and more: the lines get behind by half a minute.
 */
export const STANDSTILLS: readonly StandstillSize[] = [
  { recipients: 200, each: 20, concurrency: 50 },
  { recipients: 2_000, each: 20, concurrency: 50 },
  { recipients: 600, each: 15, concurrency: 4 },
];
const STANDSTILL_GAP_MS = 2_000;
/** Until all lines stand, their recipients are blocked: for this long, and for a millisecond more for each alert. */
const BLOCKED_LEAST_MS = 4_000;
const STOPPED_MS = 1_500;
/** Newcomers come for so long before the stop, and until the lines end, but for so long at least, after the workers go on. */
const BEFORE_MS = 4_000;
const AFTER_MS = 12_000;
const NEWCOMER_EVERY_MS = 100;
/** Alerts of a line that are further apart than the gap plus this are behind. */
const BEHIND_MS = 250;
const FIRST_PASSES_LIMIT_MS = 120_000;
const STANDSTILL_LIMIT_MS = 240_000;
const POLL_MS = 50;

/** Before the stop, during it, while lines were behind, and afterwards. */
export type Phase = 'before' | 'stopped' | 'behind' | 'after';

type Priority = Notification['priority'];

/** Of all lines; the newcomers are apart. */
export interface StandstillFigures extends RowFigures {
  readonly ratios: Spread;
  /** How long after the workers went on the last alert came that was more than 250 ms behind its line. */
  readonly behindMs: number;
  /** How long after its instant, as if nobody had ever waited for a worker, the latest alert of a line came. */
  readonly latestMs: number;
  /** Alerts that were accepted before the stop, over those that were due then: about 1, if the machine can do the work at all. */
  readonly doneBefore: number;
  /** From enqueued to accepted, by when they were enqueued. */
  readonly newcomers: Readonly<Record<Priority, Readonly<Record<Phase, Spread>>>>;
  readonly newcomersLost: number;
  /** How many waited for their slot when the workers were stopped. */
  readonly waiting: number;
  /** From the first accepted to the last. */
  readonly seconds: number;
}

/**
 * All workers stand still for a while, when every recipient has a line of notifications that wait. The recipients are blocked
 * before, so that all lines stand when the first one begins; they begin evenly spread over one gap.
 */
export async function runStandstill(redisUrl: string, size: StandstillSize): Promise<StandstillFigures> {
  const { recipients, each, concurrency } = size;
  const policy = gapOf(STANDSTILL_GAP_MS);
  const alerts = linesOf(recipients, each);
  const ids = alerts.map(({ id }) => id);
  return onStage(redisUrl, { policy, ...LINES, concurrency }, async (stage) => {
    const beginAt = Math.ceil(Date.now() + BLOCKED_LEAST_MS + alerts.length);
    const begins = Array.from({ length: recipients }, (_, index) => {
      return beginAt + Math.floor((index * STANDSTILL_GAP_MS) / recipients);
    });
    const limiter = createRedisLimiter({ redis: stage.queue.connection, prefix: PREFIX, policy });
    const blocking = begins.map((until, index) =>
      limiter.block(`line-${index}`, { until, reason: 'the lines are not complete yet' }),
    );
    await Promise.all(blocking);
    await stage.queue.add(alerts);
    await untilAllWait(stage);
    await sleep(Math.max(0, beginAt + STANDSTILL_GAP_MS - Date.now()));
    const coming = startNewcomers(stage);
    await sleep(BEFORE_MS);
    const waiting = await stage.queue.queue.getDelayedCount();
    const stoppedAt = arrivalInstant();
    signalAll(stage, 'SIGSTOP');
    await sleep(STOPPED_MS);
    signalAll(stage, 'SIGCONT');
    const goneOnAt = arrivalInstant();
    await sleep(AFTER_MS);
    await untilLinesEnd(stage);
    const newcomers = await coming.stop();
    await stage.queue.settled(STANDSTILL_LIMIT_MS);

    const all = [...alerts, ...newcomers.map(({ alert }) => alert)];
    const run = await stage.collect(all);
    const inLine = run.arrivals.filter(({ recipientId }) => recipientId.startsWith('line-'));
    const gaps = gapsOf(inLine);
    const late = gaps.filter(({ ms }) => ms > STANDSTILL_GAP_MS + BEHIND_MS);
    const due = begins.map((from) => Math.max(0, 1 + Math.floor((stoppedAt - from) / STANDSTILL_GAP_MS)));
    const behindMs = Math.max(0, ...late.map(({ at }) => at - goneOnAt));
    // A line whose alert fell into the stop is seen to be behind when its next alert comes, up to a gap later.
    const behindUntil = goneOnAt + Math.max(behindMs, STANDSTILL_GAP_MS);
    const acceptedAt = new Map(run.arrivals.map(({ notificationId, at }) => [notificationId, at]));
    const waits = newcomers.flatMap(({ alert, enqueuedAt }) => {
      const at = acceptedAt.get(alert.id);
      if (at === undefined) return [];
      const isBefore = at < stoppedAt; // one that was under way when the workers stopped waited with them
      const phase: Phase =
        enqueuedAt >= behindUntil ? 'after' : enqueuedAt >= goneOnAt ? 'behind' : isBefore ? 'before' : 'stopped';
      return { priority: alert.priority ?? 'normal', phase, ms: at - enqueuedAt };
    });
    const waitsOf = (priority: Priority): Record<Phase, Spread> => {
      const own = waits.filter((each) => each.priority === priority);
      const spread = (phase: Phase) => spreadOf(own.filter((each) => each.phase === phase).map(({ ms }) => ms));
      return {
        before: spread('before'),
        stopped: spread('stopped'),
        behind: spread('behind'),
        after: spread('after'),
      };
    };
    const latenesses = [...Map.groupBy(inLine, ({ recipientId }) => recipientId)].flatMap(([recipientId, own]) => {
      const begin = begins[Number(recipientId.slice('line-'.length))] ?? NaN;
      return own.map(({ at }, index) => at - (begin + index * STANDSTILL_GAP_MS));
    });
    return {
      ...(await rowFigures({ ...run, arrivals: inLine }, alerts, ids, policy)),
      ratios: spreadOf(makespanRatios(inLine, policy)),
      behindMs,
      latestMs: quantile(latenesses, 1),
      doneBefore: inLine.filter(({ at }) => at < stoppedAt).length / due.reduce((total, each) => total + each, 0),
      newcomers: { normal: waitsOf('normal'), high: waitsOf('high') },
      newcomersLost: newcomers.length - waits.length,
      waiting,
      seconds: ((inLine.at(-1)?.at ?? NaN) - (inLine[0]?.at ?? NaN)) / 1_000,
    };
  });
}

/** Resolves when every job has been passed once: what is left waits for its slot. */
async function untilAllWait({ queue: { queue } }: Stage): Promise<void> {
  const deadline = performance.now() + FIRST_PASSES_LIMIT_MS;
  while (performance.now() < deadline) {
    const { wait = 0, prioritized = 0 } = await queue.getJobCounts('wait', 'prioritized');
    if (wait + prioritized <= 10) return; // due ones are among them for a moment
    await sleep(POLL_MS);
  }
  throw new Error(`expected every job to be passed once within ${FIRST_PASSES_LIMIT_MS / 1_000} s`);
}

/** Resolves when hardly a job of a line is left: only newcomers are. */
async function untilLinesEnd({ queue: { queue } }: Stage): Promise<void> {
  const deadline = performance.now() + STANDSTILL_LIMIT_MS;
  while (performance.now() < deadline) {
    const { prioritized = 0, delayed = 0 } = await queue.getJobCounts('prioritized', 'delayed');
    if (delayed === 0 && prioritized <= 10) return;
    await sleep(POLL_MS);
  }
}

function signalAll({ replicas }: Stage, signal: NodeJS.Signals): void {
  for (const { pid } of replicas.processes) process.kill(pid, signal);
}

interface Newcomer {
  readonly alert: Alert;
  readonly enqueuedAt: number;
}

/** One recipient after the other gets a first alert, of normal and of high priority, until `stop`. */
function startNewcomers({ queue: { producer } }: Stage): { stop(): Promise<Newcomer[]> } {
  const all: Newcomer[] = [];
  const enqueuing: Promise<unknown>[] = [];
  const timer = setInterval(() => {
    for (const priority of ['normal', 'high'] as const) {
      const id = `new-${all.length}`;
      const alert = { ...makeAlert(id, id), priority };
      all.push({ alert, enqueuedAt: arrivalInstant() });
      enqueuing.push(producer.enqueue(alert));
    }
  }, NEWCOMER_EVERY_MS);
  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(enqueuing);
      return all;
    },
  };
}

/** From each alert of a recipient to the next one, and when that came. */
function gapsOf(arrivals: readonly Arrival[]): { readonly at: number; readonly ms: number }[] {
  return [...Map.groupBy(arrivals, ({ recipientId }) => recipientId).values()].flatMap((own) =>
    own.slice(1).map(({ at }, index) => ({ at, ms: at - (own[index]?.at ?? at) })),
  );
}
