import { describe, expect, it } from 'vitest';
import { DURATION, lineChart, NOTIFICATIONS, PER_SECOND, type Unit } from '../../console/pages/chart.ts';

const END = Date.UTC(2026, 10, 21, 12, 7, 30);

/** A chart with one line whose values were taken every ten seconds until `END`. */
async function drawn(values: readonly (number | null)[], unit: Unit = NOTIFICATIONS, everyMs = 10_000) {
  const times = values.map((_, place) => END - (values.length - 1 - place) * everyMs);
  const chart = { title: 'Waiting', unit, empty: 'none in this time', lines: [{ name: 'waiting', values }] };
  const text = (await lineChart(chart, times)).replaceAll(/\s+/g, ' ');
  const all = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, found = '']) => found.trim());
  return {
    text,
    marks: all(/<span>([^<]*)<\/span>/g),
    clocks: all(/<text [^>]*>([^<]*)<\/text>/g),
    line: all(/class="line line-0" d="([^"]*)"/g).join(''),
    dots: all(/class="dots line-0" d="([^"]*)"/g).join(''),
    titles: all(/<title>([^<]*)<\/title>/g),
  };
}

describe('a chart', () => {
  it.each([
    [[0, 1], NOTIFICATIONS, ['1', '0']],
    [[0, 5_000], NOTIFICATIONS, ['6,000', '4,000', '2,000', '0']],
    [[0.3, 0], PER_SECOND, ['0.3/s', '0.2/s', '0.1/s', '0/s']],
    [[250, 2.5], DURATION, ['300ms', '200ms', '100ms', '0s']],
    [[90_000], DURATION, ['1m 30s', '1m', '30s', '0s']],
    [[0], DURATION, ['1s', '500ms', '0s']],
  ] as const)(
    '%j has round marks with their unit, and no more than are read at a look',
    async (values, unit, marks) => {
      expect((await drawn(values, unit)).marks).toEqual(marks);
    },
  );

  it.each([1, 2, 7, 40, 180, 360, 400])('of %i values names no minute twice, and ends with now', async (many) => {
    const { clocks, text } = await drawn(Array.from({ length: many }, (_, place) => place));
    expect(clocks.at(-1)).toBe('now');
    expect(clocks.length).toBeGreaterThan(2);
    expect(clocks.length).toBeLessThan(7);
    expect(new Set(clocks).size).toBe(clocks.length);
    for (const clock of clocks.slice(0, -1)) expect(clock).toMatch(/^1[12]:\d\dZ$/);
    expect(text).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('draws no line over a time without values, and a value that stands alone as a dot', async () => {
    const { line, dots } = await drawn([1, 1, null, 1, null, null, 1, 1]);
    expect(line.match(/M/g)).toHaveLength(2);
    expect(dots.match(/M/g)).toHaveLength(1);
    const paused = await drawn([1, 1, 1], NOTIFICATIONS, 30_000);
    expect([paused.line, paused.dots.match(/M/g)?.length]).toEqual(['', 3]);
  });

  it('says the latest and the highest value, and each value on hover, those of an hour by the minute', async () => {
    const few = await drawn([3, 8, 5]);
    expect(few.text).toContain('waiting 5, highest 8');
    expect(few.titles).toEqual(['12:07:10Z: waiting 3', '12:07:20Z: waiting 8', '12:07:30Z: waiting 5']);
    const hour = await drawn(Array.from({ length: 360 }, (_, place) => place));
    expect(hour.titles).toHaveLength(60);
    expect(hour.titles.at(-1)).toBe('12:06:40Z to 12:07:30Z, highest: waiting 359');
  });

  it('says so if there is no value, and keeps its height', async () => {
    for (const values of [[], [null, null]]) {
      const { text, line, dots, marks } = await drawn(values);
      expect(text).toContain('none in this time');
      expect(text).not.toMatch(/NaN|Infinity|–/);
      expect([line, dots, marks]).toEqual(['', '', ['1', '0']]);
    }
  });
});
