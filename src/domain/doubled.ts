/** `firstMs` doubled `times` times, but at most `mostMs`. Milliseconds. */
export function doubledMs(firstMs: number, mostMs: number, times: number): number {
  return Math.min(firstMs * 2 ** Math.min(times, 30), mostMs); // 2^30 ms are twelve days; keeps the number finite
}
