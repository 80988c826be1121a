import type { Trouble } from '../domain/outcome.ts';
import type { Evidence } from './breaker.ts';

/** Half of a hundred failing by chance are 80 of them practically never. What is older says nothing about now. */
const ANSWERS = 100;
const WINDOW_MS = 10_000;
/** A provider that takes more than a fifth is worth being asked: retries with backoff get through. */
const OUTAGE_SHARE = 0.8;
/** So many different recipients: one whose notifications always fail is no outage, and a device has a quota of its own. */
const RECIPIENTS: Readonly<Record<Trouble, number>> = { outage: 5, quota: 10, configuration: 20, auth: 1 };

type Weighed = Pick<Evidence, 'recipientId' | 'trouble' | 'suspect'>;

/** Finds trouble in the latest answers of one provider to one worker, none of which is enough by itself. */
export function createSuspicion() {
  let answers: (Weighed & { readonly at: number })[] = [];
  return {
    /** The trouble that this answer makes certain, if it does. @param at epoch milliseconds */
    add({ recipientId, trouble, suspect }: Weighed, at: number): Trouble | undefined {
      answers.push({ recipientId, trouble, suspect, at });
      if (answers.length > ANSWERS) answers.shift();
      if (suspect === undefined) return undefined;
      // Bad tokens in a row are counted however long they take: a good answer ends the row.
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
