import { html } from 'hono/html';
import type { Window } from '../../src/domain/quiet-hours.ts';
import type { Limit } from '../../src/limiter/pace.ts';
import { fromNow, span } from '../../src/terminal/text.ts';
import { count, counted, exact, type Html } from '../layout.ts';

/** What is drawn about one recipient. All instants are epoch milliseconds on the limiter's clock. */
export interface Drawn {
  readonly now: number;
  /** The sent slots, oldest first. */
  readonly sent: readonly number[];
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

/**
 * The slots of a recipient on an axis of time, as SVG: from the oldest sent slot that counts to the last reserved one, with the
 * gap and each window as a bar, and quiet times and a block as shades. All positions are shares of the width, so texts keep
 * their size on a narrow screen. Slots that are too close together to be seen apart are one mark, so any number of slots gives
 * at most a few hundred marks.
 */
export function timeline(drawn: Drawn): Html {
  const { now, sent, reserved, limits, blockedUntil, quiet } = drawn;
  const bars = limits.map((limit) => barOf(limit, sent, now));
  const axis = axisOf(drawn, bars);
  const shades = [
    ...quiet(axis.start, axis.end).map((window) => ({ ...window, name: 'quiet' })),
    ...(blockedUntil === undefined ? [] : [{ from: now, until: blockedUntil, name: 'blocked' }]),
  ];
  const barsTop = SLOTS_BOTTOM + 8;
  const bottom = barsTop + bars.length * BAR_ROW;
  const height = bottom + AXIS_HEIGHT;
  return html`<figure class="timeline">
    <svg width="100%" height="${height}" role="img" aria-label="${summary(drawn)}">
      ${shades.map((shade) => shadeOf(shade, axis, bottom))}
      <line class="base" x1="0" x2="100%" y1="${SLOTS_BOTTOM}" y2="${SLOTS_BOTTOM}" />
      <line class="base" x1="0" x2="100%" y1="${bottom}" y2="${bottom}" />
      <line class="now" x1="${axis.x(now)}%" x2="${axis.x(now)}%" y1="0" y2="${bottom + 4}" />
      ${bars.map((bar, index) => barRow(bar, axis, barsTop + index * BAR_ROW))}
      ${marks(
        sent.map((at) => ({ at })),
        axis,
        'sent',
      )}
      ${marks(reserved, axis, 'reserved')} ${ticks(axis, bottom)}
    </svg>
    <figcaption>
      ${[
        ['sent', 'sent'],
        ['reserved', 'waits'],
        ['open', 'counted by a limit'],
        ['full', 'limit is full'],
        ['quiet', 'quiet'],
        ['blocked', 'blocked'],
      ].map(([name, text]) => html`<span><i class="key ${name ?? ''}"></i>${text}</span>`)}
    </figcaption>
  </figure>`;
}

const SLOTS_BOTTOM = 46;
const MARK_HEIGHT = 18;
const MARK_WIDTH = 3;
const BAR_ROW = 30;
const AXIS_HEIGHT = 24;

/** What a limit counts now: if it is full, until when it has no room; else the window that ends now. */
interface Bar extends Limit {
  readonly from: number;
  readonly until: number;
  readonly used: number;
}

function barOf(limit: Limit, sent: readonly number[], now: number): Bar {
  const { max, perMs } = limit;
  const used = sent.filter((at) => at > now - perMs).length;
  const oldest = used >= max ? sent.at(-max) : undefined;
  // If it is full: from the oldest slot that counts, until that slot no longer counts.
  return oldest === undefined
    ? { ...limit, used, from: now - perMs, until: now }
    : { ...limit, used, from: oldest, until: oldest + perMs };
}

interface Axis {
  readonly now: number;
  readonly start: number;
  readonly end: number;
  /** The place of an instant: percent of the width. Instants outside of the axis are at its edge. */
  readonly x: (at: number) => number;
}

/** The shortest past and future of an axis: an axis without length cannot be drawn. */
const LEAST_MS = 5_000;
/** Past and future each get at least this share of the width. Above that, both have the same scale. */
const LEAST_SHARE = 0.25;

function axisOf({ now, sent, reserved, blockedUntil }: Drawn, bars: readonly Bar[]): Axis {
  const last = reserved.at(-1)?.at ?? Math.min(blockedUntil ?? now, now + 86_400_000);
  const isFull = ({ used, max }: Bar): boolean => used >= max;
  // If few notifications wait, a full window may end far ahead of them: its end is cut off then.
  const ends = bars.filter(isFull).map(({ until }) => Math.min(until, Math.max(last, now + 60_000)));
  const oldest = sent[0] ?? now - LEAST_MS;
  const past = Math.max(LEAST_MS, now - oldest);
  const future = Math.max(LEAST_MS, past / 4, Math.max(last, ...ends) - now) * 1.02;
  const share = Math.min(1 - LEAST_SHARE, Math.max(LEAST_SHARE, past / (past + future)));
  const at = (instant: number): number =>
    instant < now ? share * (1 - (now - instant) / past) : share + (1 - share) * ((instant - now) / future);
  const start = now - past;
  return { now, start, end: now + future, x: (instant) => percent(Math.min(1, Math.max(0, at(instant)))) };
}

function percent(share: number): number {
  return Math.round(share * 10_000) / 100;
}

function shadeOf({ from, until, name }: Window & { readonly name: string }, { x, now }: Axis, bottom: number): Html {
  const [left, right] = [x(from), x(until)];
  const width = percent((right - left) / 100);
  const label = width > 12 ? html`<text class="shade" x="${left}%" dx="4" y="11">${name}</text>` : '';
  return html`<g>
    <rect class="${name}" x="${left}%" y="0" width="${width}%" height="${bottom}">
      <title>${name} until ${exact(until)} (${fromNow(now, until)})</title></rect
    >${label}
  </g>`;
}

function barRow(bar: Bar, { x, now }: Axis, top: number): Html {
  const { name, max, used, from, until } = bar;
  const isFull = used >= max;
  const [left, right] = [x(from), x(until)];
  const text = isFull
    ? `room again ${fromNow(now, until)}`
    : max === 1
      ? 'free'
      : `${count(used)} of ${count(max)} used`;
  return html`<g>
    <text x="0" y="${top + 11}"><tspan class="rule">${name}</tspan> ${text}</text>
    <rect class="track" x="0" y="${top + 17}" width="100%" height="6" rx="3" />
    <rect
      class="${isFull ? 'full' : 'open'}"
      x="${left}%"
      y="${top + 17}"
      width="${percent(Math.max(0.4, right - left) / 100)}%"
      height="6"
      rx="3"
    >
      <title>${name}: ${count(used)} of ${count(max)}, ${isFull ? `full until ${exact(until)}` : 'room'}</title>
    </rect>
  </g>`;
}

/** Marks are placed in steps of this many percent of the width. */
const STEP = 0.5;

interface Mark {
  readonly at: number;
  readonly rules: Set<string>;
  slots: number;
  last: number;
}

function marks(slots: readonly (Pick<DrawnSlot, 'at'> & { readonly rule?: string })[], axis: Axis, kind: string): Html {
  const bins = new Map<number, Mark>();
  for (const { at, rule } of slots) {
    const place = Math.round(axis.x(at) / STEP) * STEP;
    const mark = bins.get(place) ?? { at, last: at, slots: 0, rules: new Set<string>() };
    bins.set(place, mark);
    mark.slots += 1;
    mark.last = at;
    if (rule !== undefined) mark.rules.add(rule);
  }
  return html`${[...bins].map(([place, mark]) => markOf(place, mark, axis.now, kind))}`;
}

function markOf(place: number, { at, last, slots, rules }: Mark, now: number, kind: string): Html {
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

function ticks({ start, end, now, x }: Axis, bottom: number): Html {
  const share = x(now);
  const label = (at: number, anchor: string, kind = ''): Html =>
    html`<text class="tick ${kind}" x="${x(at)}%" y="${bottom + 17}" text-anchor="${anchor}">
      ${tickText(at - now)}<title>${exact(at)}</title>
    </text>`;
  return html`${[
    label(start, 'start'),
    ...(share > 45 ? [label((start + now) / 2, 'middle', 'between')] : []),
    label(now, 'middle'),
    ...(share < 55 ? [label((now + end) / 2, 'middle', 'between')] : []),
    label(end, 'end'),
  ]}`;
}

/** `−58s`, `now`, `+1m 12s`: short, so that they fit on a narrow screen. */
function tickText(ms: number): string {
  const whole = Math.abs(ms) < 10_000 ? Math.abs(ms) : Math.round(Math.abs(ms) / 1_000) * 1_000;
  return ms === 0 ? 'now' : `${ms < 0 ? '−' : '+'}${span(whole)}`;
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
