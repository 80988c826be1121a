import type { LogLine, Logs } from './logs.ts';

/** A fault after which the notifications that workers had may alert a second time. */
export interface Incident {
  readonly kind: 'kill' | 'stop' | 'redis';
  /** When the fault began, and until when these notifications may still have been sent; epoch milliseconds. */
  readonly at: number;
  readonly until: number;
  /** The notifications that workers had at that time. */
  readonly ids: ReadonlySet<string>;
}

/** A worker that was frozen for a while (SIGSTOP). Instants are epoch milliseconds. */
export interface Freeze {
  /** The name of its log. */
  readonly log: string;
  /** Just before SIGSTOP. */
  readonly at: number;
  readonly forMs: number;
  /** Just after SIGCONT. */
  readonly thawedAt: number;
  /**
   * Notification → holder of its job lock, for all jobs that workers had during the freeze. Empty if Redis did not answer before
   * the thaw.
   */
  readonly holders: ReadonlyMap<string, string>;
}

/** What a frozen worker may have sent late: these notifications, with an arrival between these instants. */
export interface Thaw {
  readonly ids: ReadonlySet<string>;
  readonly from: number;
  readonly until: number;
}

/** A worker that is frozen for less keeps its job locks: they last 5 s and are renewed every half of that. */
export const HARMLESS_STOP_MS = 2_000;
/**
 * A request that was being written when the freeze began leaves first after the thaw, and arrives within this time. A later
 * arrival was sent by a process that was running.
 */
const AFTER_THAW_MS = 250;
/** A pass that a freeze interrupted is in the log within this time: a request times out after 10 s. */
const TOLD_MS = 12_000;

/** What may have been sent late after each freeze. */
export function thawsOf(freezes: readonly Freeze[], logs: Logs): Thaw[] {
  return freezes.map((freeze) => ({
    ids: inHandOf(freeze, logs.get(freeze.log) ?? []),
    // SIGCONT came no earlier than this.
    from: freeze.at + freeze.forMs,
    until: freeze.thawedAt + AFTER_THAW_MS,
  }));
}

/**
 * Freezes during which Redis could not be asked for the jobs, because it was paused or away. Then the worker's own log is used:
 * after the thaw it has the passes that the freeze interrupted.
 */
export function stopsWithoutRedis(freezes: readonly Freeze[], logs: Logs): Incident[] {
  const untold = freezes.filter(({ holders, forMs }) => holders.size === 0 && forMs >= HARMLESS_STOP_MS);
  return untold.map(({ log, at, thawedAt }) => {
    const told = (logs.get(log) ?? []).filter((line) => line.at >= thawedAt - 1 && line.at <= thawedAt + TOLD_MS);
    return { kind: 'stop', at, until: at, ids: new Set(told.flatMap(({ id }) => id ?? [])) };
  });
}

/** The notifications that the frozen worker itself had: those whose job lock has one of its ids. */
function inHandOf({ holders }: Freeze, log: readonly LogLine[]): ReadonlySet<string> {
  const own = new Set(log.flatMap(({ workerIds }) => workerIds ?? []));
  return new Set([...holders].filter(([, holder]) => own.has(holder)).map(([id]) => id));
}
