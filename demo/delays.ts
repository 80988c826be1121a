import { arrivalInstant, type JournalEntry } from '../sandbox/journal.ts';

/**
 * How late alerts were sent and seen, as the processes measured it themselves. A timer of a few milliseconds finds when a process
 * did not run: it was busy, it compiled code, or it had no processor. A gap counts as broken only if that does not explain it.
 */

/** The machine stood still for so long, and went on at this instant (epoch milliseconds, as in the journal). */
export interface Stall {
  readonly at: number;
  readonly ms: number;
}

/** A process did nothing else between these two instants than what had begun at the first: epoch milliseconds. */
export interface Standstill {
  readonly from: number;
  readonly until: number;
}

/** Measures continuously how late this process sees what arrives. */
interface DelayWatch {
  /**
   * How late something that this process saw at this instant may have been seen, in milliseconds: it arrived between
   * `at - delayMs` and `at`. 0 if that is less than the timer can measure, and for what happened more than 5 s ago.
   */
  delayMs(at: number): number;
  stop(): void;
}

const TICK_MS = 5;
/** At least 5 s: a request is looked up when its body has been read. */
const KEPT_TICKS = 1_000;
/** If two ticks of an idle process with high priority are this much too far apart, the machine itself stood still. */
const STALL_MS = 20;

/**
 * The last thousand ticks of a timer. Between two of them the process has asked the kernel at least once for what had arrived. So
 * what it sees after a tick arrived after the tick before that one.
 */
export function watchDelays(
  onStall: (stall: Stall) => void = () => undefined,
  now: () => number = arrivalInstant,
): DelayWatch {
  const ticks = [now()];
  const timer = setInterval(() => {
    const at = now();
    const ms = at - (ticks.at(-1) ?? at) - TICK_MS;
    ticks.push(at);
    if (ticks.length > KEPT_TICKS) ticks.shift();
    if (ms > STALL_MS) onStall({ at, ms });
  }, TICK_MS).unref();
  return {
    delayMs(at) {
      const last = ticks.findLastIndex((tick) => tick <= at);
      const before = ticks[Math.max(0, last - 1)];
      if (last < 0 || before === undefined) return 0;
      // Without a delay, the tick before the last one is up to two ticks ago. On a busy machine each small delay counts: those
      // of the worker, of the way and of this process add up.
      const delayMs = at - before - TICK_MS;
      return delayMs <= TICK_MS ? 0 : delayMs;
    },
    stop: () => clearInterval(timer),
  };
}

/** Calls `report` where two ticks of this process are too far apart. */
export function watchStandstills(report: (standstill: Standstill) => void): void {
  let from = arrivalInstant();
  setInterval(() => {
    const until = arrivalInstant();
    if (until - from > 2 * TICK_MS) report({ from, until });
    from = until;
  }, TICK_MS).unref();
}

/** The message of a worker's log line about a standstill. */
export const STANDSTILL = 'standstill';
/** From a worker's socket to the providers' process on the same machine, where neither stands still. */
const TRANSIT_MS = 10;

/** What the logs of the workers report about their delays: when each stood still, and which one sent what. */
export class WorkerDelays {
  readonly #standstills = new Map<string, Standstill[]>();
  /** Notification → the workers that tried to deliver it. */
  readonly #senders = new Map<string, Set<string>>();

  /** Takes one line of a worker's log. Half a line of a worker that was killed is skipped. */
  note(worker: string, line: string): void {
    const isStandstill = line.includes(`"msg":"${STANDSTILL}"`);
    const isEnd = line.includes('"outcome":"') && !line.includes('"outcome":"requeued"');
    if ((!isStandstill && !isEnd) || !line.endsWith('}')) return;
    const { from = NaN, until = NaN, id } = JSON.parse(line) as Partial<Standstill> & { id?: string };
    if (isStandstill) this.#add(worker, { from, until });
    else if (id !== undefined) this.#senders.set(id, (this.#senders.get(id) ?? new Set()).add(worker));
  }

  /** How long each standstill since then was, in milliseconds. */
  standstillsMs(since: number): number[] {
    const all = [...this.#standstills.values()].flat().filter(({ from }) => from >= since);
    return all.map(({ from, until }) => until - from);
  }

  /** Leaves out what was done to a worker on purpose. */
  forget(worker: string, { from, until }: Standstill): void {
    const own = this.#standstills.get(worker) ?? [];
    this.#standstills.set(
      worker,
      own.filter((standstill) => standstill.until < from || standstill.from > until),
    );
  }

  #add(worker: string, standstill: Standstill): void {
    const own = this.#standstills.get(worker);
    if (own === undefined) this.#standstills.set(worker, [standstill]);
    else own.push(standstill);
  }

  /**
   * The entries, their `delayMs` counted from the instant at which they may have left: their worker looked at the clock then.
   *
   * @param killedOf workers that may have sent this too, and were killed before they could log that
   */
  counted<Entry extends JournalEntry & { readonly delayMs?: number }>(
    entries: readonly Entry[],
    idOf: (entry: Entry) => string,
    killedOf: (id: string, at: number) => readonly string[] = () => [],
  ): Entry[] {
    return entries.map((entry) => {
      const id = idOf(entry);
      const senders = [...(this.#senders.get(id) ?? []), ...killedOf(id, entry.at)];
      const leftAt = this.#leftAt(senders, entry.at - (entry.delayMs ?? 0), entry.at);
      return { ...entry, delayMs: entry.at - leftAt };
    });
  }

  /** The earliest instant at which an alert may have left that arrived between these two. */
  #leftAt(senders: readonly string[], from: number, until: number): number {
    return Math.min(
      from,
      ...senders.flatMap((worker) => {
        const own = this.#standstills.get(worker) ?? [];
        return own.flatMap((standstill, index) => {
          if (standstill.until < from - TRANSIT_MS || standstill.from > until) return [];
          // What is written in one turn of the event loop may leave in the next one.
          const before = own[index - 1];
          return before?.until === standstill.from ? [before.from] : [standstill.from];
        });
      }),
    );
  }
}
