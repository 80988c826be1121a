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
}

export interface Suite {
  readonly name: string;
  readonly description: string;
  /** Pairs without `--runs`. Default: 20. */
  readonly defaultRuns?: (quick: boolean) => number;
  /** Whether `run` draws a picture if `svg` is given. */
  readonly draws?: boolean;
  /** What `--row` may choose one of; a suite without it measures all together. */
  readonly rows?: readonly string[];
  /** Throws if a case got another answer than the one that it measures. */
  run(options: SuiteOptions): Promise<Report>;
  /** Writes processor profiles into a folder in place of measuring; a suite without it has none. */
  readonly profile?: (dir: string, options: Pick<SuiteOptions, 'quick' | 'say'>) => Promise<Report>;
}
