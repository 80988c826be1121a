import type { Fault } from '../plan/faults.ts';
import type { ChaosResult, Check } from './verdict.ts';

/** The report for a person at the end. */
export function renderReport(result: ChaosResult, verdict: readonly Check[]): string {
  const { superseded, merged, canceled } = result;
  const { notifications, delivered, deadLettered, expired, dropped, requeues, minGapMs, drainMs } = result;
  return [
    `\n${notifications} notifications: ${delivered} delivered, ${deadLettered} dead letters, ${expired} expired, ${dropped} dropped.`,
    `Waited together: ${superseded} superseded, ${merged} merged into digests; ${canceled} canceled.`,
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

/** `  12.3 s  worker 4 is stopped for 7.1 s`: one line of the plan. */
export function describeFault(fault: Fault): string {
  return `${seconds(fault.atMs).padStart(8)}  ${what(fault)}`;
}

function what(fault: Fault): string {
  switch (fault.kind) {
    case 'kill-worker':
      return `worker ${fault.worker} is killed, and replaced`;
    case 'restart-worker':
      return `worker ${fault.worker} is told to stop, and replaced`;
    case 'stop-worker':
      return `worker ${fault.worker} is frozen for ${seconds(fault.forMs)}`;
    case 'kill-redis':
      return `Redis is killed, and comes back after ${seconds(fault.forMs)}`;
    case 'pause-redis':
      return `Redis answers no client for ${seconds(fault.forMs)}`;
    case 'cut-clients':
      return 'Redis cuts every connection';
    case 'answers':
      return `${fault.platform} for ${seconds(fault.forMs)}: ${fault.name} (${percents(fault)})`;
    case 'go-away':
      return `${fault.platform} for ${seconds(fault.forMs)}: a GOAWAY every ${fault.every} requests`;
    case 'drop-connections':
      return `${fault.platform}: every connection is reset`;
    case 'close-idle':
      return `${fault.platform}: every idle connection is closed`;
    case 'odd-device':
      return `${fault.platform}: one device is answered ${fault.word}`;
    case 'revoke-key':
      return `${fault.platform} for ${seconds(fault.forMs)}: the workers' credentials are refused`;
    case 'provider-down':
      return `${fault.platform} for ${seconds(fault.forMs)}: the server is down`;
  }
}

function percents({ rates }: Extract<Fault, { kind: 'answers' }>): string {
  return rates.map(({ rate }) => `${(rate * 100).toFixed(1)} %`).join(', ');
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
