import type { SeenEntry } from '../../demo/providers-child.ts';
import { shownOf } from '../../sandbox/journal.ts';
import { violationsOf, type Arrival } from '../../sandbox/judge.ts';
import { judgePacing } from '../judge.ts';
import type { Enqueued } from '../queue.ts';
import { refOf } from '../workload.ts';
import { excuse, type Done, type Excused, type Fault, type PairsFacts } from './facts.ts';
import { POLICIES, STRICT_POLICY } from './workload.ts';

// Rule 6: gaps, windows, blocks and quiet hours, as the phones saw them.

/**
 * From the answer of an action until no alert under way is left that was admitted before it: a worker sleeps for its slot, and a request
 * takes its time.
 */
const UNDER_WAY_MS = 1_000;

/** From one instant to another, for one recipient. */
interface Stretch {
  readonly recipientId: string;
  readonly from: number;
  readonly until: number;
}

export function judgePace(facts: PairsFacts, excused: Excused): Fault[] {
  const lives = new Map(facts.lives.map((life) => [life.name, life]));
  const enqueued = new Map<string, Enqueued>([...lives].map(([name, { input }]) => [name, { id: name, input }]));
  const resets = facts.done.flatMap((done) => (done.kind === 'reset' ? [done] : []));
  const inputOf = (entry: SeenEntry) => lives.get(refOf(entry.data))?.input;

  // A reset forgets what was sent: what comes before it and what comes after it are judged apart.
  const judged = facts.entries.filter((entry) => {
    const own = resets.filter(({ recipientId }) => recipientId === inputOf(entry)?.recipientId);
    return own.every(({ from, until }) => entry.at < from || entry.at > until + UNDER_WAY_MS);
  });
  const parts = Map.groupBy(judged, (entry) => {
    const recipientId = inputOf(entry)?.recipientId;
    return resets.filter((reset) => reset.recipientId === recipientId && reset.from < entry.at).length;
  });
  const faults: Fault[] = [];
  for (const entries of parts.values()) {
    const pacing = judgePacing(enqueued, entries, POLICIES, facts.thaws);
    for (const burst of pacing.bursts) faults.push(brokenBy(burst, entries, inputOf));
    excuse(excused, 'too close, sent late after a freeze', pacing.burstsAfterFreeze.length);
    excuse(excused, 'too close, while a process could not run', pacing.burstsAfterStall.length);
  }

  const isThawed = (entry: SeenEntry): boolean =>
    facts.thaws.some(({ ids, from, until }) => ids.has(idOf(entry)) && entry.at >= from && entry.at <= until);
  const within = ({ recipientId, from, until }: Stretch): SeenEntry[] =>
    facts.entries.filter((entry) => {
      return entry.accepted && inputOf(entry)?.recipientId === recipientId && entry.at > from && entry.at < until;
    });
  for (const stretch of stretches(facts.done, 'limit', ['unlimit', 'limit', 'reset'])) {
    const loud = within(stretch).filter((entry) => shownOf(entry) === 'alert' && inputOf(entry)?.category !== 'urgent');
    const arrivals = loud.filter((entry) => !isThawed(entry)).map((entry) => arrivalOf(entry, stretch.recipientId));
    for (const { name, times } of violationsOf(arrivals, STRICT_POLICY)) {
      const ids = arrivals.filter(({ at }) => times.includes(at)).map(({ notificationId }) => notificationId);
      const ms = Math.round((times.at(-1) ?? 0) - (times[0] ?? 0));
      faults.push({
        rule: 6,
        text: `${stretch.recipientId}: ${name} of its own limits, ${ms} ms: ${ids.join(', ')}`,
        lives: ids,
      });
    }
  }
  const stopped = [
    ...stretches(facts.done, 'quiet', ['unquiet', 'quiet']).map((stretch) => ({ ...stretch, what: 'in quiet hours' })),
    ...stretches(facts.done, 'block', ['unblock', 'block']).map((stretch) => ({
      ...stretch,
      what: 'while it was blocked',
    })),
  ];
  for (const { what, ...stretch } of stopped) {
    const isQuiet = what === 'in quiet hours';
    for (const entry of within(stretch)) {
      const shown = shownOf(entry);
      const isFree = shown === 'silent' || (isQuiet && (shown === 'nothing' || inputOf(entry)?.category === 'urgent'));
      if (isFree) continue;
      const name = refOf(entry.data);
      if (isThawed(entry)) excuse(excused, `${what}, sent late after a freeze`);
      else
        faults.push({
          rule: 6,
          text: `${name}: was seen ${what}, ${Math.round(entry.at - stretch.from)} ms after its beginning`,
          lives: [name],
        });
    }
  }
  return faults;
}

/** The times in which one of these was certainly in force. */
function stretches(
  done: readonly Done[],
  begin: 'limit' | 'quiet' | 'block',
  ends: readonly Done['kind'][],
): Stretch[] {
  return done.flatMap((one, index) => {
    if (one.kind !== begin) return [];
    const { recipientId } = one;
    const next = done
      .filter((other, place) => place > index && 'recipientId' in other && other.recipientId === recipientId)
      .find(({ kind }) => ends.includes(kind));
    const until = Math.min(next?.from ?? Infinity, 'blockedUntil' in one ? one.blockedUntil : Infinity);
    return [{ recipientId, from: one.until + UNDER_WAY_MS, until }];
  });
}

function arrivalOf({ data, token, at, delayMs }: SeenEntry, recipientId: string): Arrival {
  return { recipientId, notificationId: refOf(data), device: token, at, delayMs };
}

function idOf({ data }: SeenEntry): string {
  return refOf(data).replace(/@\d+$/, '');
}

/** `person-1: gap, 92 ms at 2026-03-01T07:30:00.123Z`, with those that were seen then. */
function brokenBy(
  burst: string,
  entries: readonly SeenEntry[],
  inputOf: (entry: SeenEntry) => { readonly recipientId: string } | undefined,
): Fault {
  const recipientId = burst.slice(0, burst.indexOf(':'));
  const last = Date.parse(burst.slice(burst.lastIndexOf(' ') + 1));
  const own = entries.filter(
    (entry) => entry.accepted && inputOf(entry)?.recipientId === recipientId && entry.at < last + 2,
  );
  const names = [...new Set(own.slice(-3).map(({ data }) => refOf(data)))].slice(-2);
  return { rule: 6, text: `${burst} (${names.join(', ')})`, lives: names };
}
