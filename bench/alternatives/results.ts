import { round } from '../limiter/results.ts';
import type { Table } from '../limiter/table.ts';
import { ALTERNATIVES, NAMES, type Alternative } from './alternative.ts';
import type { Burst } from './burst.ts';
import type { Figures } from './figures.ts';

export interface Results {
  readonly quick: boolean;
  readonly seconds: number;
  readonly versions: Readonly<Record<string, string>>;
  readonly burst: Pick<Burst, 'busy' | 'others'>;
  /** The shortest that the limits allow for the busy recipient. */
  readonly idealMs: number;
  readonly longestStallMs: number;
  readonly figures: readonly (readonly [Alternative, Figures])[];
}

/** Two tables: what the busy recipient gets, and what it costs. */
export function tablesOf({ figures }: Results): Table[] {
  const limits: Table = [
    ['', 'most in 200 ms', 'most in 3 s', 'gap broken', 'window broken', 'out of order', 'busy one, x ideal'],
    ...figures.map(([alternative, each]) => [
      NAMES[alternative],
      ...[each.mostInGap, each.mostInWindow, each.gapViolations, each.windowViolations, each.outOfOrder].map(String),
      each.busyOverIdeal.toFixed(2),
    ]),
  ];
  const costs: Table = [
    ['', 'others wait, median', 'others wait, worst', 'passes/job', 'duplicates', 'lost'],
    ...figures.map(([alternative, each]) => [
      NAMES[alternative],
      secondsOf(each.othersMedianMs),
      secondsOf(each.othersWorstMs),
      each.passesPerJob.toFixed(2),
      String(each.duplicates),
      String(each.lost),
    ]),
  ];
  return [limits, costs];
}

/** The names that `--json` prints; docs/benchmarks.md explains them. */
export function jsonOf({ burst, figures, seconds, ...rest }: Results): Record<string, unknown> {
  const measured = new Map(figures);
  return {
    suite: 'alternatives',
    ...rest,
    seconds: round(seconds, 1),
    burst: { busy: burst.busy.length, others: burst.others.length },
    ...Object.fromEntries(ALTERNATIVES.map((name) => [name, rounded(measured.get(name))])),
  };
}

function rounded(figures: Figures | undefined): Record<string, number> | null {
  if (figures === undefined) return null; // a quick run has no rivals
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, round(value as number, 3)]));
}

function secondsOf(ms: number): string {
  return `${(ms / 1_000).toFixed(2)} s`;
}
