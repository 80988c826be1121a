import { setTimeout as sleep } from 'node:timers/promises';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import type { Arrival } from '../../src/sandbox/judge.ts';
import { CommandError } from '../support/command.ts';
import { createProgress } from '../support/progress.ts';
import type { DemoQueue } from './queue.ts';

const POLL_MS = 200;
/** Far beyond the longest schedule: something hangs. */
const TIMEOUT_MS = 120_000;

/** Shows progress until every notification has come to an end. */
export async function watch(queue: Pick<DemoQueue, 'settled'>, total: number): Promise<void> {
  const progress = createProgress('settled', total);
  const deadline = performance.now() + TIMEOUT_MS;
  try {
    for (;;) {
      const settled = await queue.settled();
      progress.update(settled);
      if (settled >= total) return;
      if (performance.now() > deadline)
        throw new CommandError(`only ${settled} of ${total} settled within two minutes`);
      await sleep(POLL_MS);
    }
  } finally {
    progress.stop();
  }
}

/** What the providers accepted, as it concerns recipients. */
export function arrivalsOf(entries: readonly JournalEntry[], recipientOf: ReadonlyMap<string, string>): Arrival[] {
  return accepted(entries).map(({ token, data, at }) => ({
    recipientId: recipientOf.get(token) ?? 'the owner of an unknown token',
    notificationId: data['ref'] ?? '',
    device: token,
    at,
  }));
}

/** Replays a dead letter whose cause was cured and waits for it at the provider; its id, undefined where it did not come. */
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
