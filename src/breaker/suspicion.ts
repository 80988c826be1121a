import type { Trouble } from '../domain/outcome.ts';
import type { Evidence } from './breaker.ts';

/** With 100 answers of which half fail by chance, 80 failures practically never occur. Older answers are not looked at. */
const ANSWERS = 100;
const WINDOW_MS = 10_000;
/** A provider that accepts more than a fifth is not stopped: retries with backoff get through. */
const OUTAGE_SHARE = 0.8;
/** How many different recipients it takes: if only one recipient's notifications fail, the provider is not at fault. */
const RECIPIENTS: Readonly<Record<Trouble, number>> = { outage: 5, quota: 10, configuration: 20, auth: 1 };

type Weighed = Pick<Evidence, 'recipientId' | 'trouble' | 'suspect'>;

/** Finds trouble in the latest answers of one provider to one worker, where no single answer is proof. */
export function createSuspicion() {
  let answers: (Weighed & { readonly at: number })[] = [];
  return {
    /** The trouble, if this answer makes it certain. @param at epoch milliseconds */
    add({ recipientId, trouble, suspect }: Weighed, at: number): Trouble | undefined {
      answers.push({ recipientId, trouble, suspect, at });
      if (answers.length > ANSWERS) answers.shift();
      if (suspect === undefined) return undefined;
      // Bad tokens are counted in a row, over any length of time; a good answer ends the row.
      const lastGood = answers.findLastIndex((answer) => (answer.trouble ?? answer.suspect) === undefined);
      const latest = answers.filter((answer, index) =>
        suspect === 'configuration' ? index > lastGood : answer.at > at - WINDOW_MS,
      );
      const same = latest.filter((answer) => answer.suspect === suspect);
      if (suspect === 'outage' && same.length < OUTAGE_SHARE * latest.length) return undefined;
      if (new Set(same.map((answer) => answer.recipientId)).size < RECIPIENTS[suspect]) return undefined;
      answers = [];
      return suspect;
    },
    clear: () => void (answers = []),
  };
}
