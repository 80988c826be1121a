/** One answer of a provider. A hit speaks for what the window is to find out. */
export interface Answer {
  /** Milliseconds on a steady clock. */
  readonly at: number;
  readonly notificationId: string;
  readonly isHit: boolean;
}

/** The latest answers of one provider to one process. */
export interface Window {
  /** Whether the answers, with this one, are enough to believe it. Only a hit can be the one that is enough. */
  add(answer: Answer): boolean;
  clear(): void;
}

/** What is older says nothing about now. */
export const WINDOW_MS = 10_000;
/**
 * Nor is more of it needed: where a busy provider breaks down, 80 answers tell it, not as many as a whole window of good ones
 * would have to be outnumbered by. Half of a hundred failing by chance passes for 80 of them once in a billion windows.
 */
export const WINDOW_ANSWERS = 100;
/** One reset connection or one slow answer is no outage. */
export const MIN_HITS = 5;
/** One notification that fails each time it is tried, by its own fault, is none either, nor are two. */
export const MIN_NOTIFICATIONS = 3;
/** A provider that takes more than a fifth is worth being asked: retries with backoff get through. */
export const MIN_SHARE = 0.8;

/** Believes what most of the latest answers say, for several notifications. Its memory is bounded. */
export function createWindow(): Window {
  let answers: Answer[] = [];
  return {
    add(answer) {
      if (answers.length >= 2 * WINDOW_ANSWERS) answers = answers.slice(-WINDOW_ANSWERS);
      answers.push(answer);
      return answer.isHit && isBelieved(answers, answer.at - WINDOW_MS);
    },
    clear() {
      answers = [];
    },
  };
}

function isBelieved(answers: readonly Answer[], since: number): boolean {
  const latest = answers.slice(-WINDOW_ANSWERS).filter(({ at }) => at > since);
  const hits = latest.filter(({ isHit }) => isHit);
  if (hits.length < MIN_HITS || hits.length < MIN_SHARE * latest.length) return false;
  return new Set(hits.map(({ notificationId }) => notificationId)).size >= MIN_NOTIFICATIONS;
}
