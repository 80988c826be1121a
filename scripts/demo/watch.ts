import { setTimeout as sleep } from 'node:timers/promises';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import type { Arrival } from '../../src/sandbox/judge.ts';
import { CommandError } from '../support/command.ts';
import { createProgress } from '../support/progress.ts';
import { shownOf, type Shown } from '../support/shown.ts';
import type { DemoQueue } from './queue.ts';
import type { Arrivals } from './verdict.ts';

const POLL_MS = 200;
/** Far longer than the longest schedule: after this, something hangs. */
const TIMEOUT_MS = 120_000;

/** Shows progress until every notification has ended. */
export async function watch(queue: Pick<DemoQueue, 'settled'>, total: number): Promise<void> {
  const progress = createProgress('ended', total);
  const deadline = performance.now() + TIMEOUT_MS;
  try {
    for (;;) {
      const settled = await queue.settled();
      progress.update(settled);
      if (settled >= total) return;
      if (performance.now() > deadline)
        throw new CommandError(
          `only ${settled} of ${total} notifications ended within two minutes; look at the workers' logs`,
        );
      await sleep(POLL_MS);
    }
  } finally {
    progress.stop();
  }
}

/** What the providers accepted, with the recipients. */
export function arrivalsOf(entries: readonly JournalEntry[], recipientOf: ReadonlyMap<string, string>): Arrivals {
  const arrived = Object.groupBy(accepted(entries), shownOf);
  const of = (shown: Shown): Arrival[] => (arrived[shown] ?? []).map((entry) => arrivalOf(entry, recipientOf));
  return { alerts: of('alert'), silent: of('silent'), pushes: of('nothing') };
}

function isPush(entry: JournalEntry): boolean {
  return shownOf(entry) === 'nothing';
}

/** A request for an alert that a provider refused. */
export interface Refusal extends Arrival {
  /** `503 ServiceUnavailable` */
  readonly answer: string;
}

export function refusalsOf(entries: readonly JournalEntry[], recipientOf: ReadonlyMap<string, string>): Refusal[] {
  const refused = entries.filter((entry) => !entry.accepted && !isPush(entry));
  return refused.map((entry) => ({
    ...arrivalOf(entry, recipientOf),
    answer: `${entry.status ?? 'no answer'} ${entry.reason ?? ''}`.trim(),
  }));
}

function arrivalOf({ token, data, at }: JournalEntry, recipientOf: ReadonlyMap<string, string>): Arrival {
  return {
    recipientId: recipientOf.get(token) ?? 'the owner of an unknown token',
    notificationId: data['ref'] ?? '',
    device: token,
    at,
  };
}

/** Replays a dead letter whose cause was corrected, and waits for it at the provider. Its id, or undefined if it did not come. */
export async function replayCured(
  queue: Pick<DemoQueue, 'replayOne'>,
  entries: readonly JournalEntry[],
): Promise<string | undefined> {
  const id = await queue.replayOne('bad-token');
  const deadline = performance.now() + 10_000;
  while (id !== undefined && performance.now() < deadline) {
    if (accepted(entries).some(({ data }) => data['ref'] === id)) return id;
    await sleep(POLL_MS / 4);
  }
  return undefined;
}

function accepted(entries: readonly JournalEntry[]): JournalEntry[] {
  return entries.filter((entry) => entry.accepted);
}
