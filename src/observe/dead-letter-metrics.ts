import { Counter, Gauge, type Registry } from 'prom-client';

/** How many dead letters there are now, and how old. */
export interface DeadLetterFigures {
  readonly count: number;
  /** Milliseconds since the oldest one became a dead letter; 0 if there is none. */
  readonly oldestAgeMs: number;
}

export interface DeadLetterMetrics {
  /** Counts dead letters that were removed for good because they were too old or too many. */
  removed(why: 'age' | 'count', dead: number): void;
}

/** `figures` is read at each scrape; undefined if Redis does not answer. Every replica reports the same numbers. */
export function createDeadLetterMetrics(
  registry: Registry,
  figures: () => Promise<DeadLetterFigures | undefined>,
): DeadLetterMetrics {
  const registers = [registry];
  const removed = new Counter({
    name: 'pushpacer_dead_letters_removed_total',
    help: 'Dead letters that this replica removed for good, too old (age) or too many (count).',
    labelNames: ['why'],
    registers,
  });
  for (const why of ['age', 'count']) removed.inc({ why }, 0); // Prometheus can only see the first removal as a rise if there was a 0 before

  let looking: Promise<DeadLetterFigures | undefined> | undefined;
  /** Both gauges of one scrape share one read. */
  const look = (): Promise<DeadLetterFigures | undefined> => {
    looking ??= figures().finally(() => (looking = undefined));
    return looking;
  };
  const gauge = (name: string, help: string, valueOf: (figures: DeadLetterFigures) => number): void => {
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const found = await look();
        if (found === undefined)
          this.remove(); // no number is better than an old one
        else this.set(valueOf(found));
      },
    });
  };
  gauge('pushpacer_dead_letters', 'Dead letters that wait to be replayed or discarded.', ({ count }) => count);
  gauge(
    'pushpacer_dead_letters_oldest_age_seconds',
    'Age of the oldest dead letter; 0 if there is none.',
    ({ oldestAgeMs }) => oldestAgeMs / 1_000,
  );
  return { removed: (why, dead) => removed.inc({ why }, dead) };
}
