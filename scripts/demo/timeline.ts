import { type Policy, ruleName } from '../../src/domain/limits.ts';
import { formatDuration } from '../../src/domain/time.ts';
import { alertsByRecipient, type Arrival } from '../../src/sandbox/judge.ts';

const MOST_COLUMNS = 64;
const LEAST_COLUMNS = 20;
/** ` 59    249 ms` behind the columns, with the spaces between. */
const NUMBERS_WIDTH = 18;

/**
 * One row a recipient: when its alerts arrived, how many, and the least time between two. `terminalColumns`: the terminal's
 * width, which the drawing fits.
 */
export function renderTimeline(arrivals: readonly Arrival[], policy: Policy, terminalColumns = Infinity): string {
  const alerts = [...alertsByRecipient(arrivals, policy.minGapMs)].toSorted(([a], [b]) => a.localeCompare(b));
  const start = Math.min(...arrivals.map(({ at }) => at));
  const end = Math.max(...arrivals.map(({ at }) => at));
  const width = Math.max(9, ...alerts.map(([recipientId]) => recipientId.length));
  const columns = Math.max(LEAST_COLUMNS, Math.min(MOST_COLUMNS, terminalColumns - width - NUMBERS_WIDTH));
  const columnMs = Math.max(1, (end - start) / columns);
  const rows = alerts.map(([recipientId, times]) => {
    const gaps = times.slice(1).map((at, index) => at - (times[index] ?? at));
    const least = gaps.length === 0 ? '-' : `${Math.round(Math.min(...gaps))} ms`;
    return `${recipientId.padEnd(width)} ${row(times, { start, columns, columnMs })} ${String(times.length).padStart(6)} ${least.padStart(9)}`;
  });
  const seconds = ((end - start) / 1000).toFixed(1);
  const axis = `0 s${`${seconds} s`.padStart(columns - 3)}`;
  return [
    `Policy: ${policy.rules.map(ruleName).join(', ')}, gap ${formatDuration(policy.minGapMs)}. Each column is ${Math.round(columnMs)} ms.`,
    `${'recipient'.padEnd(width)} ${axis} ${'alerts'.padStart(6)} ${'least gap'.padStart(9)}`,
    ...rows,
  ].join('\n');
}

interface Columns {
  readonly start: number;
  readonly columns: number;
  readonly columnMs: number;
}

/** `·` no alert in the column, else how many: `1` to `9`, `+` for more. */
function row(times: readonly number[], { start, columns, columnMs }: Columns): string {
  const counts = new Array<number>(columns).fill(0);
  for (const at of times) {
    const column = Math.min(columns - 1, Math.floor((at - start) / columnMs));
    counts[column] = (counts[column] ?? 0) + 1;
  }
  return counts.map((count) => (count === 0 ? '·' : count > 9 ? '+' : String(count))).join('');
}
