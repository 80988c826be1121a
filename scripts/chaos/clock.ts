/** Epoch milliseconds with a fraction, made as the journal's stamps are: this clock never steps. */
export function epochMs(): number {
  return performance.timeOrigin + performance.now();
}
