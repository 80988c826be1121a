import { alertsByRecipient, type Arrival } from '../sandbox/judge.ts';
import { printable } from '../src/domain/faults.ts';
import { type Policy, ruleName } from '../src/domain/limits.ts';
import type { DeadLetterReason } from '../src/notification/outcome.ts';
import { formatDuration } from '../src/domain/time.ts';
import { cut, table, heading } from '../src/terminal/text.ts';
import type { DemoResult } from './counts.ts';
import type { DemoDeadLetter } from './queue.ts';
import type { Check } from './verdict.ts';

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
  const rows = alerts.map(([recipientId, own]) => {
    const times = own.map(({ at }) => at);
    const gaps = own.slice(1).map(({ at }, index) => at - (own[index]?.earliestAt ?? at));
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

/** Why a morning at a school has dead letters for each of these reasons. */
const WHY: Partial<Record<DeadLetterReason, string>> = {
  invalid: 'do not fit on purpose, as from a producer in another language',
  'bad-token': "refused until the app's configuration is corrected",
  unregistered: 'the app is gone from the only device',
};
const MESSAGE_WIDTH = 100;

/** Those of one reason together, the largest group first. */
export function groupByReason(
  letters: readonly DemoDeadLetter[],
): { readonly reason: DeadLetterReason; readonly why: string | undefined; readonly letters: DemoDeadLetter[] }[] {
  const groups = [...Map.groupBy(letters, ({ reason }) => reason)];
  return groups
    .map(([reason, own]) => ({ reason, why: WHY[reason], letters: own.toSorted((a, b) => a.id.localeCompare(b.id)) }))
    .toSorted((a, b) => b.letters.length - a.letters.length || a.reason.localeCompare(b.reason));
}

/** One line each under its reason. `columns`: the terminal's width; without a terminal a message has 100 characters. */
export function renderDeadLetters(letters: readonly DemoDeadLetter[], columns?: number): string {
  const groups = groupByReason(letters).map(({ reason, why, letters: own }) => {
    const rows = own.map(({ id, recipientId, message }) => [
      `    ${printable(id)}`,
      printable(recipientId ?? '-'),
      columns === undefined ? cut(printable(message), MESSAGE_WIDTH) : printable(message),
    ]);
    return [`  ${own.length} ${reason}${why === undefined ? '' : `: ${why}`}`, ...table(rows, { columns })].join('\n');
  });
  return [`Dead letters: ${letters.length}, each with its reason`, ...groups].join('\n');
}

interface Ending {
  readonly result: DemoResult;
  readonly policy: Policy;
  readonly promises: readonly Check[];
  readonly machine: readonly Check[];
  /** The longest time for which the machine stood still. */
  readonly longestStallMs: number;
}

/** The counts, the promises, then what depends on the machine, and the verdict as the last line. */
export function renderEnding({ result, policy, promises, machine, longestStallMs }: Ending): string {
  const { notifications, delivered, deadLettered, expired, superseded, merged, dropped, canceled } = result;
  return [
    `${notifications} notifications: ${delivered} delivered (${result.backgroundPushes} of them background pushes),`,
    `${deadLettered} dead letters, ${expired} expired. While they waited: ${superseded} gave way to a newer one,`,
    `${merged} went with a digest, ${canceled} were canceled, ${dropped} dropped.`,
    '',
    heading('The promises'),
    ...linesOf(promises),
    '',
    heading('This machine'),
    ...linesOf(machine),
    ...machineFacts({ result, longestStallMs }).map((fact) => `      ${fact}`),
    `      least gap ${result.minGapMs} of ${policy.minGapMs} ms; most in ${windowText(policy)}: ${result.maxInWindow}`,
    '',
    verdictText(promises, machine),
  ].join('\n');
}

/** What the machine did that makes alerts late; empty if it did nothing. */
export function machineFacts({ result, longestStallMs }: Pick<Ending, 'result' | 'longestStallMs'>): string[] {
  const { lateWakes, lateToleranceMs, mostLateMs, mostDelayMs, standstills } = result;
  return [
    ...(lateWakes > 0
      ? [`${lateWakes} wake-ups later than the tolerance of ${lateToleranceMs} ms, the latest by ${mostLateMs} ms`]
      : []),
    ...(standstills > 0 ? [`${standstills} times a worker could not run when it was to send`] : []),
    ...(mostDelayMs > 0 ? [`alerts were under way for up to ${mostDelayMs} ms: a process did not run`] : []),
    ...(longestStallMs > 0 ? [`it stood still for up to ${longestStallMs} ms`] : []),
  ];
}

/** `PASS: all 13 promises were kept.` */
export function verdictText(promises: readonly Check[], machine: readonly Check[]): string {
  const broken = promises.filter(({ ok }) => !ok).length;
  const unexplained = machine.filter(({ ok }) => !ok).length;
  if (broken > 0) return `FAIL: ${broken} of ${promises.length} promises were broken.`;
  if (unexplained > 0) return 'FAIL: the promises were kept, but this machine does not explain the time that it took.';
  return `PASS: all ${promises.length} promises were kept.`;
}

function linesOf(checks: readonly Check[]): string[] {
  return checks.map(({ what, found, ok }) => `${ok ? 'ok  ' : 'FAIL'}  ${what}: ${found}`);
}

function windowText({ rules: [first] }: Policy): string {
  return first === undefined ? 'a window' : formatDuration(first.perMs);
}
