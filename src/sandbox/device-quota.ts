import type { Rule } from '../domain/limits.ts';

/** A provider's own limit of alerts per device; rolling windows. */
export class DeviceQuota {
  readonly #rule: Rule;
  readonly #taken = new Map<string, number[]>();

  constructor(rule: Rule) {
    this.#rule = rule;
  }

  /** Counts one alert at `at` (milliseconds) where there is room for it. */
  take(token: string, at: number): boolean {
    const recent = (this.#taken.get(token) ?? []).filter((instant) => instant > at - this.#rule.perMs);
    const hasRoom = recent.length < this.#rule.max;
    if (hasRoom) recent.push(at);
    this.#taken.set(token, recent);
    return hasRoom;
  }
}
