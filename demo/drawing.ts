import { alertsByRecipient, idealSchedule, TOLERANCE_MS, type Arrival } from '../sandbox/judge.ts';
import { printable } from '../src/domain/faults.ts';
import { ruleName, type Policy } from '../src/domain/limits.ts';
import { counted } from '../src/terminal/text.ts';
import type { DemoResult, Refusal } from './counts.ts';
import type { Morning } from './morning.ts';
import type { DemoDeadLetter } from './queue.ts';
import type { Check } from './verdict.ts';

/** Places instants on the width of a drawing. In percent, so that a drawing is as wide as the page and its marks keep their size. */
interface Scale {
  /** The last instant, in milliseconds. */
  readonly endMs: number;
  /** `50.00%` */
  readonly x: (ms: number) => string;
  /** Where a vertical line with a number stands. */
  readonly steps: readonly number[];
}

const STEPS_MS = [1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000];
const MOST_STEPS = 6;

/** A scale from 0 to a whole second that is not before `lastMs`. */
export function createScale(lastMs: number): Scale {
  const endMs = Math.max(1_000, Math.ceil(lastMs / 1_000) * 1_000);
  const stepMs = STEPS_MS.find((ms) => endMs / ms <= MOST_STEPS) ?? endMs;
  const steps = Array.from({ length: Math.floor(endMs / stepMs) + 1 }, (_, index) => index * stepMs);
  return { endMs, steps, x: (ms) => `${((100 * Math.min(endMs, Math.max(0, ms))) / endMs).toFixed(2)}%` };
}

/** The numbers under a drawing. The first and the last stand inside of it. */
export function axis(scale: Scale, y: number): Markup {
  const labels = scale.steps.map((ms) => {
    const anchor = ms === 0 ? 'start' : ms === scale.endMs ? 'end' : 'middle';
    return markup`<text class="label" x="${scale.x(ms)}" y="${y}" text-anchor="${anchor}">${ms / 1_000} s</text>`;
  });
  return markup`${labels}`;
}

export function grid(scale: Scale, height: number): Markup {
  const lines = scale.steps.map(
    (ms) => markup`<line class="grid" x1="${scale.x(ms)}" x2="${scale.x(ms)}" y1="0" y2="${height}"/>`,
  );
  return markup`${lines}`;
}

/** `2.251 s` */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(3)} s`;
}

const HEIGHT = 40;
/** Arrivals stand above, the ideal schedule below. */
const ARRIVED = { top: 6, bottom: 23 };
const IDEAL = { top: 27, bottom: 34 };

/** One teacher's row: the name and the numbers as text, and the timeline as a drawing. */
export function lane(teacher: Teacher, scale: Scale): Markup {
  const { recipientId } = teacher;
  const facts = factsOf(teacher);
  return markup`<li class="lane">
<div class="who"><b>${recipientId}</b> <span>${facts}</span></div>
<svg class="drawing" height="${HEIGHT}" role="img" aria-label="${recipientId}: ${facts}">
<title>${recipientId}: ${facts}</title>
<rect class="ground" width="100%" height="${HEIGHT}"/>
${fullBands(teacher, scale)}
${grid(scale, HEIGHT)}
${idealTicks(teacher, scale)}
${arrivalTicks(teacher, scale)}
${refusedTicks(teacher, scale)}
${enqueuedMark(teacher)}
</svg>
</li>`;
}

export function laneAxis(scale: Scale): Markup {
  return markup`<div class="lane axis" aria-hidden="true"><div class="who"></div>
<svg class="drawing" height="18">${axis(scale, 13)}</svg></div>`;
}

/** `59 alerts, least gap 244 ms, last after 21.1 s`, `no alert, 2 dead letters` */
function factsOf({ alerts, leastGapMs, deadLetters, expired }: Teacher): string {
  const last = alerts.at(-1);
  return [
    alerts.length === 0 ? 'no alert' : counted(alerts.length, 'alert'),
    ...(leastGapMs === undefined ? [] : [`least gap ${Math.round(leastGapMs)} ms`]),
    ...(last === undefined ? [] : [`last after ${(last.atMs / 1_000).toFixed(1)} s`]),
    ...(deadLetters === 0 ? [] : [counted(deadLetters, 'dead letter')]),
    ...(expired === 0 ? [] : [`${expired} expired`]),
  ].join(', ');
}

function fullBands({ full }: Teacher, scale: Scale): Markup {
  const bands = full.map(({ fromMs, toMs, rule }) => {
    const width = `${((100 * (Math.min(toMs, scale.endMs) - fromMs)) / scale.endMs).toFixed(2)}%`;
    return markup`<rect class="full" x="${scale.x(fromMs)}" width="${width}" height="${HEIGHT}"><title>${rule} is used up from ${seconds(fromMs)} to ${seconds(toMs)}</title></rect>`;
  });
  return markup`${bands}`;
}

function idealTicks({ idealMs }: Teacher, scale: Scale): Markup {
  return markup`${idealMs.map((ms) => tick('ideal', scale.x(ms), IDEAL))}`;
}

function arrivalTicks({ alerts, idealMs }: Teacher, scale: Scale): Markup {
  const ticks = alerts.map(({ id, atMs }, index) => {
    const before = alerts[index - 1];
    const after = before === undefined ? '' : `, ${Math.round(atMs - before.atMs)} ms after the one before`;
    const title = `${id}: arrived at ${seconds(atMs)}${after}; ideal ${seconds(idealMs[index] ?? atMs)}`;
    return tick('arrived', scale.x(atMs), ARRIVED, title);
  });
  return markup`${ticks}`;
}

function refusedTicks({ refused }: Teacher, scale: Scale): Markup {
  const ticks = refused.map(({ id, atMs, answer }) =>
    tick('refused', scale.x(atMs), ARRIVED, `${id}: refused at ${seconds(atMs)} (${answer})`),
  );
  return markup`${ticks}`;
}

function tick(kind: string, x: string, { top, bottom }: typeof IDEAL, title?: string): Markup {
  const inside = title === undefined ? '' : markup`<title>${title}</title>`;
  return markup`<line class="${kind}" x1="${x}" x2="${x}" y1="${top}" y2="${bottom}">${inside}</line>`;
}

function enqueuedMark({ enqueued }: Teacher): Markup {
  return markup`<path class="enqueued" d="M0 0h9l-9 9z"><title>${counted(enqueued, 'notification')} enqueued from 0 s on</title></path>`;
}

const STAIRS_HEIGHT = 220;
const LABELS = 20;
/** Room above the highest line, as a share of the height. */
const HEADROOM = 0.12;

/** How many of one teacher's notifications were enqueued, how many alerts had arrived, and how many could have, at each instant. */
export function staircase({ recipientId, enqueued, alerts, idealMs }: Teacher, scale: Scale): Markup {
  const most = Math.max(1, enqueued) * (1 + HEADROOM);
  const arrivedMs = alerts.map(({ atMs }) => atMs);
  const y = (number: number): number => STAIRS_HEIGHT * (1 - number / most);
  const arrived = stepsOf(arrivedMs, scale.endMs, most);
  const last = arrivedMs.at(-1) ?? 0;
  const text = `${recipientId}: ${enqueued} enqueued from 0 s on; ${counted(alerts.length, 'alert')} arrived, the last at ${seconds(last)}, ideal ${seconds(idealMs.at(-1) ?? 0)}`;
  return markup`<svg class="drawing tall" height="${STAIRS_HEIGHT + LABELS}" role="img" aria-label="${text}">
<title>${text}</title>
<rect class="ground" width="100%" height="${STAIRS_HEIGHT}"/>
${grid(scale, STAIRS_HEIGHT)}
<line class="enqueued-line" x1="0" x2="100%" y1="${y(enqueued)}" y2="${y(enqueued)}"/>
<svg width="100%" height="${STAIRS_HEIGHT}" viewBox="0 0 ${scale.endMs} ${STAIRS_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
<path class="arrived-area" d="${arrived}V${STAIRS_HEIGHT}H0Z"/>
<path class="ideal-line" d="${stepsOf(idealMs, scale.endMs, most)}"/>
<path class="arrived-line" d="${arrived}"/>
</svg>
<text class="label strong" x="100%" dx="-6" y="${y(enqueued) - 6}" text-anchor="end">${enqueued} enqueued from 0 s on</text>
${axis(scale, STAIRS_HEIGHT + 15)}
</svg>`;
}

/** A step up at each instant, to the right end of the drawing. */
function stepsOf(instantsMs: readonly number[], endMs: number, most: number): Markup {
  const y = (number: number): string => (STAIRS_HEIGHT * (1 - number / most)).toFixed(1);
  const steps = instantsMs.map((ms, index) => `H${ms.toFixed(0)}V${y(index + 1)}`);
  return new Markup(`M0 ${y(0)}${steps.join('')}H${endMs}`);
}

/** What the demo found; the report is made from this alone. */
export interface Findings {
  readonly policy: Policy;
  readonly result: DemoResult;
  readonly promises: readonly Check[];
  /** What depends on the machine. */
  readonly machine: readonly Check[];
  readonly letters: readonly DemoDeadLetter[];
  /** The alerts that the providers accepted, on the clock of `enqueuedAt`. */
  readonly arrivals: readonly Arrival[];
  readonly refusals: readonly Refusal[];
  /** Ids of notifications. */
  readonly expired: readonly string[];
  /** Without the background pushes. */
  readonly morning: Pick<Morning, 'valid' | 'malformed'>;
  /** When the producer began to enqueue: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** How long the producer took to enqueue all of them. */
  readonly enqueuingMs: number;
  /** The longest time for which the machine stood still. */
  readonly longestStallMs: number;
}

/** One recipient's part of the report. All instants are milliseconds after `enqueuedAt`. */
export interface Teacher {
  readonly recipientId: string;
  readonly enqueued: number;
  readonly alerts: readonly { readonly id: string; readonly atMs: number }[];
  /** Refused requests that alerted nobody; they use up the windows as well. */
  readonly refused: readonly { readonly id: string; readonly atMs: number; readonly answer: string }[];
  /** When each of the alerts could have come at the earliest, counted from the first. */
  readonly idealMs: readonly number[];
  /** When the next alert had to wait longer than the gap, because a window had its max. */
  readonly full: readonly { readonly fromMs: number; readonly toMs: number; readonly rule: string }[];
  readonly leastGapMs: number | undefined;
  readonly deadLetters: number;
  readonly expired: number;
}

/** Every recipient of the morning, those with most notifications first. */
export function teachersOf(findings: Findings): Teacher[] {
  const { policy, arrivals, refusals, morning, letters, expired, enqueuedAt } = findings;
  const recipientOf = new Map([
    ...morning.malformed.map(({ id }) => [id, letters.find((letter) => letter.id === id)?.recipientId] as const),
    ...morning.valid.map(({ id, recipientId }) => [id, recipientId] as const),
  ]);
  const alertsOf = alertsByRecipient(arrivals, policy.minGapMs);
  const usedBy = alertsByRecipient([...arrivals, ...refusals], policy.minGapMs);
  const idOf = new Map(arrivals.map(({ recipientId, at, notificationId }) => [`${recipientId} ${at}`, notificationId]));
  const counted = (ids: readonly string[], recipientId: string): number =>
    ids.filter((id) => recipientOf.get(id) === recipientId).length;
  const deadIds = letters.map(({ id }) => id);
  const names = new Set([...recipientOf.values()].filter((name) => name != null));
  const teachers = [...names].map((recipientId): Teacher => {
    const own = alertsOf.get(recipientId) ?? [];
    const times = own.map(({ at }) => at);
    const timesMs = times.map((at) => at - enqueuedAt);
    const [firstMs = 0] = timesMs;
    const gaps = own.slice(1).map(({ at }, index) => at - (own[index]?.earliestAt ?? at));
    return {
      recipientId,
      enqueued: counted([...recipientOf.keys()], recipientId),
      alerts: times.map((at) => ({ id: idOf.get(`${recipientId} ${at}`) ?? '', atMs: at - enqueuedAt })),
      refused: refusals
        .filter((refusal) => refusal.recipientId === recipientId && !isBesideAlert(refusal, arrivals, policy))
        .map(({ notificationId, at, answer }) => ({ id: notificationId, atMs: at - enqueuedAt, answer })),
      idealMs: idealSchedule(times.length, policy).map((ms) => firstMs + ms),
      full: fullWindows(
        (usedBy.get(recipientId) ?? []).map(({ at }) => at - enqueuedAt),
        policy,
      ),
      leastGapMs: gaps.length === 0 ? undefined : Math.min(...gaps),
      deadLetters: counted(deadIds, recipientId),
      expired: counted(expired, recipientId),
    };
  });
  return teachers.toSorted((a, b) => b.enqueued - a.enqueued || a.recipientId.localeCompare(b.recipientId));
}

/** Whether another device got the same notification at about the same time: then it is part of that alert. */
function isBesideAlert(refusal: Refusal, arrivals: readonly Arrival[], { minGapMs }: Policy): boolean {
  const { notificationId, recipientId, at } = refusal;
  return arrivals.some(
    (arrival) =>
      arrival.notificationId === notificationId &&
      arrival.recipientId === recipientId &&
      Math.abs(arrival.at - at) < minGapMs / 2,
  );
}

/**
 * From an alert that fills a window until the next alert, where the window makes it wait longer than the gap would. Which rule it
 * was is known from when the next one came. After the last alert nothing waits.
 */
function fullWindows(timesMs: readonly number[], { rules, minGapMs }: Policy): Teacher['full'] {
  return timesMs.slice(0, -1).flatMap((fromMs, index) => {
    const nextMs = timesMs[index + 1] ?? fromMs;
    const ends = rules.flatMap((rule) => {
      const endMs = (timesMs[index + 1 - rule.max] ?? -Infinity) + rule.perMs;
      return endMs - fromMs > minGapMs + TOLERANCE_MS ? [{ endMs, rule: ruleName(rule) }] : [];
    });
    const [closest] = ends.toSorted((a, b) => Math.abs(a.endMs - nextMs) - Math.abs(b.endMs - nextMs));
    return closest === undefined ? [] : [{ fromMs, toMs: Math.min(closest.endMs, nextMs), rule: closest.rule }];
  });
}

/** HTML or SVG that is safe to write as it is. Only `markup` makes it. */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | Markup | readonly Markup[];

/** A template of HTML or SVG: each value in it is escaped, unless it is markup itself. */
export function markup(parts: TemplateStringsArray, ...values: readonly Value[]): Markup {
  return new Markup(parts.map((part, index) => part + textOf(values[index] ?? '')).join(''));
}

function textOf(value: Value): string {
  if (value instanceof Markup) return value.text;
  return typeof value === 'object' ? value.map(({ text }) => text).join('\n') : escapeText(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Safe in an element and in a quoted attribute. Control characters become text such as `\u{1b}`. */
function escapeText(text: string): string {
  return printable(text).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}
