import { BLOCKED_JOBS } from './asks.ts';
import type { Middle } from './paired.ts';
import { megabytesFor100k, type Results } from './results.ts';

/** Rows of cells; the first row is the head. All but the first column stand right. */
export type Table = readonly (readonly string[])[];

/** One after the other: the targets, what each case costs, what a blocked crowd costs. */
export function tablesOf(results: Results): Table[] {
  return [targets(results), costs(results), crowds(results)];
}

export function asText(table: Table): string {
  const widths = widthsOf(table);
  return table.map((row) => row.map((cell, column) => pad(cell, column, widths)).join('  ')).join('\n');
}

export function asMarkdown([head = [], ...rows]: Table): string {
  const widths = widthsOf([head, ...rows]);
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => pad(cell, column, widths)).join(' | ')} |`;
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(head), line(rule), ...rows.map(line)].join('\n');
}

function targets({ ratios, bytes }: Results): Table {
  const than = (what: string, middle: Middle | undefined, target: number | undefined): string[][] =>
    middle === undefined ? [] : [[what, ratioOf(middle), spreadOf(middle), atLeast(middle.median, target)]];
  const megabytes = megabytesFor100k(bytes.ours);
  const rolling = bytes.rolling && bytes.ours.with10 / bytes.rolling.with10;
  return [
    ['two rules, admitted', 'measured', 'middle half', 'to reach'],
    ...than('x plain SET', ratios.set, 0.55),
    ...than('x rolling-rate-limiter', ratios.rolling, 3),
    ...than('x rate-limiter-flexible, union of two rules', ratios.flexibleUnion, 1),
    ...than('x rate-limiter-flexible, one rule', ratios.flexibleSingle, undefined),
    ...than('two windows x rate-limiter-flexible, union', ratios.windowsFlexibleUnion, undefined),
    ['100,000 recipients x 60 sends', `${megabytes.toFixed(1)} MB`, '', atMost(megabytes, 150, ' MB')],
    ...(rolling === undefined
      ? []
      : [['10 sends, bytes x rolling-rate-limiter', rolling.toFixed(2), '', atMost(rolling, 0.5, '')]]),
  ];
}

function costs({ cases }: Results): Table {
  return [
    ['128 asks in flight, one connection', 'asks/s', 'x SET', 'x ours', 'us in Redis'],
    ...cases.map(({ name, asksPerSecond, vsSet, vsOurs, microsInRedis }) => [
      name,
      Math.round(asksPerSecond).toLocaleString('en'),
      vsSet.toFixed(2),
      vsOurs.toFixed(2),
      microsInRedis.toFixed(1),
    ]),
  ];
}

function crowds({ bytes, asks }: Results): Table {
  const row = (name: string, key: 'ours' | 'rolling' | 'flexible'): string[][] => {
    const [size, count] = [bytes[key], asks[key]];
    if (size === undefined || count === undefined) return [];
    const sizes = [size.with10, size.with60].map((value) => Math.round(value));
    const cells = [...sizes, ...BLOCKED_JOBS.map((jobs) => count[jobs])];
    return [[name, ...cells.map((value) => value.toLocaleString('en'))]];
  };
  return [
    ['', 'bytes, 10 sends', 'bytes, 60 sends', ...BLOCKED_JOBS.map((jobs) => `asks of ${jobs} blocked`)],
    ...row('pushpacer', 'ours'),
    ...row('rolling-rate-limiter', 'rolling'),
    ...row('rate-limiter-flexible', 'flexible'),
    ['at most', '', '', ...BLOCKED_JOBS.map((jobs) => (2 * jobs + 10).toLocaleString('en'))],
  ];
}

function ratioOf({ median }: Middle): string {
  return median.toFixed(2);
}

function spreadOf({ lowerQuartile, upperQuartile }: Middle): string {
  return `${lowerQuartile.toFixed(2)} to ${upperQuartile.toFixed(2)}`;
}

function atLeast(value: number, target: number | undefined): string {
  return target === undefined ? '' : `>= ${target}${value >= target ? '' : ' (missed)'}`;
}

function atMost(value: number, target: number, unit: string): string {
  return `<= ${target}${unit}${value <= target ? '' : ' (missed)'}`;
}

function widthsOf(table: Table): number[] {
  return (table[0] ?? []).map((_, column) => Math.max(3, ...table.map((row) => row[column]?.length ?? 0)));
}

function pad(cell: string, column: number, widths: readonly number[]): string {
  const width = widths[column] ?? 0;
  return column === 0 ? cell.padEnd(width) : cell.padStart(width);
}
