import { isOverHttp, jobIdOfAsk } from '../../src/delivery/lines.ts';
import { printable } from '../../src/domain/faults.ts';
import { policyText, type CountedApart } from '../../src/domain/limits.ts';
import { quietHoursText } from '../../src/domain/quiet-hours.ts';
import type { Cause, Inspection, QuietView, ReservedView } from '../../src/limiter/limiter.ts';
import { notificationIdOf, replayOf } from '../../src/queue/names.ts';
import { table, heading, fromNow, instant, instantFrom, span, timeNear } from '../../src/terminal/text.ts';
import type { DelayedJob, DelayedJobs, FoundJobs, SendingJob, WaitingJob } from '../../src/operations/jobs.ts';
import { orderText, type ApartLook, type WaitingSlot } from '../../src/operations/recipient.ts';
import type { RecipientSeen } from '../../api/backend.ts';
import type { OpenLimiters } from '../../api/limiters.ts';

interface Described extends RecipientSeen {
  readonly recipientId: string;
  /** The most waiting notifications that are listed. */
  readonly most: number;
  /** The terminal's width; undefined without a terminal. */
  readonly columns?: number | undefined;
}

/** The output of `recipient show`: facts, timeline, and the waiting notifications. */
export function describe(described: Described): string[] {
  const { recipientId, inspection, others, delayed, notTaken, sending, kept, categories, limitsOf, columns } =
    described;
  const { now } = inspection;
  const facts = [
    ...kept.map(({ label, text }) => [label.toLowerCase(), text]),
    ['policy', policyLine(inspection, limitsOf)],
    ...Object.entries(categories).map(([name, policy]) => ['', `${name}: ${policyText(policy)}; from LIMITS_FILE`]),
    ['block', blockLine(inspection)],
    ...(inspection.quiet === undefined ? [] : [['quiet', quietLine(inspection.quiet, inspection.now)]]),
    ['sent', sentLine(inspection, sending)],
    ...(sending.length === 0 ? [] : [['sending', sendingLine(now, sending)]]),
    ['reserved', reservedLine(inspection)],
    ...others.flatMap((pushes) => apartFacts(pushes, sending)),
    ['delayed', delayedLine(now, delayed)],
    ...(notTaken.found.length === 0 && notTaken.lookedAt >= notTaken.of ? [] : [['waiting', notTakenLine(notTaken)]]),
    ['next free', nextLine(inspection)],
  ];
  const name = heading(`${printable(recipientId)} at ${instant(inspection.now)}`);
  const parts = [
    [
      name,
      ...([others, sending, kept].every(({ length }) => length === 0)
        ? strangerLines(inspection, delayed, notTaken)
        : []),
    ],
    table(facts, { columns, wrap: true }),
    renderTimeline(inspection, columns),
    waitingLines(described),
  ];
  return parts.filter((lines) => lines.length > 0).flatMap((lines, index) => (index === 0 ? lines : ['', ...lines]));
}

function strangerLines(
  { sent, reserved, block, source, quiet }: Inspection,
  ...jobs: readonly FoundJobs<WaitingJob>[]
): string[] {
  const isKnown =
    sent.length + reserved.length > 0 ||
    jobs.some(({ found, lookedAt, of }) => found.length > 0 || lookedAt < of) ||
    block !== undefined ||
    source === 'stored' ||
    quiet?.source === 'stored';
  return isKnown ? [] : ['Nothing is stored: no alert lately, none waits, no limits or block of its own.'];
}

function policyLine({ now, policy, source, policyUntil }: Inspection, limitsOf: OpenLimiters['limitsOf']): string {
  const stored = policyUntil === undefined ? 'stored, without an end' : `stored until ${instantFrom(now, policyUntil)}`;
  const from = source === 'stored' ? stored : `from LIMIT_RULES and LIMIT_MIN_GAP ${whose(limitsOf)}`;
  return `${policyText(policy)}; ${from}`;
}

function whose(limitsOf: OpenLimiters['limitsOf']): string {
  if (limitsOf === undefined) return 'of this command itself, since no living worker tells its own';
  const { workers, others } = limitsOf;
  const of = workers === 1 ? 'of 1 worker' : `of ${workers} workers`;
  return others === 0 ? of : `${of}; ${others} more ${others === 1 ? 'has' : 'have'} another policy (pushpacer status)`;
}

function blockLine({ now, block }: Inspection): string {
  return block === undefined ? 'none' : `until ${instantFrom(now, block.until)}: ${printable(block.reason)}`;
}

/** The quiet hours; if it is quiet now, also the end of this quiet time on the limiter's clock. */
function quietLine({ hours, source, until }: QuietView, now: number): string {
  const from = source === 'stored' ? 'stored' : 'from LIMITS_FILE';
  return `${quietHoursText(hours)}; ${from}${until === undefined ? '' : `; quiet now, until ${instantFrom(now, until)}`}`;
}

/** The sent slots, without those whose notifications are still being sent, although these slots count already. */
function sentLine({ now, policy, sent: counted }: Inspection, sending: readonly SendingJob[]): string {
  const inHand = sending.map(({ at }) => at);
  const sent = counted.filter(({ at }) => {
    const index = inHand.indexOf(at);
    if (index >= 0) inHand.splice(index, 1); // removes one slot for each: without a gap several may have the same instant
    return index < 0;
  });
  const windowMs = Math.max(policy.minGapMs, ...policy.rules.map(({ perMs }) => perMs));
  if (windowMs === 0) return 'not counted';
  const last = sent.at(-1);
  return `${sent.length} within ${span(windowMs)}${last === undefined ? '' : `, the last ${fromNow(now, last.at)}`}`;
}

function sendingLine(now: number, sending: readonly SendingJob[]): string {
  const since = Math.min(...sending.map(({ at, takenAt = now }) => at ?? takenAt));
  return `${sending.length}, for ${span(Math.max(0, now - since))}`;
}

function reservedLine({ now, reserved }: Inspection): string {
  const [next, last] = [reserved[0], reserved.at(-1)];
  if (next === undefined || last === undefined) return 'none';
  const textOf = (slot: ReservedView): string => `${fromNow(now, slot.at)} (${printable(causeText(now, slot))})`;
  if (reserved.length === 1) return `1, ${textOf(next)}`;
  return `${reserved.length}, the next ${textOf(next)}, the last ${textOf(last)}`;
}

const APART_NAMES: Readonly<Record<CountedApart, string>> = {
  background: 'background',
  liveactivity: 'live activity',
};

function apartFacts(pushes: ApartLook, sending: readonly SendingJob[]): string[][] {
  return [
    [APART_NAMES[pushes.kind], `sent ${sentLine(pushes, sending)}`],
    ['', `reserved ${reservedLine(pushes)}`],
  ];
}

/** Delayed jobs without a slot; jobs with a slot are in the line `reserved`. */
function delayedLine(now: number, { found, lookedAt, of }: DelayedJobs): string {
  const [next] = found;
  const bound = lookedAt < of ? ` among the first ${lookedAt} of ${of} delayed jobs` : '';
  if (next === undefined) return `none without a slot${bound}`;
  return `${found.length} without a slot${bound}, the next ${fromNow(now, next.dueAt)}`;
}

/** Notifications that no worker has taken yet. */
function notTakenLine({ found, lookedAt, of }: FoundJobs<WaitingJob>): string {
  const bound = lookedAt < of ? `, among the first ${lookedAt} of ${of} that no worker has taken` : '';
  return `${found.length === 0 ? 'none' : found.length} not taken yet${bound}`;
}

/** `nextAt` is computed one round trip after `now`; a difference this small still counts as now. */
const MOMENT_MS = 20;

function nextLine({ now, nextAt, rule }: Inspection): string {
  return nextAt <= now + MOMENT_MS ? 'now' : `${instantFrom(now, nextAt)}, by ${printable(rule)}`;
}

/** The columns that stay on a narrow terminal: due, why, notification. */
const ESSENTIAL = [0, 2, 7];

/** One line for each waiting notification, the next one first. */
function waitingLines(described: Described): string[] {
  const { inspection, waiting, others, delayed, notTaken, sending, limitsOf, most, columns } = described;
  const { now } = inspection;
  const from = { now, mostOvertaken: limitsOf?.mostOvertaken };
  const all = [
    ...sending.map((job) => ({ at: -Infinity, row: inHandRow(now, job, 'being sent') })),
    ...notTaken.found.map((job) => ({ at: now, row: inHandRow(now, job, 'not taken yet') })),
    ...waiting.map((slot) => ({ at: slot.at, row: waitingRow(slot, from) })),
    ...others.flatMap(({ kind, reserved }) =>
      reserved.map((slot) => ({ at: slot.at, row: waitingRow(slot, from, ` (${APART_NAMES[kind]})`) })),
    ),
    ...delayed.found.map((job) => ({ at: job.dueAt, row: delayedRow(now, job) })),
  ].toSorted((a, b) => a.at - b.at);
  if (all.length === 0) return [];
  const head = ['due', 'at', 'why', 'enqueued', 'attempts', 'priority', 'category', 'notification'];
  const more = all.length - most;
  const rows = all.slice(0, most).map(({ row }) => row);
  const [top = '', ...lines] = table([head, ...rows], { columns, essential: ESSENTIAL });
  return [heading(top), ...lines, ...(more > 0 ? [`and ${more} more; --all shows them`] : [])];
}

/** @param kind shown after the cause of the wait */
function waitingRow(
  slot: WaitingSlot,
  { now, mostOvertaken }: { readonly now: number; readonly mostOvertaken: number | undefined },
  kind = '',
): string[] {
  const { at, id = '-', notification } = slot;
  const jobId = jobIdOfAsk(id);
  const name = nameOf(notification ?? { id: jobId === undefined ? id : notificationIdOf(jobId) }, jobId);
  if (notification === undefined) {
    const why = isOverHttp(id) ? printable(slot.rule) : 'no job';
    return [...when(now, at), `${why}${kind}`, '-', '-', '-', '-', name];
  }
  const why = [printable(notification.waitsFor), orderText(slot, mostOvertaken)]
    .filter((part) => part !== '')
    .join(', ');
  return [...when(now, at), `${why}${kind}`, ...facts(now, notification), name];
}

function delayedRow(now: number, job: DelayedJob): string[] {
  return [...when(now, job.dueAt), printable(job.waitsFor), ...facts(now, job), nameOf(job)];
}

function inHandRow(now: number, job: SendingJob, why: string): string[] {
  return ['now', '-', why, ...facts(now, job), nameOf(job)];
}

/** `quiet until 07:00:00Z; 4 before it` */
function causeText(now: number, { rule, ruleUntil, before }: Cause): string {
  const end = ruleUntil === undefined ? '' : ` until ${timeNear(now, ruleUntil)}`;
  return `${rule}${end}${before === 0 ? '' : `; ${before} before it`}`;
}

/**
 * The notification's id, by which other commands find it too: `msg-1`; `msg-1 (replay 2)`; `msg-1 (job 17)` if the producer
 * gave the job another id than the notification's.
 */
function nameOf({ id, replay }: Pick<WaitingJob, 'id' | 'replay'>, jobId?: string): string {
  const which = replay ?? (jobId === undefined ? undefined : replayOf(jobId));
  const isOther = jobId !== undefined && notificationIdOf(jobId) !== id;
  const name = `${printable(id)}${which === undefined ? '' : ` (replay ${which})`}`;
  return isOther ? `${name} (job ${printable(jobId)})` : name;
}

function when(now: number, at: number): string[] {
  return [fromNow(now, at), timeNear(now, at)];
}

function facts(now: number, job: Omit<WaitingJob, 'waitsFor'>): string[] {
  const { enqueuedAt, attempts, priority, category = '-' } = job;
  return [fromNow(now, enqueuedAt), String(attempts), priority, category];
}

/** The instants to draw, in epoch milliseconds, the earliest first. */
type Drawn = Pick<Inspection, 'now' | 'sent' | 'reserved' | 'block'>;

/** The least and the greatest number of columns for instants; with the greatest, no line is longer than 80 characters. */
const [LEAST_COLUMNS, MOST_COLUMNS] = [8, 64];
const NAME_WIDTH = 11;

/** Maps instants to columns. The columns begin at now in both directions, so that no column has past and future instants. */
interface Axis {
  /** The number of columns before now; the next column is the mark of now. */
  readonly past: number;
  readonly width: number;
  readonly columnMs: number;
  readonly columnOf: (at: number) => number;
}

/**
 * Draws from the oldest sent slot, over now, to the last reserved one. Empty if there are no slots.
 *
 *                 -58s          now           +31s
 *     sent        1··1··1··11··1│··············
 *     reserved    ··············│1··1··1··1··1·
 *
 * `columns` is the width of the terminal.
 */
function renderTimeline(drawn: Drawn, columns = 80): string[] {
  const { now, sent, reserved, block } = drawn;
  const instants = { sent: sent.map(({ at }) => at), reserved: reserved.map(({ at }) => at) };
  if (sent.length + reserved.length === 0) return [];
  const most = Math.min(MOST_COLUMNS, Math.max(LEAST_COLUMNS, columns - NAME_WIDTH - 1));
  const axis = axisOf(now, instants.sent, instants.reserved, most);
  const rows = [
    named('', labels(axis, now, instants.sent, instants.reserved)),
    named('sent', row(axis, instants.sent)),
    named('reserved', row(axis, instants.reserved)),
  ];
  if (block !== undefined) rows.push(named('block', blockRow(axis, block.until)));
  return [...rows, `A column is ${span(axis.columnMs)}; a digit counts its slots, + is more than nine.`];
}

function axisOf(now: number, sent: readonly number[], reserved: readonly number[], most: number): Axis {
  const [start, end] = endsOf(now, sent, reserved);
  const columnMs = Math.max(1, Math.ceil((end - start) / (most - 2)));
  const past = Math.ceil((now - start) / columnMs);
  const columnOf = (at: number): number =>
    at < now ? past - Math.ceil((now - at) / columnMs) : past + 1 + Math.floor((at - now) / columnMs);
  return { past, columnMs, columnOf, width: columnOf(end) + 1 };
}

/** The first and the last instant to draw. A sent slot may lie a moment ahead, and a reserved one may be overdue. */
function endsOf(now: number, sent: readonly number[], reserved: readonly number[]): [start: number, end: number] {
  const ends = [now, sent[0], sent.at(-1), reserved[0], reserved.at(-1)].filter((at) => at !== undefined);
  return [Math.min(...ends), Math.max(...ends)];
}

/** `·` for no slot, else the number of slots. */
function row({ past, width, columnOf }: Axis, instants: readonly number[]): string {
  const counts = new Array<number>(width).fill(0);
  for (const at of instants) counts[columnOf(at)] = (counts[columnOf(at)] ?? 0) + 1;
  const cells = counts.map((count) => (count === 0 ? '·' : count > 9 ? '+' : String(count)));
  return cells.with(past, '│').join('');
}

function blockRow({ past, width, columnOf }: Axis, until: number): string {
  const blocked = Math.min(width, columnOf(until)) - past - 1;
  return `${'·'.repeat(past)}│${'='.repeat(blocked)}`.padEnd(width, '·');
}

/** `-58s`, `now` and `+31s` above their columns; if there is no room for all of them, only `now` stays. */
function labels({ past, width }: Axis, now: number, sent: readonly number[], reserved: readonly number[]): string {
  const [start, end] = endsOf(now, sent, reserved);
  const [left, right] = [start < now ? `-${span(now - start)}` : '', end > now ? `+${span(end - now)}` : ''];
  const nowAt = Math.max(0, Math.min(past - 1, width - 3));
  const before = left.length < nowAt ? left.padEnd(nowAt) : ' '.repeat(nowAt);
  const room = width - nowAt - 3;
  return `${before}now${right.length < room ? right.padStart(room) : ''}`;
}

function named(name: string, cells: string): string {
  return `${name.padEnd(NAME_WIDTH)}${cells}`.trimEnd();
}
