/** Epoch milliseconds with a fraction, computed like the journal's time stamps: this clock is never set. */
export function epochMs(): number {
  return performance.timeOrigin + performance.now();
}
