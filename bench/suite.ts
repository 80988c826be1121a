/** How thoroughly a suite measures. */
export interface SuiteOptions {
  /** How many pairs of slices a ratio is the median of. */
  readonly runs: number;
  /** How long one slice takes, about. */
  readonly sliceMs: number;
  /** Only what needs no rivals, on little data: a check that the bench works, not a measurement. */
  readonly quick: boolean;
  /** Told what is going on. */
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
  /** Throws where a case did not do what it is about. */
  run(options: SuiteOptions): Promise<Report>;
}
