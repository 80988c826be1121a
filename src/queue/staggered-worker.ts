import { Worker, type Processor, type WorkerOptions } from 'bullmq';

/** One that found nothing once stays back up to this much; one that just had a job is there at the instant. */
const FIRST_STAGGER_MS = 4;
/** One that keeps finding nothing stays back up to this much: so late is a job if all who were nearer died. */
const LAST_STAGGER_MS = 500;

/** The longest stay behind a due instant, after so many rounds without a job. */
export function staggerMs(emptyRounds: number): number {
  return emptyRounds === 0 ? 0 : Math.min(FIRST_STAGGER_MS * 2 ** (emptyRounds - 1), LAST_STAGGER_MS);
}

/**
 * BullMQ tells every idle worker when the next delayed job is due, and all of them wake for it: of two dozen on two cores,
 * the one that got the job had to wait 30 to 90 ms for a processor. So each waits a little longer than it is told, by chance,
 * and the longer the more often it found nothing: a few stand ready, the others stay back. New jobs wake one of them at once
 * all the same.
 */
export class StaggeredWorker<Data = unknown, Result = unknown> extends Worker<Data, Result> {
  #emptyRounds = 0;

  constructor(name: string, processor: Processor<Data, Result>, options: WorkerOptions) {
    super(name, processor, options);
    this.on('active', () => {
      this.#emptyRounds = 0;
    });
  }

  protected override getBlockTimeout(blockUntil: number): number {
    const seconds = super.getBlockTimeout(blockUntil);
    // Cut short at BullMQ's longest block, it ends before the instant: no round, and nothing to stay back from.
    if (blockUntil === 0 || seconds <= 0 || seconds >= this.maximumBlockTimeout) return seconds;
    // The upper half of it by chance: those that stay back should not come together either.
    return seconds + ((0.5 + Math.random() / 2) * staggerMs(this.#emptyRounds++)) / 1_000;
  }
}
