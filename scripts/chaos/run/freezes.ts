import type { LogLine, Logs } from './logs.ts';

/** A strike after which what was in hand may alert a second time. */
export interface Incident {
  readonly kind: 'kill' | 'stop' | 'redis';
  /** When it struck, and until when what was in hand may still have gone out; epoch milliseconds. */
  readonly at: number;
  readonly until: number;
  /** The notifications that workers had in hand. */
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
   * What all workers had in hand meanwhile: each notification, and the holder that its job's lock names. Empty where
   * Redis did not tell before the thaw.
   */
  readonly holders: ReadonlyMap<string, string>;
}

/** What a frozen worker may have sent late: these notifications, arriving between these instants. */
export interface Thaw {
  readonly ids: ReadonlySet<string>;
  readonly from: number;
  readonly until: number;
}

/** A worker that is stopped for less keeps its jobs: their locks are renewed every half of that time. */
export const HARMLESS_STOP_MS = 2_000;
/**
 * A request that was written when the freeze struck leaves as the first thing after the thaw, and then takes its way. What
 * arrives later was sent by a process that was running.
 */
const AFTER_THAW_MS = 250;
/** A pass of a job that was in hand is told in the log within this time: a request is given up after 10 s. */
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
 * Freezes during which Redis did not tell what was in hand, since it was paused or away itself. The worker's own log tells it
 * then: after the thaw it tells of the passes that the freeze interrupted.
 */
export function stopsWithoutRedis(freezes: readonly Freeze[], logs: Logs): Incident[] {
  const untold = freezes.filter(({ holders, forMs }) => holders.size === 0 && forMs >= HARMLESS_STOP_MS);
  return untold.map(({ log, at, thawedAt }) => {
    const told = (logs.get(log) ?? []).filter((line) => line.at >= thawedAt - 1 && line.at <= thawedAt + TOLD_MS);
    return { kind: 'stop', at, until: at, ids: new Set(told.flatMap(({ id }) => id ?? [])) };
  });
}

/**
 * What the frozen worker itself had in hand. A lock names its holder by an id that only BullMQ knows; the worker's log
 * tells which one it is: after the thaw it tells of nearly all of that holder's jobs, and of few of the others'. Where
 * this is not clear, nothing counts as in hand.
 */
function inHandOf({ holders, thawedAt, at, forMs }: Freeze, log: readonly LogLine[]): ReadonlySet<string> {
  const until = thawedAt + TOLD_MS;
  const told = new Set(log.filter((line) => line.at >= at + forMs - 1 && line.at <= until).map(({ id }) => id));
  const ranked = [...Map.groupBy(holders.keys(), (id) => holders.get(id) ?? '')]
    .map(([, ids]) => ({ ids, share: ids.filter((id) => told.has(id)).length / ids.length }))
    .toSorted((a, b) => b.share - a.share);
  const [first, second] = ranked;
  const isClear = first !== undefined && first.share > 0.5 && first.share > (second?.share ?? 0);
  return new Set(isClear ? first.ids : []);
}
