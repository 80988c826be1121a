import { lookAtNewest } from '../dead-letters/look.ts';
import { createDeadLetters } from '../dead-letters/store.ts';
import { accountsIn, namesOf, type Account, type Service } from '../notification/device.ts';
import { printable } from '../domain/faults.ts';
import { policyText } from '../domain/limits.ts';
import type { DeadLetterReason } from '../notification/outcome.ts';
import type { WithoutSlotCode } from '../observe/without-slot.ts';
import type { Layout } from '../queue/shards/layout.ts';
import { readLosses, type NotedLoss } from '../queue/losses.ts';
import { moveKeys, writeProbeKey } from '../queue/names.ts';
import { readOverview, type Overview } from '../queue/overview.ts';
import type { ShardQueues } from '../queue/shards/shards.ts';
import { readWorkers, type SeenWorker, type SeenWorkers, type WorkerPolicy } from '../queue/workers.ts';
import type { Connection } from '../redis/connection.ts';
import { readEvictionPolicies, readWriteRefusal } from '../redis/info.ts';
import { callOf } from '../terminal/command.ts';
import {
  breakdown,
  counted,
  deadLetters as deadLettersText,
  fromNow,
  named,
  NAMED,
  span,
  workerName,
} from '../terminal/text.ts';
import { credentialsText } from './credentials.ts';
import { lossText, mayEvictTexts } from './losses.ts';
import type { Rates } from './rates.ts';

/** Something that is wrong; the last lines of `status` say it in words. */
interface Wrong {
  readonly kind:
    | 'no-writes'
    | 'lost'
    | 'may-evict'
    | 'no-worker'
    | 'no-slot'
    | 'worker-silent'
    | 'paused'
    | 'due-late'
    | 'untaken-late'
    | 'credentials'
    | 'breaker'
    | 'unreachable'
    | 'dead-letters'
    | 'gone-tokens'
    | 'clock'
    | 'newer'
    | 'policies';
  readonly text: string;
}

/** A circuit breaker that is not closed, and how many of the living workers report it. */
export interface OpenBreaker {
  readonly platform: string;
  readonly app?: string;
  readonly server?: string;
  readonly trouble: string;
  readonly code: string;
  readonly since: number;
  readonly until: number;
  readonly workers: number;
}

/** A provider or sign-in server that cannot be reached, and how many of the living workers report it. */
interface Unreachable {
  readonly platform: string;
  readonly app?: string;
  readonly server?: string;
  readonly host: string;
  readonly cause: string;
  readonly since: number;
  readonly workers: number;
}

interface DeadOverview {
  readonly total: number;
  /** How many of the newest dead letters were looked at. */
  readonly lookedAt: number;
  readonly byReason: Readonly<Partial<Record<DeadLetterReason, number>>>;
  /** How many of these became dead letters in the last hour. */
  readonly lastHour: number;
  readonly lastHourByReason: Readonly<Partial<Record<DeadLetterReason, number>>>;
}

/** What ended lately. */
interface Ends {
  /** Epoch milliseconds. */
  readonly since: number;
  /** How many notifications ended, with those that became dead letters. */
  readonly ended: number;
  readonly deadByReason: DeadOverview['byReason'];
  /** The accounts of those that are `provider-not-configured`. */
  readonly accounts: readonly Account[];
}

interface PolicyOfWorkers extends WorkerPolicy {
  readonly id: string;
  /** How many of the living workers have this policy. */
  readonly workers: number;
}

/** The queues over which the recipients are spread. */
export interface ShardsFacts {
  /** The version of the record; 0: there is none. */
  readonly version: number;
  /** In `prepare` and `move` a reshard is not finished. */
  readonly phase: Layout['phase'];
  /** How many shards there were before, and how many there will be; the same number in the phase `steady`. */
  readonly from: number;
  readonly to: number;
  /** Jobs and dead letters that are still in former queues. */
  readonly left: number;
}

/** The JSON that the command prints. */
export interface StatusResult extends Overview {
  readonly ok: boolean;
  readonly wrong: readonly Wrong[];
  readonly shards: ShardsFacts;
  /** Redis's error message if it takes no writes. Then workers cannot write that they are alive. */
  readonly noWrites?: string;
  /** What Redis has lost within a day, as workers noticed it, unless an operator has acknowledged it. */
  readonly losses: readonly NotedLoss[];
  readonly workersAlive: number;
  readonly workers: readonly SeenWorker[];
  readonly policies: readonly PolicyOfWorkers[];
  readonly deadLetters: DeadOverview;
  readonly breakers: readonly OpenBreaker[];
  readonly unreachable: readonly Unreachable[];
  /** Absent after a single look: the rates need two writes of a worker. */
  readonly rates?: Rates;
}

const DEAD_LOOKED_AT = 1_000;
const HOUR_MS = 3_600_000;
const ENDS_MS = 1_800_000;
/**
 * More dead letters than `count` that are also more than this share of what ended are wrong: the numbers of the alerts
 * PushpacerDeadLetters and PushpacerGoneTokens. Gone tokens are normal, in small numbers, and need no replay.
 */
const TOO_MANY_DEAD = [
  { kind: 'dead-letters', isGone: false, share: 0.02, count: 20 },
  { kind: 'gone-tokens', isGone: true, share: 0.2, count: 50 },
] as const;
/** A due job goes first, so if it is late by only a few seconds, something is wrong. */
const DUE_LATE_MS = 10_000;
/** A new job waits while there is much to do, for example during a broadcast. */
const UNTAKEN_LATE_MS = 60_000;
/** The default of LOCK_DURATION, for a worker of an older version, which does not report it. */
const USUAL_LOCK_MS = 30_000;
/** A worker may have renewed a lock up to 5 s after it was last seen, and others look for expired locks every 5 s. */
const TAKE_OVER_MS = 10_000;
const CLOCK_APART_MS = 1_000;
/** A job that gets no slot asks again after 1 to 2 s, so within this time more than one ask has failed. */
const WITHOUT_SLOT_MS = 5_000;

/**
 * Looks at queue, workers and dead letters. `shards`: all queues of the layout; `prefix`: QUEUE_PREFIX itself.
 *
 * @param signal stops the look between its steps, because nobody waits for it any more
 */
export async function readStatus(
  shards: readonly ShardQueues[],
  connection: Connection,
  prefix: string,
  layout: Layout,
  signal?: AbortSignal,
): Promise<StatusResult> {
  const queues = shards.map(({ queue }) => queue);
  const overview = await readOverview(queues, connection, signal);
  const seen = await readWorkers(connection, prefix);
  const losses = await readLosses(connection, prefix, overview.now);
  signal?.throwIfAborted();
  const [deadLetters, ends] = await readDead(shards, connection, overview.now);
  const alive = seen.workers.filter((worker) => worker.alive);
  const ofShards = await readShards(shards, connection, layout);
  const mayEvict = mayEvictTexts(seen.workers, await readEvictionPolicies(connection));
  const prefixes = new Set([prefix, ...queues.map((queue) => queue.opts.prefix ?? prefix)]);
  // Asked last, since a client closes a connection on which a replica refused to write.
  const noWrites = await readWriteRefusal(connection, [...prefixes].map(writeProbeKey));
  const facts = {
    ...overview,
    shards: ofShards,
    ...(noWrites !== undefined && { noWrites }),
    losses,
    workersAlive: alive.length,
    workers: seen.workers,
    policies: policiesOf(seen),
    deadLetters,
    breakers: breakersOf(alive),
    unreachable: unreachableOf(alive),
  };
  const wrong = wrongsOf(facts, ends, mayEvict, overview.paused ? await pausedText(queues) : undefined);
  return { ...facts, ok: wrong.length === 0, wrong };
}

async function readShards(
  all: readonly ShardQueues[],
  connection: Connection,
  { version, phase, prefixes, next, former: [before] }: Layout,
): Promise<ShardsFacts> {
  const isFormer = ({ queue: { opts } }: ShardQueues): boolean =>
    !prefixes.includes(opts.prefix ?? '') && next?.includes(opts.prefix ?? '') !== true;
  const counts = await Promise.all(
    all.filter(isFormer).map(async ({ queue, deadQueue }) => {
      const jobs = Object.values(await queue.getJobCounts()).reduce((sum, count) => sum + count, 0);
      const moving = await connection.hlen(moveKeys(queue.opts.prefix ?? '').moving);
      return jobs + moving + (await deadQueue.getWaitingCount());
    }),
  );
  return {
    ...{ version, phase },
    from: (phase === 'move' ? before : prefixes)?.length ?? 1,
    to: (phase === 'prepare' ? next : prefixes)?.length ?? 1,
    left: counts.reduce((sum, count) => sum + count, 0),
  };
}

/** The newest dead letters of all shards together, counted by reason; and how many of what ended lately they are. */
async function readDead(
  shards: readonly ShardQueues[],
  connection: Connection,
  now: number,
): Promise<[DeadOverview, Ends]> {
  const look = { filter: {}, offset: 0, limit: DEAD_LOOKED_AT, most: DEAD_LOOKED_AT, now };
  const { found, lookedAt, of, lookedBackTo = 0 } = await lookAtNewest(shards.map(createDeadLetters), look);
  const letters = found.map(({ letter }) => letter);
  const recent = letters.filter(({ deadAt }) => deadAt > now - HOUR_MS);
  const since = Math.max(now - ENDS_MS, lookedBackTo);
  const dead = letters.filter(({ deadAt }) => deadAt >= since);
  // Of each shard's completed jobs BullMQ keeps 50,000, so more may have ended. But 1,000 of 50,000 are not too many either.
  const completed = await Promise.all(
    shards.map(({ queue }) => connection.zcount(queue.toKey('completed'), since, '+inf')),
  );
  return [
    {
      total: of,
      lookedAt,
      byReason: byReason(letters),
      lastHour: recent.length,
      lastHourByReason: byReason(recent),
    },
    {
      since,
      ended: completed.reduce((sum, count) => sum + count, dead.length),
      deadByReason: byReason(dead),
      accounts: dead.flatMap((each) =>
        each.reason === 'provider-not-configured' ? accountsIn(each.notification) : [],
      ),
    },
  ];
}

function byReason(letters: readonly { readonly reason: DeadLetterReason }[]): DeadOverview['byReason'] {
  const counts: Partial<Record<DeadLetterReason, number>> = {};
  for (const { reason } of letters) counts[reason] = (counts[reason] ?? 0) + 1;
  return counts;
}

/** The policies of the living workers, the most frequent first. */
function policiesOf({ workers, policies }: SeenWorkers): PolicyOfWorkers[] {
  const alive = workers.filter((worker) => worker.alive);
  return [...policies]
    .map(([id, policy]) => ({ id, workers: alive.filter(({ policyId }) => policyId === id).length, ...policy }))
    .filter((each) => each.workers > 0)
    .toSorted((a, b) => b.workers - a.workers);
}

/**
 * The breakers that living workers report, one for each service and trouble. `code` is what the first of the workers reports:
 * others may have seen another code.
 */
function breakersOf(alive: readonly SeenWorker[]): OpenBreaker[] {
  const all = alive.flatMap(({ breakers }) => breakers);
  return together(all, ({ service, trouble }) => `${service} ${trouble}`).map(([{ service, ...first }, same]) => ({
    ...{ ...namesOf(service as Service), ...first, workers: same.length },
    since: Math.min(...same.map(({ since }) => since)),
    until: Math.max(...same.map(({ until }) => until)),
  }));
}

/**
 * The servers that living workers cannot reach. The same host of the same service counts once; workers may report different
 * causes.
 */
function unreachableOf(alive: readonly SeenWorker[]): Unreachable[] {
  const all = alive.flatMap(({ unreachable }) => unreachable);
  return together(all, ({ service, host }) => `${service} ${host}`).map(([{ service, ...first }, same]) => ({
    ...{ ...namesOf(service as Service), ...first, workers: same.length },
    since: Math.min(...same.map(({ since }) => since)),
  }));
}

/** Groups these by name: for each name, the first one and all of them. */
function together<T>(all: readonly T[], nameOf: (each: T) => string): (readonly [first: T, same: readonly T[]])[] {
  return [...Map.groupBy(all, nameOf).values()].flatMap((same) =>
    same.slice(0, 1).map((first) => [first, same] as const),
  );
}

type Facts = Omit<StatusResult, 'ok' | 'wrong'>;

/** The commands that say what is wrong, and which other command to call. */
const SAYING = ['status', 'api', 'console', 'serve'];

/** How to call another command: with `npm run` if this command was called with it. */
export function callOther(name: string): string {
  const { npm_lifecycle_event: event = '' } = process.env;
  return callOf(name, { ...process.env, npm_lifecycle_event: SAYING.includes(event) ? name : event });
}

/** How to start a worker: `pushpacer worker`. */
export function callWorker(): string {
  return callOther('worker').replace(/ --$/, '');
}

/** What is wrong, the worst first. */
function wrongsOf(facts: Facts, ends: Ends, mayEvict: readonly string[], paused: string | undefined): Wrong[] {
  const { now, workers, due, untaken, breakers, unreachable, policies } = facts;
  const whatNow = `docs/runbook.md says what to do; when that is done: ${callOther('status')} --acknowledge`;
  const faults: (readonly [Wrong['kind'], string | undefined | false])[] = [
    ['no-writes', noWritesText(facts)],
    ['no-worker', noWorker(facts)],
    ...facts.losses.map((loss) => ['lost', `${lossText(loss, now)}; ${whatNow}`] as const),
    ...mayEvict.map((text) => ['may-evict', text] as const),
    ...withoutSlotTexts(facts).map((text) => ['no-slot', text] as const),
    ['paused', paused],
    ['due-late', due.oldestAt !== undefined && now - due.oldestAt >= DUE_LATE_MS && dueText(facts)],
    ['untaken-late', untaken.oldestAt !== undefined && now - untaken.oldestAt >= UNTAKEN_LATE_MS && untakenText(facts)],
    ['credentials', credentialsText(workers, facts.waiting, ends.accounts)],
    ...some(breakers).map((breaker) => ['breaker', `nothing is sent to ${breakerText(breaker, facts)}`] as const),
    ['breaker', breakers.length > NAMED && `not closed: ${counted(breakers.length - NAMED, 'more circuit breaker')}`],
    ...some(unreachable).map((each) => ['unreachable', `nothing reaches ${unreachableText(each, facts)}`] as const),
    ['unreachable', unreachable.length > NAMED && `not reached: ${counted(unreachable.length - NAMED, 'more server')}`],
    ['worker-silent', facts.workersAlive > 0 && facts.noWrites === undefined && silentText(workers)],
    ['newer', facts.waiting.newer > 0 && newerText(facts)],
    ['clock', clockText(workers)],
    ['policies', policies.length > 1 && policiesText(policies)],
    ...TOO_MANY_DEAD.map((bound) => [bound.kind, deadText(ends, bound, facts)] as const),
  ];
  return faults.flatMap(([kind, text]) => (typeof text === 'string' ? { kind, text } : []));
}

/** Undefined if the queues were resumed meanwhile. */
async function pausedText(queues: readonly ShardQueues['queue'][]): Promise<string | undefined> {
  const paused = await Promise.all(
    queues.map(async (queue) => ((await queue.isPaused()) ? [queue.opts.prefix ?? ''] : [])),
  );
  const prefixes = paused.flat().map(printable);
  if (prefixes.length === 0) return undefined;
  const what = queues.length === 1 ? 'the queue is paused' : `paused: ${named(prefixes)} of ${queues.length} shards`;
  return `${what}: workers take nothing from it; somebody paused it with another program`;
}

function some<T>(all: readonly T[]): readonly T[] {
  return all.slice(0, NAMED);
}

/** Names silent workers whose jobs others may not have taken yet; silent workers whose jobs are taken are only listed. */
function silentText(workers: readonly SeenWorker[]): string | undefined {
  const silent = workers
    .filter(({ alive, silentMs, lockMs = USUAL_LOCK_MS }) => !alive && silentMs < lockMs + TAKE_OVER_MS)
    .toSorted((a, b) => b.silentMs - a.silentMs);
  if (silent.length === 0) return undefined;
  const names = silent.map((worker) => `${workerName(worker)} for ${span(worker.silentMs)}`);
  const are = silent.length === 1 ? '1 worker is' : `${silent.length} workers are`;
  return `${are} not seen, so killed or frozen; others take the jobs: ${named(names)}`;
}

function noWritesText({ noWrites, workersAlive }: Facts): string | undefined {
  if (noWrites === undefined) return undefined;
  const unknown = workersAlive > 0 ? '' : '; whether workers are alive is not known, because they cannot write it';
  return `Redis takes no writes, so nothing new is sent or enqueued: ${printable(noWrites)}${unknown}`;
}

function noWorker({ workersAlive, workers, now, noWrites }: Facts): string | undefined {
  if (workersAlive > 0 || noWrites !== undefined) return undefined;
  const last = workers.reduce<SeenWorker | undefined>(
    (latest, worker) => (worker.seenAt > (latest?.seenAt ?? 0) ? worker : latest),
    undefined,
  );
  const seen = last === undefined ? '' : `; ${workerName(last)} was seen last, ${fromNow(now, last.seenAt)}`;
  return `no worker is alive: nothing is sent${seen}; start one: ${callWorker()}`;
}

const NO_SLOT: Readonly<Record<string, string>> = {
  'replicas-missing': 'too few replicas of Redis confirm slots in time (REDIS_WAIT_REPLICAS)',
  'limiter-unavailable': "the limiter's Redis does not answer",
} satisfies Record<WithoutSlotCode, string>;

/** Says that workers get no slots: one text for each cause. */
function withoutSlotTexts({ workers, workersAlive, now }: Facts): string[] {
  const lasting = workers.flatMap(({ alive, withoutSlot }) =>
    alive && withoutSlot && withoutSlot.lastAt - withoutSlot.since >= WITHOUT_SLOT_MS ? [withoutSlot] : [],
  );
  return [...Map.groupBy(lasting, ({ code }) => code)].map(([code, all]) => {
    const forText = span(Math.max(0, now - Math.min(...all.map(({ since }) => since))));
    const why = NO_SLOT[code] ?? printable(code);
    return `${all.length} of ${workersAlive} workers got no slot for ${forText}, so alerts wait: ${why}`;
  });
}

function dueText({ now, due }: Facts): string {
  return `${notifications(due.count)} due and not taken, the oldest for ${span(now - (due.oldestAt ?? now))}`;
}

function untakenText({ now, untaken }: Facts): string {
  const age = span(now - (untaken.oldestAt ?? now));
  return `${notifications(untaken.count)} new and not taken, the oldest for ${age}: add workers, unless a broadcast is under way`;
}

function notifications(count: number): string {
  return count === 1 ? '1 notification is' : `${count} notifications are`;
}

/** `apns: auth, InvalidProviderToken, since 2m; next try in 40s (4 of 4 workers)` */
export function breakerText(breaker: OpenBreaker, { now, workersAlive }: Pick<Facts, 'now' | 'workersAlive'>): string {
  const { platform, app, server, trouble, code, since, until, workers } = breaker;
  const of = app === undefined ? '' : ` of the app ${printable(app)}`;
  const at = server === undefined ? '' : ` at ${printable(server)}`;
  const next = until > now ? `next try in ${span(until - now)}` : 'tried again now';
  const why = `${trouble}, ${printable(code)}, for ${span(Math.max(0, now - since))}`;
  return `${platform}${of}${at}: ${why}; ${next} (${workers} of ${workersAlive} workers)`;
}

/** `apns: api.push.apple.com:443, ENOTFOUND, for 2m (4 of 4 workers)` */
export function unreachableText(each: Unreachable, { now, workersAlive }: Pick<Facts, 'now' | 'workersAlive'>): string {
  const { platform, app, server, host, cause, since, workers } = each;
  const of = app === undefined ? '' : ` of the app ${printable(app)}`;
  const at = server === undefined ? '' : ` at ${printable(server)}`;
  const why = `${printable(host)}, ${printable(cause)}, for ${span(Math.max(0, now - since))}`;
  return `${platform}${of}${at}: ${why} (${workers} of ${workersAlive} workers)`;
}

function newerText({ waiting: { newer, lookedAt, of } }: Facts): string {
  const least = lookedAt < of ? 'at least ' : '';
  const [jobs, were] = newer === 1 ? ['1 job', 'was'] : [`${newer} jobs`, 'were'];
  return `${least}${jobs} ${were} written by a newer version of pushpacer than this one: workers of the newer version must take them`;
}

/** Names workers whose clocks differ from Redis's. `clockOffsetMs` is Redis's clock minus the worker's. */
function clockText(workers: readonly SeenWorker[]): string | undefined {
  const apart = workers.filter(({ alive, clockOffsetMs }) => alive && Math.abs(clockOffsetMs) >= CLOCK_APART_MS);
  if (apart.length === 0) return undefined;
  const names = apart.map((worker) => {
    const side = worker.clockOffsetMs > 0 ? 'behind' : 'ahead';
    return `${workerName(worker)} ${span(Math.abs(worker.clockOffsetMs))} ${side}`;
  });
  return `clocks are not Redis's, set them: ${named(names)}`;
}

function policiesText(policies: readonly PolicyOfWorkers[]): string {
  const texts = policies.map(({ policy }) => policyText(policy));
  const differ = `workers have ${policies.length} different policies`;
  if (new Set(texts).size < texts.length) return `${differ}: compare their LIMIT_ variables and LIMITS_FILE`;
  return `${differ}: ${policies.map(({ workers }, index) => `${workers} with ${texts[index] ?? ''}`).join('; ')}`;
}

function deadText(
  { since, ended, deadByReason }: Ends,
  { isGone, share, count }: (typeof TOO_MANY_DEAD)[number],
  { now }: Facts,
): string | undefined {
  const reasons = Object.entries(deadByReason).filter(([reason]) => (reason === 'unregistered') === isGone);
  const dead = reasons.reduce((sum, [, each]) => sum + each, 0);
  if (dead <= count || dead / ended <= share) return undefined;
  const many = `${deadLettersText(dead)} in the last ${span(now - since)}${breakdown(Object.fromEntries(reasons))}`;
  const look = `look: ${callOther('dead-letters')} --since ${span(ENDS_MS)}`;
  return `${many}, ${Math.round((dead / ended) * 100)} % of what ended; ${look}`;
}

/** What to write before `lastHour`: there may be more of the last hour among the dead letters that were not looked at. */
export function leastOf({ total, lookedAt, lastHour }: DeadOverview): string {
  return lastHour === lookedAt && total > lookedAt ? 'at least ' : '';
}
