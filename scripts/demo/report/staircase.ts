import { count } from './lane.ts';
import type { Teacher } from './data.ts';
import { markup, Markup } from './markup.ts';
import { axis, grid, seconds, type Scale } from './scale.ts';

const HEIGHT = 220;
const LABELS = 20;
/** Room above the highest line, as a share of the height. */
const HEADROOM = 0.12;

/** How many of one teacher's notifications were enqueued, how many alerts had arrived, and how many could have, at each instant. */
export function staircase({ recipientId, enqueued, alerts, idealMs }: Teacher, scale: Scale): Markup {
  const most = Math.max(1, enqueued) * (1 + HEADROOM);
  const arrivedMs = alerts.map(({ atMs }) => atMs);
  const y = (number: number): number => HEIGHT * (1 - number / most);
  const arrived = stepsOf(arrivedMs, scale.endMs, most);
  const last = arrivedMs.at(-1) ?? 0;
  const text = `${recipientId}: ${enqueued} enqueued at 0 s; ${count(alerts.length, 'alert')} arrived, the last at ${seconds(last)}, ideal ${seconds(idealMs.at(-1) ?? 0)}`;
  return markup`<svg class="drawing tall" height="${HEIGHT + LABELS}" role="img" aria-label="${text}">
<title>${text}</title>
<rect class="ground" width="100%" height="${HEIGHT}"/>
${grid(scale, HEIGHT)}
<line class="enqueued-line" x1="0" x2="100%" y1="${y(enqueued)}" y2="${y(enqueued)}"/>
<svg width="100%" height="${HEIGHT}" viewBox="0 0 ${scale.endMs} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
<path class="arrived-area" d="${arrived}V${HEIGHT}H0Z"/>
<path class="ideal-line" d="${stepsOf(idealMs, scale.endMs, most)}"/>
<path class="arrived-line" d="${arrived}"/>
</svg>
<text class="label strong" x="100%" dx="-6" y="${y(enqueued) - 6}" text-anchor="end">${enqueued} enqueued at once, at 0 s</text>
${axis(scale, HEIGHT + 15)}
</svg>`;
}

/** A step up at each instant, to the right end of the drawing. */
function stepsOf(instantsMs: readonly number[], endMs: number, most: number): Markup {
  const y = (number: number): string => (HEIGHT * (1 - number / most)).toFixed(1);
  const steps = instantsMs.map((ms, index) => `H${ms.toFixed(0)}V${y(index + 1)}`);
  return new Markup(`M0 ${y(0)}${steps.join('')}H${endMs}`);
}
