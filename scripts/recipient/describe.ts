import type { Config } from '../../src/config/config.ts';
import type { CountedApart } from '../../src/domain/counted-as.ts';
import { printable } from '../../src/domain/faults.ts';
import { EXEMPTIONS, type CategoryPolicy } from '../../src/domain/limits.ts';
import type { Inspection, QuietView, SlotView } from '../../src/limiter/limiter.ts';
import type { DelayedJob, DelayedJobs, WaitingJob } from './jobs.ts';
import type { LimitsOf } from './open.ts';
import { jobIdOfAsk } from '../../src/delivery/slot.ts';
import { notificationIdOf } from '../../src/queue/names.ts';
import { quietText } from './quiet-text.ts';
import { table } from '../support/table.ts';
import { heading } from '../support/terminal.ts';
import { fromNow, instant, instantFrom, policyText, span } from '../support/text.ts';
import { renderTimeline } from './timeline.ts';

/** A reserved slot, with its notification if the queue still has it. */
export interface WaitingSlot extends SlotView {
  readonly notification?: WaitingJob;
}

interface Apart {
  readonly kind: CountedApart;
  readonly reserved: readonly WaitingSlot[];
}

export interface Described {
  readonly recipientId: string;
  readonly inspection: Inspection;
  /** The inspection's reserved slots. */
  readonly waiting: readonly WaitingSlot[];
  /** What the limiters of what is no alert have; without those that have nothing. */
  readonly others?: readonly (Inspection & Apart)[];
  /** Notifications that are delayed without a slot. */
  readonly delayed: DelayedJobs;
  readonly categories: Config['categories'];
  /** Whose limits these are; undefined: those of this command's own variables. */
  readonly limitsOf?: LimitsOf | undefined;
  /** How many waiting notifications are listed at most. */
  readonly told: number;
  /** The terminal's width; undefined without one. */
  readonly columns?: number | undefined;
}

/** The output of `recipient show`: facts, timeline, and the waiting notifications. */
export function describe(described: Described): string[] {
  const { recipientId, inspection, others = [], delayed, categories, limitsOf, columns } = described;
  const facts = [
    ['policy', policyLine(inspection, limitsOf)],
    ...Object.entries(categories).map(([name, policy]) => [
      '',
      `${name}: ${policyText(policy)}${exemptText(policy)}; from LIMITS_FILE`,
    ]),
    ['block', blockLine(inspection)],
    ...(inspection.quiet === undefined ? [] : [['quiet', quietLine(inspection.quiet, inspection.now)]]),
    ['sent', sentLine(inspection)],
    ['reserved', reservedLine(inspection)],
    ...others.flatMap(apartFacts),
    ['delayed', delayedLine(inspection.now, delayed)],
    ['next free', nextLine(inspection)],
  ];
  const name = heading(`${printable(recipientId)} at ${instant(inspection.now)}`);
  const parts = [
    [name, ...(others.length === 0 ? strangerLines(inspection, delayed) : [])],
    table(facts, { columns, wrap: true }),
    renderTimeline(inspection, columns),
    waitingLines(described),
  ];
  return parts.filter((lines) => lines.length > 0).flatMap((lines, index) => (index === 0 ? lines : ['', ...lines]));
}

function strangerLines({ sent, reserved, block, source, quiet }: Inspection, { found }: DelayedJobs): string[] {
  const isKnown =
    sent.length + reserved.length + found.length > 0 ||
    block !== undefined ||
    source === 'stored' ||
    quiet?.source === 'stored';
  return isKnown ? [] : ['Nothing is stored: no alert lately, none waits, no limits or block of its own.'];
}

function policyLine({ now, policy, source, policyUntil }: Inspection, limitsOf: LimitsOf | undefined): string {
  const stored = policyUntil === undefined ? 'stored, without an end' : `stored until ${instantFrom(now, policyUntil)}`;
  const from = source === 'stored' ? stored : `from LIMIT_RULES and LIMIT_MIN_GAP ${whose(limitsOf)}`;
  return `${policyText(policy)}; ${from}`;
}

function whose(limitsOf: LimitsOf | undefined): string {
  if (limitsOf === undefined) return 'of this command itself, since no living worker tells its own';
  const { workers, others } = limitsOf;
  const of = workers === 1 ? 'of 1 worker' : `of ${workers} workers`;
  return others === 0 ? of : `${of}; ${others} more ${others === 1 ? 'has' : 'have'} another policy (pushpacer status)`;
}

function blockLine({ now, block }: Inspection): string {
  return block === undefined ? 'none' : `until ${instantFrom(now, block.until)}: ${printable(block.reason)}`;
}

/** The end of the quiet time that is now, on the limiter's clock. */
function quietLine({ hours, source, until }: QuietView, now: number): string {
  const from = source === 'stored' ? 'stored' : 'from LIMITS_FILE';
  return `${quietText(hours)}; ${from}${until === undefined ? '' : `; quiet now, until ${instantFrom(now, until)}`}`;
}

/** `, exempt from the overall gap and rules` */
function exemptText({ exempt = [] }: CategoryPolicy): string {
  const names = EXEMPTIONS.filter((name) => exempt.includes(name)).map((name) => EXEMPT_NAMES[name]);
  return names.length === 0 ? '' : `, exempt from ${names.join(' and ')}`;
}

const EXEMPT_NAMES = { gap: 'the overall gap', rules: 'the overall rules', quietHours: 'quiet hours' } as const;

function sentLine({ now, policy, sent }: Inspection): string {
  const windowMs = Math.max(policy.minGapMs, ...policy.rules.map(({ perMs }) => perMs));
  if (windowMs === 0) return 'not counted';
  const last = sent.at(-1);
  return `${sent.length} within ${span(windowMs)}${last === undefined ? '' : `, the last ${fromNow(now, last.at)}`}`;
}

function reservedLine({ now, reserved }: Inspection): string {
  const [next, last] = [reserved[0], reserved.at(-1)];
  if (next === undefined || last === undefined) return 'none';
  if (reserved.length === 1) return `1, ${fromNow(now, next.at)}`;
  return `${reserved.length}, the next ${fromNow(now, next.at)}, the last ${fromNow(now, last.at)}`;
}

const APART_NAMES: Readonly<Record<CountedApart, string>> = {
  background: 'background',
  liveactivity: 'live activity',
};

function apartFacts(pushes: Inspection & Apart): string[][] {
  return [
    [APART_NAMES[pushes.kind], `sent ${sentLine(pushes)}`],
    ['', `reserved ${reservedLine(pushes)}`],
  ];
}

/** Delayed jobs without a slot; those with one are in the line `reserved`. */
function delayedLine(now: number, { found, lookedAt, of }: DelayedJobs): string {
  const [next] = found;
  const bound = lookedAt < of ? ` among the first ${lookedAt} of ${of} delayed jobs` : '';
  if (next === undefined) return `none without a slot${bound}`;
  return `${found.length} without a slot${bound}, the next ${fromNow(now, next.dueAt)}`;
}

/** `nextAt` is computed one round trip after `now`; a difference this small still counts as now. */
const MOMENT_MS = 20;

function nextLine({ now, nextAt, rule }: Inspection): string {
  return nextAt <= now + MOMENT_MS ? 'now' : `${instantFrom(now, nextAt)}, by ${printable(rule)}`;
}

/** On a narrow terminal: due, why, notification. */
const ESSENTIAL = [0, 2, 7];

/** One line each, the next one first. */
function waitingLines({ inspection: { now }, waiting, others = [], delayed, told, columns }: Described): string[] {
  const all = [
    ...waiting.map((slot) => ({ at: slot.at, row: waitingRow(now, slot) })),
    ...others.flatMap(({ kind, reserved }) =>
      reserved.map((slot) => ({ at: slot.at, row: waitingRow(now, slot, ` (${APART_NAMES[kind]})`) })),
    ),
    ...delayed.found.map((job) => ({ at: job.dueAt, row: delayedRow(now, job) })),
  ].toSorted((a, b) => a.at - b.at);
  if (all.length === 0) return [];
  const head = ['due', 'at', 'why', 'enqueued', 'attempts', 'priority', 'category', 'notification'];
  const more = all.length - told;
  const rows = all.slice(0, told).map(({ row }) => row);
  const [top = '', ...lines] = table([head, ...rows], { columns, essential: ESSENTIAL });
  return [heading(top), ...lines, ...(more > 0 ? [`and ${more} more; --all shows them`] : [])];
}

/** @param kind stands behind what it waits for */
function waitingRow(now: number, { at, id = '-', notification }: WaitingSlot, kind = ''): string[] {
  if (notification === undefined) return [...when(now, at), `no job${kind}`, '-', '-', '-', '-', printable(id)];
  const [why = '', ...others] = facts(now, notification);
  return [...when(now, at), `${why}${kind}`, ...others, nameOf(notification.id, jobIdOfAsk(id))];
}

function delayedRow(now: number, job: DelayedJob): string[] {
  return [...when(now, job.dueAt), ...facts(now, job), job.id];
}

/** `msg-1`; `msg-1 (job 17)` where a producer gave the job an id of its own. */
function nameOf(id: string, jobId: string | undefined): string {
  return jobId === undefined || notificationIdOf(jobId) === id ? id : `${id} (job ${printable(jobId)})`;
}

function when(now: number, at: number): string[] {
  return [fromNow(now, at), `${new Date(at).toISOString().slice(11, 19)}Z`];
}

function facts(now: number, { waitsFor, enqueuedAt, attempts, priority, category = '-' }: WaitingJob): string[] {
  return [printable(waitsFor), fromNow(now, enqueuedAt), String(attempts), priority, category];
}
