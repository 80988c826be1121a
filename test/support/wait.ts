import { vi } from 'vitest';

/** Waits until the assertions pass; the limit only ends a test that would fail anyway, however busy the machine is. */
export function waitFor<T>(facts: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(facts, { timeout: 60_000, interval: 20 });
}
