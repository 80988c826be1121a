import { Counter, Gauge, type Registry } from 'prom-client';

/** What there is of dead letters now. */
export interface DeadLetterFigures {
  readonly count: number;
  /** How long ago the oldest one died; 0 where there is none. */
  readonly oldestAgeMs: number;
}

export interface DeadLetterMetrics {
  /** So many were removed for good, since they were too old or too many. */
  removed(why: 'age' | 'count', dead: number): void;
}

/** `figures` is asked when somebody looks; undefined where Redis does not answer. Every replica tells the same numbers. */
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
  for (const why of ['age', 'count']) removed.inc({ why }, 0); // a rate needs a number to begin with

  let looking: Promise<DeadLetterFigures | undefined> | undefined;
  /** One look for both gauges. */
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
          this.remove(); // no number is better than the last one
        else this.set(valueOf(found));
      },
    });
  };
  gauge('pushpacer_dead_letters', 'Dead letters that wait for a replay.', ({ count }) => count);
  gauge(
    'pushpacer_dead_letters_oldest_age_seconds',
    'How long ago the oldest dead letter died; 0 where there is none.',
    ({ oldestAgeMs }) => oldestAgeMs / 1_000,
  );
  return { removed: (why, dead) => removed.inc({ why }, dead) };
}
