import type { Trouble } from '../domain/outcome.ts';
import type { Evidence } from './breaker.ts';

/** With 100 answers of which half fail by chance, 80 failures practically never occur. Older answers are not looked at. */
const ANSWERS = 100;
/** On a busy provider the answers of this time count. */
const WINDOW_MS = 10_000;
/** A provider that accepts more than a fifth is not stopped: retries with backoff get through. */
const OUTAGE_SHARE = 0.8;
/** How many different recipients it takes on a busy provider: so many odd devices hardly fail in the same ten seconds. */
const MANY = 20;
/**
 * With little traffic, a few devices that fail again and again can be most of all answers. So there it also takes that nothing
 * was accepted for this long.
 */
const NOTHING_GOOD_MS = 30_000;
/** How many different recipients it takes for an outage where nothing was accepted. */
const FEW = 5;

type Weighed = Pick<Evidence, 'recipientId' | 'trouble' | 'suspect'>;
type Answer = Weighed & { readonly at: number };

/** Trouble that many answers show together. */
export interface Found {
  readonly trouble: Trouble;
  /** Whose notifications failed. */
  readonly recipientIds: readonly string[];
}

/** Finds trouble in the latest answers of one service to one worker, where no single answer is proof. */
export function createSuspicion() {
  let answers: Answer[] = [];
  let lastGoodAt = -Infinity;

  function isCertain(suspect: Trouble, same: readonly Answer[], at: number): boolean {
    const since = (ms: number): Answer[] => same.filter((answer) => answer.at > at - ms);
    const isNothingGood = at - lastGoodAt >= NOTHING_GOOD_MS;
    // Bad tokens are counted in a row, over any length of time; a good answer ends the row.
    if (suspect === 'configuration') return isNothingGood && recipientsOf(since(at - lastGoodAt)).length >= MANY;
    if (suspect === 'outage') {
      if (isNothingGood && recipientsOf(since(NOTHING_GOOD_MS)).length >= FEW) return true;
      const latest = answers.filter((answer) => answer.at > at - WINDOW_MS);
      if (since(WINDOW_MS).length < OUTAGE_SHARE * latest.length) return false;
    }
    return recipientsOf(since(WINDOW_MS)).length >= MANY;
  }

  return {
    /** The trouble, if this answer makes it certain. @param at epoch milliseconds */
    add({ recipientId, trouble, suspect }: Weighed, at: number): Found | undefined {
      answers.push({ recipientId, trouble, suspect, at });
      if (answers.length > ANSWERS) answers.shift();
      if ((trouble ?? suspect) === undefined) lastGoodAt = at;
      if (suspect === undefined) return undefined;
      const same = answers.filter((answer) => answer.suspect === suspect);
      if (!isCertain(suspect, same, at)) return undefined;
      answers = [];
      return { trouble: suspect, recipientIds: recipientsOf(same) };
    },
    clear: () => void (answers = []),
  };
}

function recipientsOf(answers: readonly Answer[]): string[] {
  return [...new Set(answers.map(({ recipientId }) => recipientId))];
}
