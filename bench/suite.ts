/** One suite of `npm run bench`. */
export interface Suite {
  readonly name: string;
  readonly description: string;
  /** Pairs without `--runs`. Default: 20. */
  readonly defaultRuns?: (quick: boolean) => number;
  /** Whether `run` draws a picture if `svg` is given. */
  readonly draws?: boolean;
  /** What `--row` may choose one of; a suite without it measures all together. */
  readonly rows?: readonly string[];
  /** It runs other suites: only if it is named. */
  readonly isOfOthers?: boolean;
  /** Throws if a case got another answer than the one that it measures. */
  run(options: SuiteOptions): Promise<Report>;
  /** Writes processor profiles into a folder in place of measuring; a suite without it has none. */
  readonly profile?: (dir: string, options: Pick<SuiteOptions, 'quick' | 'say'>) => Promise<Report>;
  /** What one job costs, part by part, in place of the comparison. */
  readonly budget?: (options: Pick<SuiteOptions, 'quick' | 'runs' | 'say'>) => Promise<Report>;
}

/** How thoroughly a suite measures. */
export interface SuiteOptions {
  /** How many pairs a ratio is the median of. */
  readonly runs: number;
  /** How long one slice takes, about. */
  readonly sliceMs: number;
  /** Only what needs no rivals, on little data: a check that the bench works, not a measurement. */
  readonly quick: boolean;
  /** Where a picture of the result goes, for a suite that draws one. */
  readonly svg?: string | undefined;
  /** Only this one of the suite's rows is measured. */
  readonly row?: string | undefined;
  /** Called with a line of progress. */
  readonly say: (line: string) => void;
}

export interface Report {
  /** What `--json` prints; what was not measured is null. */
  readonly json: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** The same tables for docs/benchmarks.md. */
  readonly markdown: string;
  /** What was found that must not be: the bench prints the report, and ends with 1. */
  readonly failure?: string;
}

/** What every measurement notes of itself. */
export interface Facts {
  readonly quick: boolean;
  readonly seconds: number;
  readonly versions: Readonly<Record<string, string>>;
}

interface Findings {
  readonly tables: readonly Table[];
  readonly json: Report['json'];
  /** How much was measured, for the last line. */
  readonly what?: string;
}

/** The report of one suite, with the facts in its last line and in its JSON. */
export function reportOf(suite: string, { quick, seconds, versions }: Facts, { tables, json, what }: Findings): Report {
  const list = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const facts = [...(what === undefined ? [] : [what]), list.join(', '), `${seconds.toFixed(0)} s.`];
  return {
    json: { suite, quick, seconds: round(seconds, 1), ...json, versions },
    ...printed(tables, `${quick ? 'A quick check, no measurement. ' : ''}${facts.join('; ')}`),
  };
}

/** Rows of cells; the first row is the head. All but the first column stand right. */
export type Table = readonly (readonly string[])[];

/** The tables with a line below, for a terminal and for a page. */
export function printed(tables: readonly Table[], foot: string): Pick<Report, 'text' | 'markdown'> {
  return {
    text: [...tables.map(asText), foot].join('\n\n'),
    markdown: [...tables.map(asMarkdown), foot].join('\n\n'),
  };
}

function asText(table: Table): string {
  return paddedOf(table)
    .map((row) => row.join('  '))
    .join('\n');
}

function asMarkdown(table: Table): string {
  const [head = [], ...rows] = paddedOf(table);
  const rule = head.map(({ length }, column) => (column === 0 ? '-'.repeat(length) : `${'-'.repeat(length - 1)}:`));
  return [head, rule, ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

function paddedOf(table: Table): string[][] {
  const widths = (table[0] ?? []).map((_, column) => Math.max(3, ...table.map((row) => row[column]?.length ?? 0)));
  return table.map((row) =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))),
  );
}

/** A ratio of two cases, or a rate: the median of the runs, and the middle half of them. */
export interface Middle {
  readonly median: number;
  readonly lowerQuartile: number;
  readonly upperQuartile: number;
}

export function middleOf(values: readonly number[]): Middle {
  const sorted = values.toSorted((a, b) => a - b);
  return {
    median: quantile(sorted, 0.5),
    lowerQuartile: quantile(sorted, 0.25),
    upperQuartile: quantile(sorted, 0.75),
  };
}

/** Interpolates if the quantile is between two values. */
function quantile(sorted: readonly number[], share: number): number {
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)] ?? NaN;
  const above = sorted[Math.ceil(position)] ?? NaN;
  return below + (above - below) * (position - Math.floor(position));
}

export function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

/** Every number of an object of figures. */
export function rounded<Figures extends object>(figures: Figures, digits: number): Record<keyof Figures, number> {
  const entries = Object.entries(figures).map(([name, value]) => [name, round(value as number, digits)]);
  return Object.fromEntries(entries) as Record<keyof Figures, number>;
}

/** `12,345` */
export function wholeOf(value: number): string {
  return Math.round(value).toLocaleString('en');
}
