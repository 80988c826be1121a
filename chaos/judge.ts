import type { SeenEntry } from '../demo/providers-child.ts';
import { shownOf, type Shown, type JournalEntry } from '../sandbox/journal.ts';
import { GAP, judge, violationsOf, type Arrival, type Violation } from '../sandbox/judge.ts';
import { tokenOf } from '../src/notification/device.ts';
import type { Policy } from '../src/domain/limits.ts';
import type { Balance } from './balance.ts';
import { NOTHING, type Forgotten, type ReplicationLost } from './forgotten.ts';
import type { Thaw, Incident } from './fleet.ts';
import type { Cut, Injected } from './inject.ts';
import type { BreakerOpenings } from './logs.ts';
import type { Enqueued, Ends } from './queue.ts';
import { refOf } from './workload.ts';

/** The result of a run, counted only from what the providers received and from the queue. */
export interface ChaosResult
  extends
    Omit<Balance, 'suspects' | 'forgotten'>,
    Omit<Pacing, 'bursts' | 'burstsAfterFreeze' | 'burstsAfterStall' | 'burstsAfterFailover'>,
    Omit<Duplicates, 'unexplained' | 'explainedBy' | 'forgottenEnds'>,
    Pick<BreakerOpenings, 'breakersOpened'> {
  readonly duplicatesBy: Duplicates['explainedBy'];
  /** Requests of no notification that was enqueued. */
  readonly unknownRequests: number;
  /** Requests for a digest that providers accepted. */
  readonly digests: number;
  /** Silent alerts in quiet hours that providers accepted. */
  readonly quietAlerts: number;
  /** Of those that waited together or were canceled: what went otherwise than it must. */
  readonly waitingFaults: number;
  /** Circuit breakers that an answer about one device opened. */
  readonly breakersByOneDevice: number;
  readonly secretsLeaked: number;
  readonly processesLeft: number;
  /** Workers that ended by themselves, or with an error. */
  readonly crashes: number;
  readonly requeues: number;
  readonly kills: number;
  /** Workers that were frozen for a while. */
  readonly stops: number;
  readonly restarts: number;
  readonly redisRestarts: number;
  readonly redisPauses: number;
  readonly redisCuts: number;
  /** Single devices, of thousands, that got their odd answer at least once. */
  readonly oddDevices: number;
  /** Alerts that browsers got. */
  readonly browserPushes: number;
  /** Requests that the providers refused, or left without an answer. */
  readonly refusals: number;
  readonly drainMs: number;
  readonly longestStallMs: number;
  readonly seed: number;
  readonly seconds: number;
  /** Of a run on a cluster. */
  readonly cluster?: ClusterResult;
  /** What replication lost at failovers, which is counted nowhere else. Of a run on a cluster. */
  readonly replicationLost?: ReplicationLost;
}

export interface ClusterResult {
  readonly failovers: number;
  /** Slots with a shard's queue, and with recipients. */
  readonly slotsMoved: number;
  readonly keysMoved: number;
  /** REDIS_WAIT_REPLICAS of the workers. */
  readonly waitReplicas: number;
  /** Lost admissions whose alert had arrived before the window of what may be lost. */
  readonly lostBeforeWindow: number;
  /** Each kill of a master: the instant, the window before it of which writes may be lost, and how long its slots had no master. */
  readonly kills: readonly {
    readonly at: string;
    readonly lagMs: number;
    readonly windowMs: number;
    readonly awayMs: number;
    readonly admissions: number;
  }[];
}

export interface Check {
  readonly what: string;
  readonly found: string;
  readonly ok: boolean;
}

/** Each promise, with what was found. A run fails if one is broken. */
export function checks(result: ChaosResult): Check[] {
  const none = (what: string, found: number): Check => ({ what, found: `${found} (expected 0)`, ok: found === 0 });
  const some = (what: string, found: number): Check => ({ what, found: String(found), ok: found > 0 });
  return [
    none('lost', result.lost),
    none('unaccounted', result.unaccounted),
    none('still queued', result.stillQueued),
    none('gap violations', result.gapViolations),
    none('window violations', result.windowViolations),
    {
      what: 'late after a freeze',
      found: `${result.lateAfterFreeze} (at most ${result.lateAfterFreezeBound})`,
      ok: result.lateAfterFreeze <= result.lateAfterFreezeBound,
    },
    none('requests that nobody asked for', result.unknownRequests),
    none('faults of what waited together', result.waitingFaults),
    none('breakers that one device opened', result.breakersByOneDevice),
    none('unexplained duplicates', result.unexplainedDuplicates),
    {
      what: 'duplicates',
      found: `${result.duplicates} (at most ${result.duplicateBound})`,
      ok: result.duplicates <= result.duplicateBound,
    },
    none('duplicates under other ids', result.changedIds),
    ...clusterChecks(result, none, some),
    none('secrets leaked', result.secretsLeaked),
    none('workers that crashed', result.crashes),
    none('processes left', result.processesLeft),
    // A run in which nothing happened would pass all of the above.
    some('delivered', result.delivered),
    some('superseded by a newer one', result.superseded),
    some('merged into a digest', result.merged),
    some('digests', result.digests),
    some('canceled', result.canceled),
    some('silent alerts in quiet hours', result.quietAlerts),
    some('background pushes', result.backgroundPushes),
    some('alerts to browsers', result.browserPushes),
    some('requeues', result.requeues),
    some('workers killed', result.kills),
    some('workers frozen', result.stops),
    some('workers restarted', result.restarts),
    some('restarts of a killed Redis', result.redisRestarts),
    some('pauses of Redis', result.redisPauses),
    some('times that Redis cut every connection', result.redisCuts),
    some(
      'breakers opened',
      Object.values(result.breakersOpened).reduce((sum, count) => sum + count, 0),
    ),
    some('odd devices among thousands', result.oddDevices),
    some('requests that a provider did not accept', result.refusals),
  ];
}

/** The window is the time for which the replica was cut off, and this much more at most: a busy machine delays the clock's writes. */
const WINDOW_MS = 1_000;

function clusterChecks(
  { cluster, replicationLost }: ChaosResult,
  none: (what: string, found: number) => Check,
  some: (what: string, found: number) => Check,
): Check[] {
  if (cluster === undefined || replicationLost === undefined) return [];
  const { waitReplicas, kills } = cluster;
  return [
    none('admissions lost before the window of a failover', cluster.lostBeforeWindow),
    none('failovers with a longer window', kills.filter(({ lagMs, windowMs }) => windowMs > lagMs + WINDOW_MS).length),
    ...(waitReplicas > 0
      ? [none('admissions lost although workers wait for replicas', replicationLost.admissions)]
      : []),
    some('masters killed', cluster.failovers),
    some('slots moved', cluster.slotsMoved),
    some('keys moved', cluster.keysMoved),
  ];
}

interface Pacing {
  readonly gapViolations: number;
  readonly windowViolations: number;
  /** Broken gaps and windows with an alert that a frozen worker sent when it went on. */
  readonly lateAfterFreeze: number;
  /** How many alerts may have left late: the devices of all jobs that frozen workers had. */
  readonly lateAfterFreezeBound: number;
  /** Gaps and windows that look broken at the provider, but are not by every instant at which the alerts may have left. */
  readonly lateAfterStall: number;
  /** How many background pushes devices got. */
  readonly backgroundPushes: number;
  /** The least time between two alerts of one recipient; null if no recipient had two. */
  readonly minGapMs: number | null;
  /** Violations without an excuse: `recipient-7: 5/4s, 3812 ms at 2026-03-01T07:30:00.123Z`. */
  readonly bursts: readonly string[];
  /** Those that a freeze explains. */
  readonly burstsAfterFreeze: readonly string[];
  /** Those of slots that a failover lost. */
  readonly burstsAfterFailover: readonly string[];
  /** Those that only look broken. */
  readonly burstsAfterStall: readonly string[];
}

export interface Policies {
  readonly policy: Policy;
  /** By category, beside the other one. */
  readonly categories: Readonly<Record<string, Policy>>;
  /** Of background pushes, which count nowhere else. */
  readonly background: Policy;
}

/** Checks gaps and windows of the arrivals: of alerts, overall and in each category with limits of its own; of background pushes. */
export function judgePacing(
  enqueued: ReadonlyMap<string, Enqueued>,
  entries: readonly SeenEntry[],
  { policy, categories, background }: Policies,
  thaws: readonly Thaw[],
  forgotten: Pick<Forgotten, 'slot'> = NOTHING,
): Pacing {
  const arrivals = arrivalsOf(enqueued, entries, 'alert');
  const pushes = arrivalsOf(enqueued, entries, 'nothing');
  const categoryOf = ({ notificationId }: Arrival) => enqueued.get(notificationId)?.input?.category;
  const own = Object.entries(categories).map(([category, itsPolicy]) => ({
    policy: itsPolicy,
    arrivals: arrivals.filter((arrival) => categoryOf(arrival) === category),
  }));
  const limited = arrivals.filter((arrival) => categoryOf(arrival) !== 'urgent'); // the overall limits do not count them
  const all = [{ policy, arrivals: limited }, ...own, { policy: background, arrivals: pushes }];
  const violations = all.flatMap((one) => violationsOf(one.arrivals, one.policy));
  const late = lateArrivals([...arrivals, ...pushes], thaws);
  const isLate = ({ recipientId, times }: Violation) => times.some((at) => late.has(`${recipientId} ${at}`));
  const afterFreeze = violations.filter(isLate);
  const inTime = violations.filter((violation) => !isLate(violation));
  const afterFailover = inTime.filter(({ recipientId, times }) => forgotten.slot(recipientId, times));
  const unexcused = inTime.filter((violation) => !afterFailover.includes(violation));
  const asSeen = all.flatMap((one) => violationsOf(one.arrivals.map(withoutDelay), one.policy));
  const isBroken = new Set(violations.map(nameOf));
  const underWay = asSeen.filter((violation) => !isBroken.has(nameOf(violation)));
  const gaps = unexcused.filter(({ name }) => name === GAP);
  const inHand = thaws.flatMap(({ ids }) => [...ids]);
  return {
    gapViolations: gaps.length,
    windowViolations: unexcused.length - gaps.length,
    lateAfterFreeze: afterFreeze.length,
    lateAfterFreezeBound: inHand.reduce((sum, id) => sum + (enqueued.get(id)?.input?.devices.length ?? 0), 0),
    lateAfterStall: underWay.length,
    backgroundPushes: pushes.length,
    minGapMs: judge(limited, policy).minGapMs,
    bursts: unexcused.map(textOf),
    burstsAfterFreeze: afterFreeze.map(textOf),
    burstsAfterFailover: afterFailover.map(textOf),
    burstsAfterStall: underWay.map(textOf),
  };
}

/** Arrivals that left a worker when it went on after a freeze, as `recipient instant`. */
function lateArrivals(arrivals: readonly Arrival[], thaws: readonly Thaw[]): ReadonlySet<string> {
  const late = arrivals.filter(({ notificationId, at }) =>
    thaws.some(({ ids, from, until }) => ids.has(notificationId) && at >= from && at <= until),
  );
  return new Set(late.map(({ recipientId, at }) => `${recipientId} ${at}`));
}

const withoutDelay = (arrival: Arrival): Arrival => ({ ...arrival, delayMs: 0 });
const nameOf = ({ recipientId, name, times }: Violation): string => `${recipientId} ${name} ${times.at(-1)}`;

function textOf({ recipientId, name, times }: Violation): string {
  const first = times[0] ?? NaN;
  const last = times.at(-1) ?? NaN;
  return `${recipientId}: ${name}, ${Math.round(last - first)} ms at ${new Date(last).toISOString()}`;
}

/** What devices got of one kind. A silent alert takes no slot of any limiter, so it is judged with neither. */
function arrivalsOf(enqueued: ReadonlyMap<string, Enqueued>, entries: readonly SeenEntry[], shown: Shown): Arrival[] {
  return entries
    .filter((entry) => entry.accepted && shownOf(entry) === shown)
    .map(({ data, token, at, delayMs }) => ({
      recipientId: enqueued.get(refOf(data))?.input?.recipientId ?? 'of nobody who was enqueued for',
      notificationId: refOf(data),
      device: token,
      at,
      delayMs,
    }));
}

/** Why a device may have got a notification a second time. */
type Excuse = Incident['kind'] | 'answer' | 'cut';

export interface Duplicates {
  /** How often a device accepted a notification that it had accepted before. */
  readonly duplicates: number;
  /** How many may come: from jobs that workers had at a fault, and from requests that a provider accepted without saying so. */
  readonly duplicateBound: number;
  readonly unexplainedDuplicates: number;
  /** Requests for a device of a notification whose apns-id, collapse id or tag is not that of the first one. */
  readonly changedIds: number;
  readonly explainedBy: Readonly<Record<Excuse, number>>;
  /** Second acceptances beside all of these, of notifications whose end a failover lost. */
  readonly forgottenEnds: number;
  /** The unexplained: `notification device-platform first-instant second-instant`. */
  readonly unexplained: readonly string[];
}

export interface DuplicatesParts extends Pick<Injected, 'incidents' | 'cuts'> {
  readonly enqueued: ReadonlyMap<string, Enqueued>;
  readonly entries: readonly JournalEntry[];
  readonly ends: Pick<Ends, 'completed' | 'dead'>;
  readonly thaws: readonly Thaw[];
  readonly forgotten?: Pick<Forgotten, 'end'>;
}

/** A request that was on its way at a fault may arrive this much later. */
const TRANSIT_MS = 500;
/** A request whose answer was cut off may have been accepted this long before: the slowest answers take nearly a second. */
const ANSWER_MS = 1_500;
/** A worker knows of a reset within this time: mostly at once, but after 1.5 s where Node does not say so, and later on a busy machine. */
const NOTICED_MS = 3_000;

/** Counts second acceptances. Each must be explained by something that happened to the same notification. */
export function countDuplicates(parts: DuplicatesParts): Duplicates {
  const { enqueued, entries, incidents, forgotten = NOTHING } = parts;
  const explain = excuses(parts);
  const explainedBy = { answer: 0, kill: 0, stop: 0, redis: 0, lock: 0, cut: 0 };
  const unexplained: string[] = [];
  let changedIds = 0;
  let forgottenEnds = 0;
  for (const requests of Map.groupBy(entries, ({ data, token }) => `${refOf(data)} ${token}`).values()) {
    const [origin] = requests;
    changedIds += requests.filter((request) => idsOf(request) !== (origin && idsOf(origin))).length;
    const accepted = requests.filter((entry) => entry.accepted).toSorted((a, b) => a.at - b.at);
    for (const [index, second] of accepted.entries()) {
      const first = accepted[index - 1];
      if (first === undefined) continue;
      const excuse = explain(first, second);
      if (excuse === undefined && forgotten.end(first, second)) forgottenEnds += 1;
      else if (excuse === undefined)
        unexplained.push(`${refOf(first.data)} ${first.platform} ${first.at} ${second.at}`);
      else explainedBy[excuse] += 1;
    }
  }
  const inHand = incidents.flatMap(({ ids }) => [...ids].map((id) => enqueued.get(id)?.input?.devices.length ?? 0));
  return {
    duplicates: unexplained.length + Object.values(explainedBy).reduce((sum, count) => sum + count, 0),
    duplicateBound: inHand.reduce((sum, devices) => sum + devices, 0) + entries.filter(mayRepeat(parts)).length,
    unexplainedDuplicates: unexplained.length,
    changedIds,
    explainedBy,
    forgottenEnds,
    unexplained,
  };
}

function excuses(parts: DuplicatesParts): (first: JournalEntry, second: JournalEntry) => Excuse | undefined {
  const wasCut = cutsOf(parts);
  return (first, second) => {
    if (wasDenied(first)) return 'answer';
    const id = refOf(first.data);
    // Only a notification that a worker had at the fault, first accepted before it and again after it.
    const incident = parts.incidents.find(
      ({ at, until, ids }) => ids.has(id) && first.at <= until + TRANSIT_MS && second.at > at,
    );
    if (incident !== undefined) return incident.kind;
    // One of the two was sent by a frozen worker when it went on: another worker had the job by then.
    const isLate = ({ at }: JournalEntry): boolean =>
      parts.thaws.some(({ ids, from, until }) => ids.has(id) && at >= from && at <= until);
    if (isLate(first) || isLate(second)) return 'stop';
    return wasCut(first, second.at) ? 'cut' : undefined;
  };
}

/** Accepted, but the answer was an error, or there was none. */
function wasDenied(entry: JournalEntry): boolean {
  return entry.accepted && !saysAccepted(entry);
}

/** APNs and FCM answer an accepted request with 200, push services for browsers with 201. */
export function saysAccepted({ status }: JournalEntry): boolean {
  return status !== undefined && status < 300;
}

function mayRepeat(parts: DuplicatesParts): (entry: JournalEntry) => boolean {
  const wasCut = cutsOf(parts);
  return (entry) => wasDenied(entry) || (entry.accepted && wasCut(entry, Infinity));
}

/**
 * Whether the connection was cut while the answer was under way: that provider's connections were cut at that time, and the job
 * has a failed attempt at that device.
 */
function cutsOf({ cuts, entries, ends, enqueued }: DuplicatesParts): (entry: JournalEntry, before: number) => boolean {
  const resets = entries.filter(({ reason }) => reason === 'reset');
  const all: Cut[] = [...cuts, ...resets.map(({ platform, at }) => ({ platform, at }))];
  const attempts = new Map(ends.completed.map(({ id, progress }) => [id, progress.attempts]));
  for (const { id, letter } of ends.dead) attempts.set(id, letter.attempts);
  return ({ platform, token, at, data }, before) => {
    const id = refOf(data);
    const index = enqueued.get(id)?.input?.devices.findIndex((device) => tokenOf(device) === token);
    const failed = (attempts.get(id) ?? []).filter(
      (attempt) =>
        attempt.device === `${platform}#${index}` &&
        attempt.at >= at &&
        attempt.at < before &&
        attempt.error.startsWith('reset'),
    );
    const meanwhile = all.filter(
      (cut) => cut.platform === platform && cut.at >= at - TRANSIT_MS && cut.at <= at + ANSWER_MS,
    );
    return meanwhile.some((cut) => failed.some((attempt) => attempt.at <= cut.at + NOTICED_MS));
  };
}

/** The ids by which a device sees that it has the notification already. */
function idsOf({ apnsId, collapseId, tag }: JournalEntry): string {
  return `${apnsId ?? ''} ${collapseId ?? ''} ${tag ?? ''}`;
}
