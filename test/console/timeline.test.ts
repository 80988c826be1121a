import { describe, expect, it } from 'vitest';
import { RANGES, timeline, usualRange, type Drawn, type Range } from '../../console/pages/timeline.ts';

const NOW = Date.UTC(2026, 10, 21, 12);
const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];
const LIMITS = [
  { name: '5/1m', max: 5, perMs: MINUTE },
  { name: '30/1h', max: 30, perMs: HOUR },
];

/** So much after now, each. */
function recipient({ sent = [], waits = [], ...more }: { sent?: number[]; waits?: number[] } & Partial<Drawn>): Drawn {
  const reserved = waits.map((ms) => ({ at: NOW + ms, rule: '5/1m' }));
  return { now: NOW, limits: LIMITS, quiet: () => [], sent: sent.map((ms) => NOW + ms), reserved, ...more };
}

async function draw(drawn: Drawn, range: Range) {
  const text = (await timeline(drawn, range)).replaceAll(/\s+/g, ' ');
  const marksOf = (kind: string) =>
    [...text.matchAll(new RegExp(`class="mark ${kind}" x="([\\d.]+)%"`, 'g'))].map(([, x]) => Number(x));
  const bars = [...text.matchAll(/class="(?:open|full)" x="([-\d.]+)%" y="\d+" width="([\d.]+)%"/g)];
  const ticks = [...text.matchAll(/class="tick" x="([\d.]+)%"[^>]*> ([^<]*)</g)];
  return {
    text,
    sent: marksOf('sent'),
    reserved: marksOf('reserved'),
    bars: bars.map(([, x, width]) => ({ x: Number(x), width: Number(width) })),
    ticks: ticks.map(([, x, name = '']) => [name, Number(x)] as const),
  };
}

describe('the timeline of a recipient', () => {
  it.each(Object.keys(RANGES) as Range[])('has one scale on both sides of now: %s', async (range) => {
    const slots = Array.from({ length: 40 }, (_, place) => place * 2 * HOUR + 5 * SECOND);
    const { ticks, text } = await draw(recipient({ sent: [-HOUR, -MINUTE, -SECOND], waits: slots }), range);
    expect(ticks.map(([name]) => name)).toContain('now');
    expect(ticks.length).toBeGreaterThan(2);
    expect(ticks.length).toBeLessThan(8);
    const gaps = ticks.slice(1).map(([, x], place) => x - (ticks[place]?.[1] ?? 0));
    for (const gap of gaps) expect(gap).toBeCloseTo(gaps[0] ?? 0, 1);
    expect(Math.min(...gaps)).toBeGreaterThan(14);
    expect(text).not.toMatch(/NaN|Infinity/);
  });

  it('draws a window of an hour sixty times as long as one of a minute', async () => {
    const { bars } = await draw(recipient({ sent: [-HOUR + SECOND, -2 * SECOND], waits: [HOUR] }), '1h');
    const [minute, hour] = bars;
    expect(hour?.width).toBeGreaterThan(45);
    expect((hour?.width ?? 0) / (minute?.width ?? 0)).toBeCloseTo(60, -1);
  });

  it('draws a window that begins before the range from its edge, and says what lies beyond', async () => {
    const waits = [2, 3, 30, 90].map((minutes) => minutes * MINUTE);
    const { bars, text, sent, reserved } = await draw(recipient({ sent: [-50 * MINUTE, -SECOND], waits }), '10m');
    expect(bars[1]?.x).toBeLessThan(0);
    expect([sent.length, reserved.length]).toEqual([1, 2]);
    expect(text).toContain('Beyond this range: 2 more wait, the last one goes in 1h 30m; 1 alert was sent earlier.');
    expect((await draw(recipient({ sent: [-SECOND], waits: [MINUTE] }), '10m')).text).not.toContain('Beyond');
  });

  it('draws no sent slot after now, and none that waits before the end of the block', async () => {
    const drawn = recipient({ sent: [-MINUTE], waits: [2 * HOUR + SECOND], blockedUntil: NOW + 2 * HOUR });
    const { sent, reserved, ticks, text } = await draw(drawn, '1d');
    const now = ticks.find(([name]) => name === 'now')?.[1] ?? 0;
    const [, left, width] = /class="blocked" x="([\d.]+)%" y="0" width="([\d.]+)%"/.exec(text) ?? [];
    expect(sent[0]).toBeLessThanOrEqual(now);
    expect(reserved[0]).toBeCloseTo(Number(left) + Number(width), 1);
  });

  it('draws slots that are too close to be seen apart as one mark', async () => {
    const { reserved, text } = await draw(recipient({ waits: [10_000, 10_100, 10_200, 20_000] }), '1m');
    expect(reserved).toHaveLength(2);
    expect(text).toContain('3 slots reserved by 5/1m');
  });

  it('shows everything in the range all, however many there are', async () => {
    const waits = Array.from({ length: 5_000 }, (_, place) => place * 2 * MINUTE);
    const { text, reserved } = await draw(recipient({ sent: [-30 * MINUTE], waits }), 'all');
    expect(text).not.toContain('Beyond');
    expect(reserved.length).toBeGreaterThan(100);
    expect(reserved.length).toBeLessThan(202);
    expect(Math.max(...reserved)).toBeLessThanOrEqual(100);
    expect((await draw(recipient({ blockedUntil: NOW + 9 * DAY }), 'all')).ticks.at(-1)?.[0]).toMatch(/^\+[89]d$/);
  });

  it.each<[Range, Parameters<typeof recipient>[0]]>([
    ['1m', {}],
    ['1h', { sent: [-HOUR + SECOND, -20 * MINUTE] }],
    ['1m', { waits: [3 * SECOND, 6 * SECOND, 9 * SECOND, 2 * HOUR] }],
    ['10m', { waits: [3 * SECOND, 63 * SECOND, 123 * SECOND] }],
    ['1d', { sent: [-SECOND], blockedUntil: NOW + 2 * HOUR }],
    ['all', { waits: [3 * DAY] }],
  ])('begins with %s, where the next slots are: %j', (range, given) => {
    expect(usualRange(recipient(given))).toBe(range);
  });
});
