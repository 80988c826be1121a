import { wholeOf, type Table } from '../suite.ts';

/** A figure that was measured, beside what the model says. */
export interface Check {
  readonly name: string;
  /**
   * Bytes and counts depend little on the machine, so they must agree. A bound must not be passed. A time depends on the machine, and
   * on what else it does, so its ratio is information.
   */
  readonly kind: 'bytes' | 'count' | 'bound' | 'time';
  readonly measured: number;
  readonly model: number;
}

/** How far bytes and counts may be off. */
const SHARE = 0.1;

export function ratioOf({ measured, model }: Check): number {
  return measured / model;
}

export function isOff(check: Check): boolean {
  if (check.kind === 'time') return false;
  const ratio = ratioOf(check);
  const isWithin = check.kind === 'bound' ? ratio <= 1 : Math.abs(ratio - 1) <= SHARE;
  return !isWithin; // NaN is off
}

/** Undefined if the model agrees with all that was measured. */
export function failureOf(checks: readonly Check[]): string | undefined {
  const off = checks.filter(isOff);
  if (off.length === 0) return undefined;
  const lines = off.map((check) => `${check.name}: measured ${textOf(check.measured)}, model ${textOf(check.model)}`);
  return `the model is off by more than ${100 * SHARE} %:\n${lines.join('\n')}`;
}

export function checkTable(title: string, checks: readonly Check[]): Table {
  return [
    [title, 'measured', 'model', 'measured / model'],
    ...checks.map((check) => [
      check.name,
      textOf(check.measured),
      `${check.kind === 'bound' ? '≤ ' : ''}${textOf(check.model)}`,
      `${ratioOf(check).toFixed(2)}${isOff(check) ? ' !' : check.kind === 'time' ? ' (time)' : ''}`,
    ]),
  ];
}

/** `1,221`, `2.02`, `0.066` */
function textOf(value: number): string {
  if (value >= 100) return wholeOf(value);
  return value >= 1 ? value.toFixed(2) : value.toFixed(3);
}
