import type { Config } from '../src/config/config.ts';
import { formatDuration } from '../src/domain/time.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Removal, Warning } from '../src/dead-letters/keeper.ts';

/** Logs which dead letters will be removed, and the commands to look at them or keep them. */
export function warnOfRemoval(warning: Warning, { maxAgeMs, maxCount }: Config['deadLetters'], log: Logger): void {
  if (warning.bound === 'age') {
    if (warning.going === 0) return;
    const { going, firstAt, lastAt, diedUntil } = warning;
    const [first, last, died] = [firstAt, lastAt, diedUntil].map(instant) as [string, string, string];
    const bound = `DEAD_LETTER_MAX_AGE is ${formatDuration(maxAgeMs)}`;
    const commands = `look: npx pushpacer dead-letters --until ${died}, keep: npx pushpacer replay --until ${died}`;
    const text = `${deadLetters(going)} will be removed from ${first} to ${last}, since ${bound}; ${commands}`;
    log.warn({ bound: 'age', deadLetters: going, firstAt: first, lastAt: last }, text);
    return;
  }
  const { count, going } = warning;
  const room = `room is left for ${maxCount - count} more, then the oldest will be removed`;
  const when = going === 0 ? room : `the ${going} oldest will be removed within minutes`;
  const commands = 'look: npx pushpacer dead-letters, keep: npx pushpacer replay --all';
  const bound = `DEAD_LETTER_MAX_COUNT is ${maxCount}`;
  log.warn(
    { bound: 'count', deadLetters: count, going },
    `${deadLetters(count)}: ${when}, since ${bound}; ${commands}`,
  );
}

/** Logs what was removed; answers how many. */
export function tellRemoval(removal: Removal, { maxAgeMs, maxCount }: Config['deadLetters'], log: Logger): number {
  const removed = [...removal.byReason.values()].reduce((sum, count) => sum + count, 0);
  const why =
    removal.bound === 'age'
      ? `older than DEAD_LETTER_MAX_AGE, ${formatDuration(maxAgeMs)}`
      : `the oldest of more than DEAD_LETTER_MAX_COUNT, ${maxCount}`;
  const byReason = Object.fromEntries(removal.byReason);
  log.warn({ bound: removal.bound, removed, byReason }, `removed ${deadLetters(removed)} for good: ${why}`);
  return removed;
}

function deadLetters(count: number): string {
  return count === 1 ? '1 dead letter' : `${count} dead letters`;
}

/** `2026-11-21T14:00:00.000Z`, as the commands read it. */
function instant(at: number): string {
  return new Date(at).toISOString();
}
