import type { Trouble } from '../domain/trouble.ts';
import type { Evidence } from './breaker.ts';

/** Finds trouble in many answers of one provider to one worker, none of which is enough by itself. Its memory is bounded. */
export interface Suspicion {
  /**
   * Takes in one answer. The trouble that this answer makes certain, if it does.
   *
   * @param at epoch milliseconds
   */
  add(evidence: Pick<Evidence, 'recipientId' | 'trouble' | 'suspect'>, at: number): Trouble | undefined;
  /** Forgets all: what was answered before a breaker closed says nothing about now. */
  clear(): void;
}

/** What is older says nothing about now. */
const WINDOW_MS = 10_000;
/** Of a busy provider the latest answers are enough; half of a hundred failing by chance are 80 of them practically never. */
const WINDOW_ANSWERS = 100;
/** A provider that takes more than a fifth is worth being asked: retries with backoff get through. */
const OUTAGE_SHARE = 0.8;
/** One recipient whose notifications always fail is no outage. */
const OUTAGE_RECIPIENTS = 5;
/** A device has a quota of its own; so many at once are the project's. */
const QUOTA_RECIPIENTS = 10;
/** Tokens do go bad, but not those of so many in a row: most likely all belong to another app or environment. */
const CONFIGURATION_RECIPIENTS = 20;

export function createSuspicion(): Suspicion {
  /** The latest answers, the oldest of which is overwritten next. `failed` is the recipient, '' after any other answer. */
  const answers = Array.from({ length: WINDOW_ANSWERS }, () => ({ at: -Infinity, failed: '' }));
  let oldest = 0;
  /** When each recipient last met its device's quota, in that order. */
  const overQuota = new Map<string, number>();
  /** Since the last good answer. */
  const misconfigured = new Set<string>();

  function isOutage(at: number): boolean {
    const latest = answers.filter((answer) => answer.at > at - WINDOW_MS);
    const failures = latest.filter(({ failed }) => failed !== '');
    if (failures.length < OUTAGE_SHARE * latest.length) return false;
    return new Set(failures.map(({ failed }) => failed)).size >= OUTAGE_RECIPIENTS;
  }

  function isQuota(recipientId: string, at: number): boolean {
    overQuota.delete(recipientId);
    overQuota.set(recipientId, at);
    for (const [recipient, metAt] of overQuota) if (metAt <= at - WINDOW_MS) overQuota.delete(recipient);
    return overQuota.size >= QUOTA_RECIPIENTS;
  }

  function clear(): void {
    for (const answer of answers) answer.at = -Infinity;
    overQuota.clear();
    misconfigured.clear();
  }

  function weigh(suspect: Trouble | undefined, recipientId: string, at: number): boolean {
    if (suspect === 'outage') return isOutage(at);
    if (suspect === 'quota') return isQuota(recipientId, at);
    return suspect === 'configuration' && misconfigured.add(recipientId).size >= CONFIGURATION_RECIPIENTS;
  }

  return {
    add({ recipientId, trouble, suspect }, at) {
      const slot = answers[oldest];
      if (slot) {
        slot.at = at;
        slot.failed = suspect === 'outage' ? recipientId : '';
      }
      oldest = (oldest + 1) % WINDOW_ANSWERS;
      if (trouble === undefined && suspect === undefined) misconfigured.clear();
      if (!weigh(suspect, recipientId, at)) return undefined;
      clear();
      return suspect;
    },
    clear,
  };
}
