import type { ChaosResult, Check } from './verdict.ts';

/** The report for a person at the end. */
export function renderReport(result: ChaosResult, verdict: readonly Check[]): string {
  const { notifications, delivered, deadLettered, expired, dropped, requeues, minGapMs, drainMs } = result;
  return [
    `\n${notifications} notifications: ${delivered} delivered, ${deadLettered} dead letters, ${expired} expired, ${dropped} dropped.`,
    `Dead letters: ${counted(result.deadLetters)}. Duplicates by their reason: ${counted(result.duplicatesBy)}.`,
    `Breakers opened: ${counted(result.breakersOpened)}.`,
    `${requeues} requeues; least gap ${minGapMs} ms; drained within ${(drainMs / 1_000).toFixed(1)} s.`,
    ...verdict.map(({ what, found, ok }) => `${ok ? 'ok  ' : 'FAIL'}  ${what}: ${found}`),
  ].join('\n');
}

/** `47 unregistered, 13 invalid` */
function counted(counts: Readonly<Record<string, number>>): string {
  const some = Object.entries(counts).filter(([, count]) => count > 0);
  if (some.length === 0) return 'none';
  return some
    .toSorted(([, a], [, b]) => b - a)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ');
}

const MOST_TOLD = 20;

/** The first 20 of each kind of trouble, one line each: `a burst: recipient-7: gap, 263 ms at …`. */
export function renderTroubles(troubles: Readonly<Record<string, readonly string[]>>): string[] {
  return Object.entries(troubles).flatMap(([what, found]) => {
    const told = found.slice(0, MOST_TOLD).map((one) => `${what}: ${one}`);
    return found.length > MOST_TOLD ? [...told, `${what}: ${found.length - MOST_TOLD} more`] : told;
  });
}
