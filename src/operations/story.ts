import type { Job, Queue } from 'bullmq';
import type { StoredDeadLetter } from '../dead-letters/letter.ts';
import { findDeadLetter } from '../dead-letters/store.ts';
import { openDevices } from '../delivery/context.ts';
import { jobIdOfAsk } from '../delivery/lines.ts';
import { readProgress, type Progress } from '../delivery/progress.ts';
import { accountOf, serviceOfDevice } from '../notification/device.ts';
import { newerThanKnown } from '../domain/format.ts';
import { defined, isObject, objectOr, valueAt } from '../domain/json.ts';
import { countedAs } from '../domain/limits.ts';
import { parseNotification } from '../notification/notification.ts';
import { retractionOf } from '../notification/retraction.ts';
import type { Device } from '../notification/types.ts';
import { firstEnqueuedAtOf, originOf, readPasses, type StoryPass } from '../notification/story.ts';
import { instantOf, waitsFrom } from '../domain/time.ts';
import type { SlotBefore } from '../limiter/slot-reason.ts';
import { apartOptions, limiterPrefix } from '../limiter/limiter.ts';
import { endAhead } from '../limiter/redis/canceller.ts';
import { createSlotReasons, idOfSlot, type SlotReasons } from '../limiter/redis/slot-reasons.ts';
import { lockKeyOf } from '../queue/bullmq-internals.ts';
import { findKeptStory, hasHistory, type KeptStory } from '../queue/history.ts';
import { deadIdsOf, historyKeys, jobIdOf, notificationIdOf, replayIdsOf, RETRACT } from '../queue/names.ts';
import { findJob } from '../queue/readable.ts';
import type { ShardQueues } from '../queue/shards/shards.ts';
import type { NotificationStatus } from '../queue/status.ts';
import {
  lackedByAll,
  readWorkers,
  sharedPolicy,
  type SeenWorker,
  type SeenWorkers,
  type WorkerPolicy,
} from '../queue/workers.ts';
import type { Connection } from '../redis/connection.ts';
import { findRetractions, type RetractionParts, type RetractionSeen } from './retractions.ts';
import { readLossesOfQueue } from './losses.ts';
import { whySentences, type Facts, type JobFacts, type NamedReason } from './why.ts';

/** The story of one notification. Instants are epoch milliseconds. No token, no text of an alert. */
export interface Story {
  readonly recipientId?: string;
  readonly category?: string;
  /** When it was enqueued, before any replay. */
  readonly enqueuedAt?: number;
  /** The name of the API's token, or the name that the producer gave itself. Absent if neither is known. */
  readonly enqueuedBy?: string;
  /** When it was last replayed. */
  readonly replayedAt?: number;
  /** Whether passes are recorded: HISTORY_MAX is set, or was set when the notification ran. */
  readonly recorded: boolean;
  /** Its newest 20 passes, the oldest first. */
  readonly passes: readonly StoryPass[];
  /** How many passes came before these. */
  readonly passesLeftOut: number;
  /** If it has a slot ahead: why the slot is not earlier. */
  readonly slotReason?: NamedReason;
  /** The retractions that take it from its devices. Absent if none is known. */
  readonly retractions?: readonly RetractionSeen[];
  /** Of a retraction: the ids of the notifications that it takes back; none if it only brings a badge. */
  readonly retracts?: readonly string[];
  /** Why it waits; or why it ended as it did, and when. Whole sentences. */
  readonly why: readonly string[];
}

/** What became of a notification, even if only the history knows it, and its story. */
export interface Told {
  /** Redis's clock. */
  readonly now: number;
  readonly status: NotificationStatus;
  readonly story: Story;
}

export interface StoryParts extends RetractionParts {
  readonly limiterConnection: Connection;
  readonly shards: () => Promise<readonly ShardQueues[]>;
  /** QUEUE_PREFIX itself. */
  readonly prefix: string;
  /** The limits of this process's environment, used if no worker is alive. */
  readonly own: WorkerPolicy;
}

/** Finds out what became of a notification, and why. Throws InputError for an id that no notification can have. */
export async function tellStory(id: string, parts: StoryParts): Promise<Told> {
  const { connection, prefix } = parts;
  const shards = await parts.shards();
  const known = await parts.status(id);
  const workers = await readWorkers(connection, prefix);
  const { now } = workers;
  const prefixes = shards.map(({ queue }) => queue.opts.prefix ?? prefix);
  const kept =
    known.state === 'unknown' || known.state === 'ended' ? await findKeptStory(connection, prefixes, id) : undefined;
  const found = await findSource(id, known.state, shards, workers, parts, kept);
  const isOfKept = kept !== undefined && (known.state === 'unknown' || found.facts.idTaken === 'later');
  const status = isOfKept ? statusOfKept(kept) : known;
  const { passes = [], passesLeftOut = 0 } = found.passes;
  const { recipientId } = found.names;
  const retractions = recipientId === undefined ? [] : await findRetractions(id, recipientId, parts);
  const workersAlive = workers.workers.filter(({ alive }) => alive).length;
  const facts = {
    ...{ now, status, passes, passesLeftOut, workersAlive, breakers: [], lacked: [], retractions, ...found.facts },
    ...defined({ mostOvertaken: sharedPolicy(workers)?.mostOvertaken, replayedAt: found.names.replayedAt }),
    losses: status.state === 'unknown' ? await readLossesOfQueue(connection, prefix, now) : [],
    hasHistory: passes.length > 0 || (await hasHistory(connection, prefixes)),
  };
  return {
    now,
    status,
    story: {
      ...found.names,
      ...{ recorded: facts.hasHistory, passes, passesLeftOut },
      ...defined({ slotReason: found.facts.slotReason, retracts: found.facts.retracts }),
      ...(retractions.length > 0 && { retractions }),
      why: whySentences(facts),
    },
  };
}

/** What the queue, the dead letters or the history knows about the notification. */
interface Source {
  readonly names: Pick<Story, 'recipientId' | 'category' | 'enqueuedAt' | 'enqueuedBy' | 'replayedAt'>;
  readonly passes: ReturnType<typeof readPasses>;
  readonly facts: Partial<
    Pick<Facts, 'job' | 'slotReason' | 'sentAfter' | 'from' | 'breakers' | 'lacked' | 'retracts' | 'idTaken'>
  >;
}

const NOTHING: Source = { names: {}, passes: {}, facts: {} };

async function findSource(
  id: string,
  state: NotificationStatus['state'],
  shards: readonly ShardQueues[],
  workers: SeenWorkers,
  parts: StoryParts,
  kept: KeptStory | undefined,
): Promise<Source> {
  if (state === 'unknown') return kept === undefined ? NOTHING : sourceOfKept(kept);
  const found = await findHolder(id, state, shards);
  if (found === undefined) return NOTHING;
  if ('letter' in found) {
    const { story, notification } = found.letter;
    const names = { ...idsIn(notification), ...originNames(story ?? {}, story?.firstEnqueuedAt) };
    return { names, passes: story ?? {}, facts: defined({ retracts: retractionOf(notification)?.retract }) };
  }
  const job = await findJob(found.queue, found.jobId);
  if (job === undefined) return NOTHING;
  if (isTakenId(job)) {
    if (kept === undefined) return { ...NOTHING, facts: { idTaken: 'before' } };
    const { facts, ...source } = sourceOfKept(kept);
    return { ...source, facts: { ...facts, idTaken: 'later' } };
  }
  return sourceOfJob(job, found.queue, workers, parts, kept);
}

/** The dead letter or the job of a notification in this state; undefined if the state has changed since. */
export async function findHolder(
  id: string,
  state: NotificationStatus['state'],
  shards: readonly ShardQueues[],
): Promise<StoredDeadLetter | { readonly queue: Queue; readonly jobId: string } | undefined> {
  const first = jobIdOf(id);
  const replays = replayIdsOf(first).toReversed();
  const dead = [...replays, ...deadIdsOf(first).toReversed()]; // as findStatus
  for (const jobId of state === 'dead-lettered' ? dead : [first, ...replays]) {
    for (const { queue, deadQueue } of shards) {
      if (state !== 'dead-lettered') {
        if ((await queue.getJobState(jobId)) !== 'unknown') return { queue, jobId };
        continue;
      }
      const letter = await findDeadLetter(deadQueue, jobId);
      if (letter !== undefined) return letter;
    }
  }
  return undefined;
}

/** The worker that has a job; or if no worker has looked at it, and it has a priority, how many jobs are taken before it. */
export async function findPlace(
  queue: Queue,
  jobId: string,
  connection: Connection,
  workers: readonly SeenWorker[],
): Promise<{ readonly isLocked: boolean; readonly worker?: SeenWorker; readonly ahead?: number }> {
  const [lock, ahead] = await Promise.all([
    connection.get(lockKeyOf(queue, jobId)),
    connection.zrank(queue.toKey('prioritized'), jobId),
  ]);
  return defined({
    isLocked: lock !== null,
    worker: workers.find((each) => lock?.startsWith(`${each.id}:`) === true),
    ahead: ahead === null ? undefined : ahead + (await queue.getWaitingCount()),
  });
}

/** Whether a retract has taken the id of this job, since no notification had it. */
export function isTakenId({ id = '', name, data }: Job<unknown>): boolean {
  return name === RETRACT && valueAt(data, 'id') === notificationIdOf(id);
}

function sourceOfKept(kept: KeptStory): Source {
  const { recipientId, category, enqueuedAt, generation, retracted } = kept;
  const retracts = Array.isArray(retracted) ? retracted.map(String) : undefined;
  return {
    names: {
      ...defined({ recipientId, category }),
      ...originNames(kept, enqueuedAt, generation > 0 ? enqueuedAt : undefined),
    },
    passes: kept,
    facts: { from: endOfWait(kept) - kept.waitMs, ...defined({ retracts }) },
  };
}

function endOfWait({ sentAt, endedAt }: Pick<KeptStory, 'sentAt' | 'endedAt'>): number {
  return sentAt ?? endedAt;
}

function originNames(holder: object, enqueuedAt: number | undefined, replayedAt?: number) {
  const { enqueuedBy, firstEnqueuedAt = enqueuedAt } = originOf(holder);
  return defined({ enqueuedAt: firstEnqueuedAt, enqueuedBy, replayedAt });
}

/** The ids in the data (any value). A text that is too long for an id is left out. */
function idsIn(data: unknown): Pick<Story, 'recipientId' | 'category'> {
  const [recipientId, category] = [valueAt(data, 'recipientId'), valueAt(data, 'category')];
  const short = (value: unknown) => (typeof value === 'string' && value.length <= 256 ? value : undefined);
  return defined({ recipientId: short(recipientId), category: short(category) });
}

async function sourceOfJob(
  job: Job<unknown, unknown>,
  queue: Queue,
  workers: SeenWorkers,
  parts: StoryParts,
  kept: KeptStory | undefined,
): Promise<Source> {
  const { id: jobId = '', data, timestamp, opts } = job;
  const progress = readProgress(job.progress);
  const newer = newerThanKnown('job data', data) ?? newerThanKnown('job progress', job.progress);
  const isReplay = valueAt(opts, 'generation') !== undefined;
  const ids = idsIn(data);
  const names = { ...ids, ...originNames(opts, timestamp, isReplay ? timestamp : undefined) };
  // The last pass of a notification that has ended is only in the history.
  const passes = kept?.enqueuedAt === timestamp ? kept : readPasses(progress);
  const { isLocked, ...place } = await findPlace(queue, jobId, parts.connection, workers.workers);
  const [sendAfter, expiresAt] = isObject(data) ? [instantOf(data['sendAfter']), instantOf(data['expiresAt'])] : [];
  const reading = { queue, parts, ...readerOf(data, workers, parts) };
  const devices = devicesLeft(data, jobId, progress);
  const unknown = (): undefined => undefined; // the limiter may not answer
  const askId = `${jobId}/${progress.asks}`;
  const slotReason = kept === undefined ? await findReason(askId, reading).catch(unknown) : undefined;
  const sentAfter = kept === undefined ? undefined : await findSentAfter(kept, reading).catch(unknown);
  const ending = job.finishedOn === undefined ? await findEnding(job, parts).catch(unknown) : undefined;
  return {
    names,
    passes,
    facts: {
      from: waitsFrom(timestamp, data),
      ...defined({ slotReason, sentAfter, retracts: retractionOf(data)?.retract }),
      breakers: breakersOf(devices, workers),
      lacked: lackedByAll(workers.workers, devices.map(accountOf)),
      job: defined({
        ...{ progress, newer, sendAfter, expiresAt, ending, ...place },
        isPaused: job.finishedOn === undefined && (await queue.isPaused()) ? (true as const) : undefined,
        takenAt: isLocked ? job.processedOn : undefined,
      }),
    },
  };
}

/** How the notification is to end without an alert of its own; undefined if it is to be sent. */
async function findEnding(
  job: Job<unknown, unknown>,
  { limiterConnection, prefix }: StoryParts,
): Promise<JobFacts['ending']> {
  const { id: jobId = '', data } = job;
  const waiting = { recipientId: idsIn(data).recipientId ?? '', jobId, enqueuedAt: firstEnqueuedAtOf(job) };
  const end = await endAhead(limiterConnection, limiterPrefix(countedAs(objectOr(data)), prefix), waiting);
  return end?.by === undefined ? end : { ...end, by: notificationIdOf(end.by) };
}

/** The devices that the notification still has to be sent to; none if it is not valid. */
function devicesLeft(data: unknown, jobId: string, progress: Progress): Device[] {
  const parsed = parseNotification(isObject(data) ? { id: notificationIdOf(jobId), ...data } : data);
  if (!parsed.ok) return [];
  return openDevices({ notification: parsed.notification, progress }).map(({ device }) => device);
}

/** The open breakers of these devices, as living workers report them. */
function breakersOf(devices: readonly Device[], { workers }: SeenWorkers): Facts['breakers'] {
  const services = new Set<string>(devices.map(serviceOfDevice));
  const open = workers.filter(({ alive }) => alive).flatMap(({ breakers }) => breakers);
  const own = open.filter(({ service }) => services.has(service)).toSorted((a, b) => a.since - b.since);
  return [...new Map(own.map((breaker) => [breaker.service, breaker])).values()];
}

/** What is needed to read a recipient's slots, and to find the notifications that have them. */
interface Reading {
  readonly recipientId: string;
  readonly reasons: SlotReasons;
  readonly queue: Queue;
  readonly parts: StoryParts;
}

function readerOf(data: unknown, workers: SeenWorkers, parts: StoryParts): Pick<Reading, 'recipientId' | 'reasons'> {
  const { own, limiterConnection: redis, prefix } = parts;
  const { policy, categories, quietHours, apartRules } = sharedPolicy(workers)?.policy ?? own;
  const kind = countedAs(objectOr(data));
  const limits =
    kind === 'alert'
      ? { policy, categories, quietHours, prefix: limiterPrefix(kind, prefix) }
      : apartOptions(kind, apartRules[kind], prefix);
  return { recipientId: idsIn(data).recipientId ?? '', reasons: createSlotReasons({ redis, ...limits }) };
}

/** Why the slot that is reserved for this ask is not earlier; undefined if the ask has no reserved slot. */
async function findReason(askId: string, reading: Reading): Promise<NamedReason | undefined> {
  const reason = await reading.reasons.read({ recipientId: reading.recipientId, id: askId });
  if (reason === undefined) return undefined;
  const [after, longestAfter] = await Promise.all([
    nameOf(reason.fixed && 'after' in reason.fixed ? reason.fixed.after : undefined, reading),
    nameOf(reason.longest?.after, reading),
  ]);
  return { ...reason, ...(after !== undefined && { after }), ...(longestAfter !== undefined && { longestAfter }) };
}

/** For a notification that was sent right after a wait for a limit: the notification whose slot it waited for. */
async function findSentAfter({ passes = [] }: KeptStory, reading: Reading): Promise<string | undefined> {
  const [waited, sent] = passes.slice(-2);
  if (waited?.rule === undefined || sent?.slot === undefined) return undefined;
  return nameOf(await reading.reasons.sentBefore(reading.recipientId, waited.rule, sent.slot), reading);
}

/** At most this many jobs that ended soon after a slot are compared with the slot's hash. */
const MOST_CANDIDATES = 2_000;
/** Usually a job ends at most this long after its slot: a provider has 30 s for its answer. */
const ENDS_WITHIN_MS = 35_000;
const CLOCKS_APART_MS = 2_000;
const MOST_ASKS = 4;

/**
 * The id of the notification that has this slot. Of a sent slot the limiter stores only a hash of the id. So the ids of active
 * jobs, and of jobs that ended soon after the slot, are hashed too and compared. A match with another recipient's job does not
 * count.
 */
async function nameOf(
  slot: SlotBefore | undefined,
  { recipientId, queue, parts: { connection } }: Reading,
): Promise<string | undefined> {
  if (slot === undefined) return undefined;
  const { at, entry = '' } = slot;
  const readable = idOfSlot(entry, []);
  if (readable !== undefined) return notificationIdOf(jobIdOfAsk(readable) ?? readable);
  const [from, until] = [String(at - CLOCKS_APART_MS), String(at + ENDS_WITHIN_MS)];
  const range = [from, until, 'LIMIT', 0, MOST_CANDIDATES] as const;
  const [active, completed, ended] = await Promise.all([
    queue.getRanges(['active'], 0, MOST_CANDIDATES - 1, true),
    connection.zrangebyscore(queue.toKey('completed'), ...range),
    connection.zrangebyscore(historyKeys(queue.opts.prefix ?? '').ends, ...range),
  ]);
  const jobIds = new Set([...active, ...completed, ...ended.map(jobIdOf)]);
  const asks = [...jobIds].flatMap((jobId) => Array.from({ length: MOST_ASKS }, (_, number) => `${jobId}/${number}`));
  const jobId = jobIdOfAsk(idOfSlot(entry, asks) ?? '');
  if (jobId === undefined) return undefined;
  const job = await findJob(queue, jobId);
  return job === undefined || valueAt(job.data, 'recipientId') === recipientId ? notificationIdOf(jobId) : undefined;
}

function statusOfKept(kept: KeptStory): NotificationStatus {
  const { outcome, by, silenced, maybeShown, endedAt, sentAt, waitMs, devices } = kept;
  if (outcome === 'dead-lettered') return { state: 'unknown' }; // dead letters have no entry in the history
  return defined({ state: 'ended' as const, outcome, endedAt, waitMs, devices, by, silenced, maybeShown, sentAt });
}
