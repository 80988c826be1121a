import type { Teacher } from './data.ts';
import { markup, type Markup } from './markup.ts';
import { axis, grid, seconds, type Scale } from './scale.ts';

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
export function factsOf({ alerts, leastGapMs, deadLetters, expired }: Teacher): string {
  const last = alerts.at(-1);
  return [
    alerts.length === 0 ? 'no alert' : count(alerts.length, 'alert'),
    ...(leastGapMs === undefined ? [] : [`least gap ${Math.round(leastGapMs)} ms`]),
    ...(last === undefined ? [] : [`last after ${(last.atMs / 1_000).toFixed(1)} s`]),
    ...(deadLetters === 0 ? [] : [count(deadLetters, 'dead letter')]),
    ...(expired === 0 ? [] : [`${expired} expired`]),
  ].join(', ');
}

export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
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
  return markup`<path class="enqueued" d="M0 0h9l-9 9z"><title>${count(enqueued, 'notification')} enqueued at 0 s</title></path>`;
}
