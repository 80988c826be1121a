import { html } from 'hono/html';
import type { Window } from '../../src/domain/quiet-hours.ts';
import type { Limit } from '../../src/limiter/pace.ts';
import { fromNow, span } from '../../src/terminal/text.ts';
import { count, counted, exact, type Html } from '../layout.ts';
import { ROUND_MS } from './chart.ts';

/** What is drawn about one recipient. All instants are epoch milliseconds on the limiter's clock. */
export interface Drawn {
  readonly now: number;
  /** The sent slots, oldest first. */
  readonly sent: readonly number[];
  /** The first to go first. */
  readonly reserved: readonly DrawnSlot[];
  /** The gap and the rules of the overall policy. */
  readonly limits: readonly Limit[];
  readonly blockedUntil?: number | undefined;
  /** The quiet times between two instants. */
  readonly quiet: (from: number, until: number) => readonly Window[];
}

interface DrawnSlot {
  readonly at: number;
  readonly rule: string;
}

/** How far the timeline reaches, by the value of `range` in the address. */
export const RANGES = {
  '1m': { name: '1 min', ms: 60_000 },
  '10m': { name: '10 min', ms: 600_000 },
  '1h': { name: '1 h', ms: 3_600_000 },
  '1d': { name: '1 d', ms: 86_400_000 },
  all: { name: 'all', ms: Infinity },
} as const;

export type Range = keyof typeof RANGES;

/** The shortest range that shows the next slots; if none waits, the end of the block; otherwise the last sent slot. */
export function usualRange({ now, sent, reserved, blockedUntil }: Drawn): Range {
  const next = reserved.slice(0, NEXT).at(-1)?.at ?? blockedUntil ?? sent.at(-1) ?? now;
  const ranges = Object.entries(RANGES) as [Range, { readonly ms: number }][];
  return ranges.find(([, { ms }]) => Math.abs(next - now) <= ms)?.[0] ?? 'all';
}

/** The usual range shows at least this many of the next slots. */
const NEXT = 3;

/**
 * The slots of a recipient on an axis of time with one scale, as SVG, with the gap and each window as a bar, and quiet times and
 * a block as shades. All positions are shares of the width, so texts keep their size on a narrow screen. Slots that are too
 * close together to be seen apart are one mark, so any number of slots gives at most a few hundred marks.
 */
export function timeline(drawn: Drawn, range: Range): Html {
  const { now, sent, reserved, limits, blockedUntil, quiet } = drawn;
  const bars = limits.map((limit) => barOf(limit, sent, now));
  const axis = axisOf(drawn, bars, range);
  const shades = [
    ...quiet(axis.start, axis.end).map((window) => ({ ...window, name: 'quiet' })),
    ...(blockedUntil === undefined ? [] : [{ from: now, until: blockedUntil, name: 'blocked' }]),
  ];
  const bottom = BARS_TOP + bars.length * BAR_ROW;
  const height = bottom + AXIS_HEIGHT;
  return html`<figure class="timeline">
    <svg width="100%" height="${height}" role="img" aria-label="${summary(drawn)}">
      ${shades.map((shade) => shadeOf(shade, axis))}
      <line class="base" x1="0" x2="100%" y1="${SLOTS_BOTTOM}" y2="${SLOTS_BOTTOM}" />
      <line class="base" x1="0" x2="100%" y1="${bottom}" y2="${bottom}" />
      ${ticks(axis, bars.length)} ${upright(axis.x(now), bars.length, 'now')}
      ${bars.map((bar, index) => barRow(bar, axis, BARS_TOP + index * BAR_ROW))}
      ${marks(
        sent.map((at) => ({ at })),
        axis,
        'sent',
      )}
      ${marks(reserved, axis, 'reserved')}
    </svg>
    <figcaption>
      ${[
        ...(sent.length === 0 ? [] : [['sent', 'sent']]),
        ...(reserved.length === 0 ? [] : [['reserved', 'waits']]),
        ...(bars.every(isFull) ? [] : [['open', 'window of a limit']]),
        ...(bars.some(isFull) ? [['full', 'limit is full']] : []),
        ...[...new Set(shades.map(({ name }) => name))].map((name) => [name, name]),
      ].map(([name, text]) => html`<span><i class="key ${name ?? ''}"></i>${text}</span>`)}
    </figcaption>
    ${beyond(drawn, axis)}
  </figure>`;
}

/** Says what the range leaves out, so that nobody thinks that the drawing shows everything. */
function beyond({ now, sent, reserved }: Drawn, { start, end }: Axis): Html {
  const [before, after] = [sent.filter((at) => at < start).length, reserved.filter(({ at }) => at > end).length];
  const last = reserved.at(-1);
  const parts = [
    ...(after === 0 || last === undefined
      ? []
      : [`${count(after)} more wait, the last one goes ${fromNow(now, last.at)}`]),
    ...(before === 0 ? [] : [`${counted(before, 'alert was', 'alerts were')} sent earlier`]),
  ];
  return parts.length === 0 ? html`` : html`<p class="hint">Beyond this range: ${parts.join('; ')}.</p>`;
}

const SLOTS_BOTTOM = 46;
const BARS_TOP = SLOTS_BOTTOM + 8;
const MARK_HEIGHT = 18;
const MARK_WIDTH = 3;
/** The height of a bar's row, and of the upper part of it, which has the text. */
const [BAR_ROW, TEXT_ROW] = [30, 16];
const AXIS_HEIGHT = 24;
/** How far vertical lines go on below the axis. */
const TICK = 4;

/** What a limit counts now, as a bar: if the limit is full, the time until it has room again; else the window that ends now. */
interface Bar extends Limit {
  readonly from: number;
  readonly until: number;
  readonly used: number;
}

function barOf(limit: Limit, sent: readonly number[], now: number): Bar {
  const { max, perMs } = limit;
  const used = sent.filter((at) => at > now - perMs).length;
  const oldest = used >= max ? sent.at(-max) : undefined;
  // A full limit has room again when the `max`-th newest slot has left its window.
  return oldest === undefined
    ? { ...limit, used, from: now - perMs, until: now }
    : { ...limit, used, from: oldest, until: oldest + perMs };
}

function isFull({ used, max }: Pick<Bar, 'used' | 'max'>): boolean {
  return used >= max;
}

interface Axis {
  readonly now: number;
  readonly start: number;
  readonly end: number;
  /**
   * The place of an instant, in percent of the width. An instant outside of the axis gets a place just beyond the edge, where the
   * drawing is cut off.
   */
  readonly x: (at: number) => number;
}

/** The shortest future of an axis: an axis without length cannot be drawn. */
const LEAST_MS = 5_000;
/** The past has at least this share of the future's width, so that `now` does not stand at the edge. */
const PAST_SHARE = 1 / 16;
/** What goes on beyond the edge is drawn up to this share of the width beyond the edge. */
const BEYOND = 0.02;

/** The past goes back as far as slots still count in a limit: what was sent earlier is not known. */
function axisOf({ now, sent, reserved, blockedUntil, limits }: Drawn, bars: readonly Bar[], range: Range): Axis {
  const { ms } = RANGES[range];
  const full = bars.filter(isFull).map(({ until }) => until);
  const last = Math.max(now + LEAST_MS, reserved.at(-1)?.at ?? now, blockedUntil ?? now, ...full);
  const future = ms === Infinity ? (last - now) * 1.02 : ms;
  const counted = ms === Infinity ? now - (sent[0] ?? now) : Math.max(0, ...limits.map(({ perMs }) => perMs));
  const past = Math.min(ms, Math.max(counted, future * PAST_SHARE));
  const [start, end] = [now - past, now + future];
  const x = (at: number): number => percent(Math.min(1 + BEYOND, Math.max(-BEYOND, (at - start) / (end - start))));
  return { now, start, end, x };
}

function percent(share: number): number {
  return Math.round(share * 10_000) / 100;
}

function shadeOf({ from, until, name }: Window & { readonly name: string }, { x, now }: Axis): Html {
  const [left, right] = [x(from), x(until)];
  const width = percent((right - left) / 100);
  const label = width > 12 ? html`<text class="shade" x="${Math.max(0, left)}%" dx="4" y="11">${name}</text>` : '';
  return html`<g>
    <rect class="${name}" x="${left}%" y="0" width="${width}%" height="${SLOTS_BOTTOM}">
      <title>${name} until ${exact(until)} (${fromNow(now, until)})</title></rect
    >${label}
  </g>`;
}

function barRow(bar: Bar, { x, now }: Axis, top: number): Html {
  const { name, max, used, from, until } = bar;
  const full = isFull(bar);
  const [left, right] = [x(from), x(until)];
  const text = full ? `room again ${fromNow(now, until)}` : max === 1 ? 'free' : `${count(used)} of ${count(max)} used`;
  return html`<g>
    <text x="0" y="${top + 11}"><tspan class="rule">${name}</tspan> ${text}</text>
    <rect class="track" x="0" y="${top + 17}" width="100%" height="6" rx="3" />
    <rect
      class="${full ? 'full' : 'open'}"
      x="${left}%"
      y="${top + 17}"
      width="${percent(Math.max(0.4, right - left) / 100)}%"
      height="6"
      rx="3"
    >
      <title>${name}: ${count(used)} of ${count(max)}, ${full ? `full until ${exact(until)}` : 'room'}</title>
    </rect>
  </g>`;
}

/** A slot that is nearer than this to the first slot of a mark, in percent of the width, belongs to that mark. */
const APART = 0.5;

interface Mark {
  readonly place: number;
  readonly at: number;
  readonly rules: Set<string>;
  slots: number;
  last: number;
}

/**
 * A mark stands where its first slot is, so that a slot is never drawn before the end of a block. No mark has slots of both sides
 * of now.
 */
function marks(slots: readonly (Pick<DrawnSlot, 'at'> & { readonly rule?: string })[], axis: Axis, kind: string): Html {
  const found: Mark[] = [];
  for (const { at, rule } of slots) {
    if (at < axis.start || at > axis.end) continue;
    const place = axis.x(at);
    let mark = found.at(-1);
    if (mark === undefined || place - mark.place >= APART || mark.at < axis.now !== at < axis.now) {
      mark = { place, at, last: at, slots: 0, rules: new Set() };
      found.push(mark);
    }
    mark.slots += 1;
    mark.last = at;
    if (rule !== undefined) mark.rules.add(rule);
  }
  return html`${found.map((mark) => markOf(mark, axis.now, kind))}`;
}

function markOf({ place, at, last, slots, rules }: Mark, now: number, kind: string): Html {
  const height = MARK_HEIGHT + Math.min(12, 4 * Math.log2(slots));
  const by = rules.size === 0 ? '' : ` by ${[...rules].slice(0, 3).join(', ')}`;
  const to = last === at ? '' : ` to ${exact(last)}`;
  return html`<rect
    class="mark ${kind}"
    x="${place}%"
    y="${SLOTS_BOTTOM - height}"
    width="${MARK_WIDTH}"
    height="${height}"
    rx="1.5"
  >
    <title>${counted(slots, 'slot')} ${kind}${by}, ${exact(at)}${to} (${fromNow(now, at)})</title>
  </rect>`;
}

/** The most distances between marks on the axis: so many labels have room on a narrow screen. */
const MOST_TICKS = 5;

/** Marks of the time from now, at round distances: `−30s`, `now`, `+30s`. */
function ticks({ start, end, now, x }: Axis, bars: number): Html {
  const bottom = BARS_TOP + bars * BAR_ROW;
  const step = ROUND_MS.find((ms) => ms * MOST_TICKS >= end - start) ?? end - start;
  const first = Math.ceil((start - now) / step);
  const many = Math.floor((end - now) / step) - first + 1;
  return html`${Array.from({ length: many }, (_, place) => {
    const ms = (first + place) * step;
    const left = x(now + ms);
    const anchor = left < 4 ? 'start' : left > 96 ? 'end' : 'middle';
    return html`${upright(left, bars, 'base')}
      <text class="tick" x="${left}%" y="${bottom + 17}" text-anchor="${anchor}">
        ${tickText(ms)}<title>${exact(now + ms)}</title>
      </text>`;
  })}`;
}

/** A vertical line through the slots and the bars, with gaps where the texts of the bars stand. */
function upright(left: number, bars: number, kind: string): Html {
  const dashes = Array.from({ length: bars }, (_, bar) => [
    TEXT_ROW,
    BAR_ROW - TEXT_ROW + (bar === bars - 1 ? TICK : 0),
  ]);
  const line = html`x1="${left}%" x2="${left}%" y2="${BARS_TOP + bars * BAR_ROW + TICK}"`;
  return html`<line
    class="${kind}"
    ${line}
    stroke-dasharray="${[BARS_TOP + (bars === 0 ? TICK : 0), ...dashes.flat()].join(' ')}"
  />`;
}

/** `−58s`, `now`, `+1m 12s`: short, so that they fit on a narrow screen. */
function tickText(ms: number): string {
  return ms === 0 ? 'now' : `${ms < 0 ? '−' : '+'}${span(Math.abs(ms))}`;
}

/** The drawing in words, for users who cannot see it; the table below the drawing has every slot. */
function summary({ now, sent, reserved, blockedUntil }: Drawn): string {
  const last = reserved.at(-1);
  return [
    `${counted(sent.length, 'slot')} sent`,
    last === undefined
      ? 'none waits'
      : `${counted(reserved.length, 'notification')} waiting, the last one goes in ${span(Math.max(0, last.at - now))}`,
    ...(blockedUntil === undefined ? [] : [`blocked for ${span(blockedUntil - now)}`]),
  ].join('; ');
}
