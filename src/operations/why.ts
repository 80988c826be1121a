import type { Progress } from '../delivery/progress.ts';
import { namesOf, type Account } from '../notification/device.ts';
import { isOrAre, printable } from '../domain/faults.ts';
import { newerText, type Newer } from '../domain/format.ts';
import type { StoryPass } from '../notification/story.ts';
import { CREDENTIALS, MAYBE_SHOWN } from '../notification/outcome.ts';
import { formatDuration, SEND_AFTER } from '../domain/time.ts';
import type { SlotReason, EndReason, LimitReason } from '../limiter/slot-reason.ts';
import type { NotificationStatus } from '../queue/status.ts';
import type { NotedLoss } from '../queue/losses.ts';
import type { SeenWorker } from '../queue/workers.ts';
import { counted, fromNow, span, timeNear } from '../terminal/text.ts';
import { lossText } from './losses.ts';
import { namesText, takenBackText, type RetractionSeen } from './retractions.ts';

/** The reason for a slot, with the ids of the notifications that it names. */
export interface NamedReason extends SlotReason {
  /** The id of the notification that this slot has to wait for. Absent if there is none, or its id is not known any more. */
  readonly after?: string;
  /** As `after`, for the cause `longest`. */
  readonly longestAfter?: string;
}

/** What is known about a notification, for the sentences. */
export interface Facts {
  readonly now: number;
  readonly status: NotificationStatus;
  readonly passes: readonly StoryPass[];
  readonly passesLeftOut: number;
  /** Facts of the notification's job, if the queue has the job. */
  readonly job?: JobFacts;
  readonly slotReason?: NamedReason;
  /** How often a reservation may be overtaken, as living workers say. */
  readonly mostOvertaken?: number;
  /** If it was sent after a wait for another notification's slot: that notification. Absent if that is not known any more. */
  readonly sentAfter?: string;
  /** When it could first be sent: when it was enqueued or replayed, or its `sendAfter` if that is later. */
  readonly from?: number;
  /** When it was last replayed. */
  readonly replayedAt?: number;
  readonly workersAlive: number;
  /** The open breakers of its devices, as living workers report them. */
  readonly breakers: readonly SeenWorker['breakers'][number][];
  /** The accounts of its devices that no living worker has credentials for. */
  readonly lacked: readonly Account[];
  readonly hasHistory: boolean;
  /** What the queue's Redis has lost, if no notification has this id. */
  readonly losses: readonly NotedLoss[];
  /** The retractions that take the notification from its devices. */
  readonly retractions: readonly RetractionSeen[];
  /** If the notification is a retraction: the ids of the notifications that it takes back. */
  readonly retracts?: readonly string[];
  /** A retract has taken the notification's id: before it was enqueued, or after the queue had forgotten it. */
  readonly idTaken?: 'before' | 'later';
}

export interface JobFacts {
  readonly progress: Progress;
  /** A newer version wrote the job, so nothing else is known about it. */
  readonly newer?: Newer;
  readonly sendAfter?: number;
  readonly expiresAt?: number;
  /** How it is to end without an alert of its own: its slot is gone, but its job has not ended yet. */
  readonly ending?: { readonly how: Ended['outcome']; readonly by?: string };
  /** If no worker has looked at the job: how many jobs are taken before it. */
  readonly ahead?: number;
  /** Workers take nothing from its queue. */
  readonly isPaused?: true;
  /** The worker that has the job. */
  readonly worker?: SeenWorker;
  readonly takenAt?: number;
}

type Waiting = Extract<NotificationStatus, { state: 'waiting' }>;
type Ended = Extract<NotificationStatus, { state: 'ended' }>;

/** Why a notification waits; or why it ended as it did, and when. Each text is one sentence, for people. */
export function whySentences(facts: Facts): string[] {
  const { now, idTaken, retractions } = facts;
  if (idTaken === 'before') return [RETRACTED_BEFORE];
  const takenBack = retractions.map((each) => takenBackText(now, each));
  return [...retractsWhy(facts), ...stateWhy(facts), ...(idTaken === 'later' ? [RETRACTED_LATER] : []), ...takenBack];
}

export const RETRACTED_BEFORE = 'It was retracted before it was enqueued, so it is not sent.';
const RETRACTED_LATER =
  'It was retracted when the queue had forgotten it, an hour or more after its end: its devices may still show it.';

function retractsWhy({ status, retracts }: Facts): string[] {
  if (retracts === undefined || (status.state === 'ended' && status.outcome === 'retracted')) return [];
  if (retracts.length === 0) return ['It only brings a badge to devices.'];
  return [`It is a retraction, which takes ${namesText(retracts)} from devices.`];
}

function stateWhy(facts: Facts): string[] {
  const { status } = facts;
  switch (status.state) {
    case 'unknown':
      return unknownWhy(facts);
    case 'waiting':
      return [...waitingWhy(status, facts), ...deliveredWhy(facts), ...expiryWhy(facts)];
    case 'sending':
      return sendingWhy(facts);
    case 'ended':
      return [...endedWhy(status, facts), ...(status.maybeShown === true ? [MAYBE_SHOWN] : [])];
    case 'dead-lettered':
      return deadWhy(status, facts);
  }
}

/** Why no story is there. A setting of the workers is not known here, and an eviction takes their whole history. */
export const NO_STORIES =
  'Redis has no stories: HISTORY_MAX is not set for the workers, or nothing has ended since it was, or Redis lost or evicted them.';

function unknownWhy({ now, hasHistory, losses }: Facts): string[] {
  const ended = hasHistory
    ? 'it ended, and its story is not kept any more (HISTORY_MAX, HISTORY_MAX_AGE, or Redis lost or evicted it)'
    : 'it ended more than an hour ago';
  const text = `No notification has this id, or ${ended}; or it was a dead letter that was removed.`;
  return [text, ...losses.map((loss) => `${lossText(loss, now)}.`), ...(hasHistory ? [] : [NO_STORIES])];
}

function waitingWhy(status: Waiting, facts: Facts): string[] {
  const { now, job, slotReason, mostOvertaken, workersAlive } = facts;
  const { until, rule } = status;
  const nobodyTakes = [
    ...(workersAlive === 0 ? ['No worker is alive.'] : []),
    ...(job?.isPaused === true ? ['Its queue is paused: workers take nothing from it.'] : []),
  ];
  if (job?.ending !== undefined) {
    const at = until === undefined || until <= now ? '' : `, at ${when(now, until)}`;
    return [`${endingText(job.ending)}; its job ends when a worker takes it${at}.`, ...nobodyTakes];
  }
  if (until === undefined) {
    const ahead =
      job?.ahead === undefined ? '' : `; ${counted(job.ahead, 'job')} ${isOrAre(job.ahead)} taken before it`;
    return [`It waits for a worker${ahead}.`, ...nobodyTakes];
  }
  if (until <= now) {
    const alive = workersAlive === 0 ? [] : [`${counted(workersAlive, 'worker')} ${isOrAre(workersAlive)} alive.`];
    return [`It is due since ${when(now, until)}, and no worker has taken it.`, ...alive, ...nobodyTakes];
  }
  const start = `It waits until ${when(now, until)}`;
  const progress = job?.progress;
  if (rule !== undefined && progress?.heldSince === undefined && slotReason !== undefined)
    return [...slotWhy(slotReason, rule, mostOvertaken), ...nobodyTakes];
  const cause = otherCause(status, facts);
  return [`${start}${cause.text}.`, ...cause.more, ...nobodyTakes];
}

/** Why a notification whose job has not ended is not sent. */
function endingText({ how, by = '?' }: NonNullable<JobFacts['ending']>): string {
  if (how === 'canceled') return 'It was canceled';
  if (how === 'superseded') return `A newer one, ${printable(by)}, goes in its place (onThrottle: latest)`;
  return `It waits for the digest ${printable(by)}, of which it is a part`;
}

/**
 * Why a notification waits: what set its slot, how many are before it, and the longest cause if that did not set the slot.
 *
 * @param askedRule the cause of the wait when the slot was given
 * @param mostOvertaken how often the notification may be overtaken, as living workers say
 */
function slotWhy(slotReason: NamedReason, askedRule: string, mostOvertaken: number | undefined): string[] {
  const { now, at, fixed, longest, rule, ruleUntil, before, block, after, longestAfter } = slotReason;
  const { goesBefore, overtaken } = slotReason;
  const sentences: string[] = [];
  const start = `It waits until ${when(now, at)}`;
  if (fixed === undefined)
    sentences.push(
      `${start}: the slot that it was given for ${ruleText(askedRule)}. Something before it has ended since, so the limits would allow an earlier one by now.`,
    );
  else if ('until' in fixed) sentences.push(`${start}, when ${endText(fixed.rule, block)}.`);
  else sentences.push(`${start} ${limitText(now, fixed, after)}.`);
  if (before > 0) sentences.push(`${before} ${isOrAre(before)} before it in its line.`);
  else sentences.push('It is the next one in its line.');
  if (goesBefore !== undefined)
    sentences.push(`It is of high priority, so it goes before ${goesBefore} of normal priority.`);
  if (overtaken !== undefined) {
    const more = mostOvertaken === undefined ? '' : `; at most ${Math.max(0, mostOvertaken - overtaken)} more can`;
    sentences.push(`Of high priority, ${overtaken} went before it that came later${more}.`);
  }
  if (fixed === undefined || rule === fixed.rule) return sentences;
  if (rule === 'quiet' || rule === 'block') {
    const end = ruleUntil === undefined ? '' : ` at ${timeNear(now, ruleUntil)}`;
    const text = rule === 'quiet' ? `The quiet hours end${end}` : `The block ends${end}${reasonText(block)}`;
    sentences.push(`${text}, and it stands in the line behind that.`);
  } else if (longest !== undefined) {
    sentences.push(`The longest cause is another one: it waits ${limitText(now, longest, longestAfter)}.`);
  } else if (rule !== 'none') {
    sentences.push(`The longest cause is ${ruleText(rule)}.`);
  }
  return sentences;
}

/** `for the gap of 3s after msg-12, which was sent at 09:14:00Z` */
function limitText(now: number, { rule, max, perMs, after }: LimitReason, name: string | undefined): string {
  const which = name === undefined ? 'another one' : printable(name);
  const goes = after.isSent
    ? `which was sent at ${timeNear(now, after.at)}`
    : `which goes at ${timeNear(now, after.at)}`;
  if (isGap(rule)) return `for the gap of ${formatDuration(perMs)} after ${which}, ${goes}`;
  const window = max === 1 ? `1 in ${formatDuration(perMs)}` : `${max} in ${formatDuration(perMs)}`;
  return `for the rule ${printable(rule)} (${window}): first ${which}, ${goes}, has to be ${formatDuration(perMs)} old`;
}

function isGap(rule: string): boolean {
  return rule === 'gap' || rule.endsWith(':gap');
}

function endText(rule: EndReason['rule'], block: SlotReason['block']): string {
  if (rule === 'limits') return 'the limits that are stored for its recipient end';
  return rule === 'quiet' ? 'its quiet hours end' : `the block of its recipient ends${reasonText(block)}`;
}

function reasonText(block: SlotReason['block']): string {
  return block === undefined ? '' : ` ("${printable(block.reason)}")`;
}

/** Why a notification without a slot ahead waits. */
function otherCause(
  { rule, ruleUntil }: Waiting,
  { now, passes, job, breakers, lacked }: Facts,
): { readonly text: string; readonly more: string[] } {
  const last = passes.at(-1);
  if (job?.newer !== undefined) {
    const text = `: a newer version of pushpacer wrote it, and only a worker of that version can send it`;
    return { text, more: [`Found: ${newerText(job.newer)}.`] };
  }
  const { heldSince, limited, quotaAt, unreached = 0, tries = 0, attempts = [] } = job?.progress ?? {};
  if (heldSince !== undefined && rule === CREDENTIALS) {
    const which = lacked.length === 0 ? 'its platform and app' : lacked.map(serviceText).join(', ');
    const who = lacked.length === 0 ? 'The workers that took it lack them' : 'No living worker has them';
    const text = `, for a worker with credentials for ${which}`;
    return { text, more: [`${who}; it is put back since ${when(now, heldSince)}.`] };
  }
  if (heldSince !== undefined) {
    const open = breakers.map(
      ({ service, trouble, code, since }) =>
        `Nothing is sent to ${serviceText(service)} since ${when(now, since)}: ${trouble}, ${printable(code)}.`,
    );
    const code = attempts.at(-1)?.error ?? last?.code;
    const said = open.length > 0 || code === undefined ? [] : [`The last answer: ${printable(code)}.`];
    const isLimit = limited !== undefined && code !== undefined && LIMIT_CODES.test(code);
    const suspected = isLimit ? 'quota' : limited !== undefined || unreached > 0 ? 'outage' : undefined;
    const trouble = breakers[0]?.trouble ?? suspected;
    const because = HELD[trouble ?? ''] ?? 'its provider took nothing at the last try';
    return { text: `, because ${because}; it is put back since ${when(now, heldSince)}`, more: [...open, ...said] };
  }
  if (rule === SEND_AFTER) return { text: ': its producer wants it to be sent no earlier (sendAfter)', more: [] };
  if (rule !== undefined && quotaAt !== undefined) {
    return { text: ` for the quota ${printable(rule)}, which all recipients share, to have room`, more: [] };
  }
  if (rule === 'quiet') return { text: ', when the quiet hours of its recipient end', more: [] };
  if (rule === 'block') {
    const end = ruleUntil === undefined ? '' : ` at ${timeNear(now, ruleUntil)}`;
    return { text: `: its recipient is blocked, and the block ends${end}`, more: [] };
  }
  if (rule !== undefined) return { text: ` for ${ruleText(rule)}`, more: [] };
  if (last?.result === 'deferred' && last.code !== undefined) return { text: `: ${codeText(last.code)}`, more: [] };
  const failed = attempts.at(-1);
  if (tries > 0 && failed !== undefined) {
    const device = failed.device === undefined ? '' : ` at ${printable(failed.device)}`;
    const text = `, for another attempt: attempt ${tries} failed${device} at ${timeNear(now, failed.at)} with ${printable(failed.error)}`;
    return { text, more: [] };
  }
  const isOfProducer = job?.sendAfter !== undefined && job.sendAfter > now;
  if (isOfProducer) return { text: ': its producer wants it to be sent no earlier (sendAfter)', more: [] };
  if (passes.length === 0 && tries === 0) {
    return {
      text: ': no worker has looked at it, because its producer delayed it (a broadcast is spread over a time)',
      more: [],
    };
  }
  return { text: ', to be tried again', more: [] };
}

/** What a push service answers that takes no more for now. */
const LIMIT_CODES = /^http-4(06|29)\b/;

/** Why nothing is sent to a provider, by the trouble of the provider's breaker. */
const HELD: Readonly<Record<string, string>> = {
  auth: 'its provider refuses the credentials',
  configuration: 'its provider refuses the topic, the project or the tokens',
  quota: 'its provider asks for fewer sends',
  outage: 'its provider is down, or cannot be reached',
};

const CODES: Readonly<Record<string, string>> = {
  'stalled-before':
    'its workers did not renew their lock on it in time, twice or more often; it meets other jobs when it comes back',
  'limiter-unavailable': "the limiter's Redis did not answer",
  'replicas-missing': 'too few replicas of Redis confirmed its slot in time (REDIS_WAIT_REPLICAS)',
  'no-credentials': 'its worker has no credentials for its platform or app; another one may have them',
  'missed-slot': 'its worker was too late for its slot, again and again: the machine is too busy',
  'newer-format':
    "a newer version of pushpacer wrote the limiter's state of its recipient; a worker of that version can send it",
  'not-noted': 'Redis did not note what was to be sent (AT_MOST_ONCE)',
};

function codeText(code: string): string {
  return CODES[code] ?? `nothing was sent, because of ${printable(code)}`;
}

/** Which devices were alerted already, if the notification waits for other devices. */
function deliveredWhy({ job }: Facts): string[] {
  const states = Object.entries(job?.progress.devices ?? {});
  const labels = states.flatMap(([label, state]) => (state === 'delivered' ? [label] : []));
  return labels.length === 0 ? [] : [`Delivered already: ${printable(labels.join(', '))}.`];
}

function expiryWhy({ now, job }: Facts): string[] {
  return job?.expiresAt === undefined ? [] : [`It expires at ${when(now, job.expiresAt)}.`];
}

function sendingWhy({ now, job }: Facts): string[] {
  const { worker, takenAt } = job ?? {};
  const since = takenAt === undefined ? '' : ` since ${when(now, takenAt)}`;
  if (worker === undefined) return [`A worker has it${since}.`];
  const name = `${printable(worker.host)}, process ${worker.pid},`;
  if (worker.alive && job?.ending !== undefined)
    return [`${endingText(job.ending)}; the worker ${name} ends its job now.`];
  if (worker.alive)
    return [`The worker ${name} has it${since}: it is sent now, or its slot is less than a second ahead.`];
  const silent = `it was not seen for ${span(worker.silentMs)}`;
  return [
    `The worker ${name} has it${since}, but ${silent}: another one takes it when its lock has run out (LOCK_DURATION).`,
  ];
}

function endedWhy(status: Ended, facts: Facts): string[] {
  const { now, from, job } = facts;
  const { outcome, by, sentAt, endedAt, waitMs } = status;
  const isReplay = facts.replayedAt !== undefined;
  const at = timeNear(now, sentAt ?? endedAt);
  const since = isReplay ? 'it was replayed' : 'it could be sent at the earliest';
  switch (outcome) {
    case 'delivered': {
      const silent = status.silenced === true ? ' without a sound' : '';
      const parts = from === undefined ? [] : waitParts(facts, from, sentAt ?? endedAt);
      const ofThese = parts.length === 0 ? '' : `; of these ${parts.join(', ')}`;
      return [
        `It was delivered${silent} at ${at}, ${span(waitMs)} after ${isReplay || sendAfterOf(job) ? since : 'it was enqueued'}${ofThese}.`,
        ...othersWhy(status),
      ];
    }
    case 'retracted': {
      const { retracts = [] } = facts;
      const what =
        retracts.length === 0 ? 'It brought a badge to devices' : `It took ${namesText(retracts)} from devices`;
      return [`${what} at ${at}, ${span(waitMs)} after ${isReplay ? since : 'it was enqueued'}.`, ...othersWhy(status)];
    }
    case 'expired':
      return [`It expired at ${at}, before it could be sent${waitedText(facts, endedAt)}.`];
    case 'dropped':
      return [
        `It was dropped at ${at}${ruleOfLast(facts)}: its producer wants that in place of a wait (onThrottle, onQuiet).`,
      ];
    case 'canceled':
      return [`It was canceled, and ended at ${at}${waitedText(facts, endedAt)}.`];
    case 'superseded':
      return [`A newer one, ${printable(by ?? '?')}, went in its place (onThrottle: latest).`];
    case 'merged':
      return [`It went as a part of the digest ${printable(by ?? '?')}.`];
  }
}

/** The devices that did not take the notification. */
function othersWhy({ devices }: Ended): string[] {
  const open = Object.entries(devices).filter(([, state]) => state !== 'delivered');
  if (open.length === 0) return [];
  return [`Not to all devices: ${printable(open.map(([label, state]) => `${label} ${state}`).join(', '))}.`];
}

function sendAfterOf(job: JobFacts | undefined): boolean {
  return job?.sendAfter !== undefined;
}

function ruleOfLast({ passes }: Facts): string {
  const { rule } = passes.at(-1) ?? {};
  return rule === undefined ? '' : `, because ${ruleText(rule)} would have made it wait`;
}

function waitedText(facts: Facts, endedAt: number): string {
  const parts = facts.from === undefined ? [] : waitParts(facts, facts.from, endedAt);
  return parts.length === 0 ? '' : `; it waited ${parts.join(', ')}`;
}

function deadWhy(status: Extract<NotificationStatus, { state: 'dead-lettered' }>, { now }: Facts): string[] {
  const replays = status.generation === 0 ? '' : ` It was replayed ${counted(status.generation, 'time')} before.`;
  return [
    `It is a dead letter since ${when(now, status.deadAt)}: ${status.reason}, ${printable(status.message)}.${replays}`,
    'Nothing is sent before it is replayed.',
  ];
}

/** A part of a wait that is shorter than this is not mentioned. */
const LEAST_PART_MS = 50;
const MOST_PARTS = 4;

/**
 * The parts of the wait from `from` until `end`, the longest first: `3s for the gap`. They are read from the passes since the
 * last replay. Empty if not all of these passes are known.
 */
function waitParts({ passes, passesLeftOut, sentAfter }: Facts, from: number, end: number): string[] {
  const since = passes.findLastIndex(({ result }) => result === 'replayed') + 1;
  const own = passes.slice(since);
  const [first] = own;
  if (first === undefined || (since === 0 && passesLeftOut > 0)) return [];
  const parts = new Map<string, number>([['until a worker took it', first.at - from]]);
  const add = (name: string, ms: number): void => void parts.set(name, (parts.get(name) ?? 0) + ms);
  for (const [index, pass] of own.entries()) {
    const next = own[index + 1];
    const lateMs = next?.wokenLateMs ?? 0;
    if (next === undefined) add('for the send', end - pass.at);
    else add(causeText(pass, index === own.length - 2 ? sentAfter : undefined), next.at - pass.at - lateMs);
    add('because a worker took it late', lateMs);
  }
  return [...parts]
    .filter(([, ms]) => ms >= LEAST_PART_MS)
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, MOST_PARTS)
    .map(([name, ms]) => `${span(ms)} ${name}`);
}

/** @param after the id of the notification whose slot was waited for */
function causeText({ result, rule, code }: StoryPass, after: string | undefined): string {
  if (rule === SEND_AFTER) return 'for sendAfter';
  if (rule !== undefined && after !== undefined) return `for ${ruleText(rule)} after ${printable(after)}`;
  if (rule !== undefined) return `for ${ruleText(rule)}`;
  const why = code === undefined ? '' : ` after ${printable(code)}`;
  return result === 'retried'
    ? `for another attempt${why}`
    : `because nothing could be sent${code === undefined ? '' : ` (${printable(code)})`}`;
}

/** `the gap`, `the rule 10/1m`, `the quiet hours`, `the block` */
function ruleText(rule: string): string {
  if (rule === 'quiet') return 'the quiet hours';
  if (rule === 'gap' || rule === 'block') return `the ${rule}`;
  if (isGap(rule)) return `the gap of the category ${printable(rule.slice(0, -':gap'.length))}`;
  return `the rule ${printable(rule)}`;
}

/** `09:14:03Z (in 12s)` */
function when(now: number, at: number): string {
  return `${timeNear(now, at)} (${fromNow(now, at)})`;
}

/** `apns of teacher`, `webpush at fcm.googleapis.com` */
function serviceText(service: string): string {
  const { platform, app, server } = namesOf(service as Parameters<typeof namesOf>[0]);
  const [ofApp, atServer] = [app === undefined ? '' : ` of ${app}`, server === undefined ? '' : ` at ${server}`];
  return printable(`${platform}${ofApp}${atServer}`);
}
