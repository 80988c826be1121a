import { markup, type Markup, axis, createScale, grid } from '../../demo/drawing.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { formatDuration } from '../../src/domain/time.ts';
import { POLICY } from './alternative.ts';

/** When the alerts of one recipient arrived, in milliseconds after the enqueuing; without pushpacer, and with it. */
export interface Pictured {
  readonly withoutMs: readonly number[];
  readonly withMs: readonly number[];
}

interface Colours {
  readonly text: string;
  readonly quiet: string;
  readonly rule: string;
  /** The page behind it, as the edge of a dot that lies on another. */
  readonly page: string;
  readonly without: string;
  readonly with: string;
}

/** The texts have a contrast of at least 4.5 on GitHub's page of that kind. The background is left out. */
export const COLOURS: Readonly<Record<'light' | 'dark', Colours>> = {
  light: { text: '#1f2328', quiet: '#59636e', rule: '#d1d9e0', page: '#ffffff', without: '#c2410c', with: '#0b7285' },
  dark: { text: '#f0f6fc', quiet: '#9198a1', rule: '#3d444d', page: '#0d1117', without: '#ff9258', with: '#4cc3d9' },
};

const WIDTH = 800;
const SIDE = 20;
const INNER = WIDTH - 2 * SIDE;
const RADIUS = 4;
/** Two dots closer than this stand one above the other, like coins. */
const BESIDE = 2 * RADIUS;
const ABOVE = 3;
const HEAD = 44;
const FOOT = 26;

/** Each dot is one alert. Those that arrive at about the same time are stacked, so that a burst is a tower. */
export function renderPicture({ withoutMs, withMs }: Pictured, colours: Colours): string {
  const scale = createScale(Math.max(...withoutMs, ...withMs));
  const stack = (instantsMs: readonly number[]): Dot[] => stackDots(instantsMs, (ms) => (INNER * ms) / scale.endMs);
  const [without, paced] = [stack(withoutMs), stack(withMs)];
  const [top, bottom] = [heightOf(without), Math.max(26, heightOf(paced))];
  const seconds = ((withMs.at(-1) ?? 0) / 1_000).toFixed(0);
  const burst = ((withoutMs.at(-1) ?? 0) - (withoutMs[0] ?? 0)) / 1_000;
  const height = HEAD + top + HEAD + bottom + FOOT;
  const title = `${withMs.length} alerts to one teacher, enqueued at once: without pushpacer all arrive within ${burst.toFixed(1)} seconds, with pushpacer one by one over ${seconds} seconds`;
  return markup`<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${title}" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif">
<title>${title}</title>
<style>.label{fill:${colours.quiet};font-size:12px}.grid{stroke:${colours.rule}}</style>
<svg x="${SIDE}" y="${HEAD + top + HEAD}" width="${INNER}" height="${bottom + FOOT}" overflow="visible">${grid(scale, bottom)}${axis(scale, bottom + 17)}</svg>
${panel(without, { y: 0, height: top, colour: colours.without, colours, name: 'Without pushpacer', says: 'a plain worker sends what comes, at once' })}
<text x="${SIDE + 26}" y="${HEAD + top / 2}" font-size="30" font-weight="700" fill="${colours.without}">${withoutMs.length} alerts in ${burst.toFixed(1)} s</text>
<text x="${SIDE + 27}" y="${HEAD + top / 2 + 24}" font-size="14" fill="${colours.quiet}">to one teacher. Each dot is one alert, when it arrived at the provider.</text>
${panel(paced, { y: HEAD + top, height: bottom, colour: colours.with, colours, name: 'With pushpacer', says: `the same ${withMs.length} alerts, limited to ${limitsText(POLICY)}` })}
</svg>
`.text;
}

/** `10 in any 3s, and 250ms between two` */
function limitsText({ rules, minGapMs }: Policy): string {
  const most = rules.map(({ max, perMs }) => `${max} in any ${formatDuration(perMs)}`);
  return `${most.join(' and ')}, and ${formatDuration(minGapMs)} between two`;
}

interface Dot {
  readonly x: number;
  /** How many dots are below it. */
  readonly level: number;
}

/** Each dot stands on the lowest level where it touches no other dot. */
function stackDots(instantsMs: readonly number[], xOf: (ms: number) => number): Dot[] {
  const lastOf: number[] = [];
  return instantsMs
    .toSorted((a, b) => a - b)
    .map((ms) => {
      const x = xOf(ms);
      const free = lastOf.findIndex((last) => x - last >= BESIDE);
      const level = free === -1 ? lastOf.length : free;
      lastOf[level] = x;
      return { x, level };
    });
}

function heightOf(dots: readonly Dot[]): number {
  return 2 * RADIUS + ABOVE * Math.max(0, ...dots.map(({ level }) => level)) + 2;
}

interface Panel {
  readonly y: number;
  readonly height: number;
  readonly colour: string;
  readonly colours: Colours;
  readonly name: string;
  readonly says: string;
}

function panel(dots: readonly Dot[], { y, height, colour, colours, name, says }: Panel): Markup {
  const ground = y + HEAD + height;
  const circles = dots.map(
    ({ x, level }) =>
      markup`<circle cx="${(SIDE + x).toFixed(1)}" cy="${(ground - RADIUS - 1 - level * ABOVE).toFixed(1)}" r="${RADIUS}"/>`,
  );
  return markup`<text x="${SIDE}" y="${y + 26}" font-size="15" fill="${colours.text}"><tspan font-weight="700">${name}</tspan><tspan dx="10" fill="${colours.quiet}">${says}</tspan></text>
<line x1="${SIDE}" x2="${WIDTH - SIDE}" y1="${ground}" y2="${ground}" stroke="${colours.rule}"/>
<g fill="${colour}" stroke="${colours.page}" stroke-width="0.8">${circles}</g>`;
}
