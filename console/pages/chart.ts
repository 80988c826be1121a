import { html } from 'hono/html';
import { span } from '../../src/terminal/text.ts';
import { count, exact, type Html } from '../layout.ts';

/** What the lines of a chart measure. */
export interface Unit {
  /** The text after the title: `notifications per second`. */
  readonly name: string;
  /** A value with its unit: `5.4/s`. */
  readonly write: (value: number) => string;
  /** How to write a mark of the vertical axis, if not as `write` does. */
  readonly mark?: (value: number) => string;
  /** The distances that two marks of the vertical axis may have, the shortest first. */
  readonly steps: readonly number[];
  /** The end of the axis if all values are 0. */
  readonly least: number;
}

export interface Line {
  readonly name: string;
  /** One value for each instant; null if there was nothing to measure. */
  readonly values: readonly (number | null)[];
}

export interface Chart {
  readonly title: string;
  readonly unit: Unit;
  readonly lines: readonly Line[];
  /** The text if no line has a value. */
  readonly empty: string;
}

const DECIMALS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];
/** Round durations, the shortest first: the distances between marks of time. Milliseconds. */
export const ROUND_MS: readonly number[] = [
  ...DECIMALS.filter((ms) => ms < SECOND),
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...DECIMALS.map((days) => days * DAY),
];

export const PER_SECOND: Unit = {
  name: 'notifications per second',
  write: (value) => `${value < 10 ? Math.round(value * 10) / 10 : count(Math.round(value))}/s`,
  steps: [0.1, 0.2, 0.5, ...DECIMALS],
  least: 1,
};
export const NOTIFICATIONS: Unit = { name: 'notifications', write: count, steps: DECIMALS, least: 1 };
/** For values in milliseconds. */
export const DURATION: Unit = {
  name: 'duration',
  write: (ms) => (ms === 0 ? '0s' : span(ms)),
  steps: ROUND_MS,
  least: SECOND,
};

/** The shortest and the longest time that a chart shows, in milliseconds. */
const [LEAST_MS, MOST_MS] = [5 * MINUTE, HOUR];
/** A value is taken every ten seconds. After a longer pause, the line is broken. */
const [EVERY_MS, PAUSE_MS] = [10_000, 25_000];
/** Heights in pixels. WIDTH is only a number of units: the drawing is stretched to the width of the page. */
const [WIDTH, HEIGHT, AXIS_HEIGHT] = [1_000, 120, 22];
/** The most distances between marks: on the vertical axis, and on the time axis. */
const [MOST_UP, MOST_ACROSS] = [4, 5];
/** The time is divided into this many parts at most, each with a text on hover. */
const MOST_PARTS = 60;

/**
 * Lines over time, as SVG that is as wide as its place. The labels of the vertical axis are HTML beside the SVG, so they have
 * all the room that they need.
 *
 * @param times epoch milliseconds, the oldest first; those of the last hour are drawn
 */
export function lineChart({ title, unit, lines, empty }: Chart, times: readonly number[]): Html {
  const end = times.at(-1) ?? 0;
  const ofHour = times.filter((at) => at > end - MOST_MS);
  const left = times.length - ofHour.length;
  const shown = lines.map(({ name, values }) => ({ name, values: values.slice(left) }));
  const all = shown.flatMap(({ values }) => values.filter((value) => value !== null));
  const axis = { start: Math.min(ofHour[0] ?? end, end - LEAST_MS), end };
  const { top, marks } = scaleOf(Math.max(0, ...all), unit);
  const mark = unit.mark ?? unit.write;
  const y = (value: number): number => round(HEIGHT * (1 - value / top));
  const said = shown.map(({ name, values }) => ({ name, text: latestText(values, unit) }));
  const label = all.length === 0 ? empty : said.map(({ name, text }) => `${name} ${text}`).join('; ');
  return html`<figure class="chart">
    <figcaption><strong>${title}</strong> ${unit.name}</figcaption>
    <div class="plot">
      <div class="marks" aria-hidden="true">${marks.map((each) => html`<span>${mark(each)}</span>`)}</div>
      <svg width="100%" height="${HEIGHT + AXIS_HEIGHT}" role="img" aria-label="${title}: ${label}">
        ${marks.map((each) => html`<line class="${each === 0 ? 'base' : 'grid'}" x2="100%" y1="${y(each)}" y2="${y(each)}" />`)}
        ${times.length === 0 ? '' : clockMarks(axis)}
        <svg width="100%" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none">
          ${shown.map(({ values }, index) => lineOf(values, index, ofHour, axis, y))}
        </svg>
        ${
          all.length === 0
            ? html`<text x="50%" y="${HEIGHT / 2}" text-anchor="middle">${empty}</text>`
            : parts(shown, ofHour, axis, unit)
        }
      </svg>
    </div>
    <ul class="key-of">
      ${said.map(({ name, text }, index) => html`<li><i class="key line-${index}"></i>${name} ${text}</li>`)}
    </ul>
  </figure>`;
}

/** The marks of the vertical axis, the highest first. */
function scaleOf(most: number, { steps, least }: Unit): { readonly top: number; readonly marks: readonly number[] } {
  const reach = most === 0 ? least : most;
  const step = steps.find((each) => each * MOST_UP >= reach) ?? reach;
  const many = Math.ceil(reach / step);
  return { top: many * step, marks: Array.from({ length: many + 1 }, (_, place) => (many - place) * step) };
}

/** What an axis of time shows. Epoch milliseconds. */
interface Axis {
  readonly start: number;
  readonly end: number;
}

function shareOf(at: number, { start, end }: Axis): number {
  return (at - start) / (end - start);
}

/** The times of day, far enough from each other, and from `now`, for a narrow screen. */
function clockMarks(axis: Axis): Html {
  const step = ROUND_MS.find((each) => each >= MINUTE && each * MOST_ACROSS >= axis.end - axis.start) ?? HOUR;
  const first = Math.ceil(axis.start / step) * step;
  const all = Array.from({ length: MOST_ACROSS + 1 }, (_, place) => first + place * step);
  const shown = all.filter((at) => shareOf(at, axis) > 0.03 && shareOf(at, axis) < 0.8);
  const label = (place: number, text: string, anchor: string): Html =>
    html`<line class="base" x1="${place}%" x2="${place}%" y1="${HEIGHT}" y2="${HEIGHT + 4}" />
      <text x="${place}%" y="${HEIGHT + 18}" text-anchor="${anchor}">${text}</text>`;
  return html`${shown.map((at) => label(round(100 * shareOf(at, axis)), `${exact(at).slice(11, 16)}Z`, 'middle'))}
  ${label(100, 'now', 'end')}`;
}

/** A line, broken where there is no value. A value without a neighbour is a dot. */
function lineOf(
  values: readonly (number | null)[],
  index: number,
  times: readonly number[],
  axis: Axis,
  y: (value: number) => number,
): Html {
  let [line, dots] = ['', ''];
  let piece: string[] = [];
  const end = (): void => {
    if (piece.length > 1) line += `M${piece.join('L')}`;
    else if (piece[0] !== undefined) dots += `M${piece[0]}h0`;
    piece = [];
  };
  for (const [place, at] of times.entries()) {
    const value = values[place] ?? null;
    if (value === null || at - (times[place - 1] ?? at) > PAUSE_MS) end();
    if (value !== null) piece.push(`${round(WIDTH * shareOf(at, axis))} ${y(value)}`);
  }
  end();
  return html`<path class="line line-${index}" d="${line}" /><path class="dots line-${index}" d="${dots}" />`;
}

/** Parts of the time, each with its values on hover. */
function parts(lines: readonly Line[], times: readonly number[], axis: Axis, unit: Unit): Html {
  const size = Math.ceil(times.length / MOST_PARTS);
  const firsts = times.flatMap((at, place) => (place % size === 0 ? [[place, at] as const] : []));
  return html`${firsts.map(([place, first]) => {
    const before = Math.max(times[place - 1] ?? axis.start, first - EVERY_MS, axis.start);
    const last = times[Math.min(place + size, times.length) - 1] ?? first;
    const said = lines.flatMap(({ name, values }) => {
      const highest = highestOf(values.slice(place, place + size));
      return highest === undefined ? [] : [`${name} ${unit.write(highest)}`];
    });
    const when = first === last ? clock(first) : `${clock(first)} to ${clock(last)}, highest`;
    const [x, width] = [round(100 * shareOf(before, axis)), round(100 * shareOf(last - before + axis.start, axis))];
    return html`<rect class="part" x="${x}%" width="${width}%" height="${HEIGHT}">
      <title>${when}: ${said.length === 0 ? 'none' : said.join(', ')}</title>
    </rect>`;
  })}`;
}

/** `5.4/s, highest 21/s`: the latest value, and the highest value if it is another one. */
function latestText(values: readonly (number | null)[], unit: Unit): string {
  const said = [values.findLast((value) => value !== null), highestOf(values)].flatMap((value) =>
    value == null ? [] : [unit.write(value)],
  );
  return [...new Set(said)].join(', highest ');
}

function highestOf(values: readonly (number | null)[]): number | undefined {
  return values.reduce<number | undefined>(
    (most, value) => (value === null ? most : Math.max(most ?? value, value)),
    undefined,
  );
}

/** `12:31:20Z` */
function clock(at: number): string {
  return `${exact(at).slice(11, 19)}Z`;
}

/** Two decimals are enough for a place in a drawing. */
function round(value: number): number {
  return Math.round(value * 100) / 100;
}
