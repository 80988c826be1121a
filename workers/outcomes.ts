import type { Config } from '../src/config/config.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import { createOutcomes, type Outcomes, type OutcomesOptions } from '../src/queue/outcomes.ts';
import { TROUBLE_EVERY_MS } from './redis.ts';

/** The stream of outcomes of this replica, with a log of what is lost; undefined where there is none. */
export function startOutcomes(
  { outcomesMax: max, queue, lockMs }: Pick<Config, 'outcomesMax' | 'queue' | 'lockMs'>,
  { redis, log }: Pick<OutcomesOptions, 'redis'> & { readonly log: Logger },
): Outcomes | undefined {
  if (max === 0) return undefined;
  const sparing = createSparing(TROUBLE_EVERY_MS);
  return createOutcomes({
    redis,
    ...queue,
    max,
    insistMs: lockMs,
    onLost: ({ id, outcome }, error) => {
      const repeats = sparing(error instanceof Error ? error.message : String(error));
      if (repeats !== undefined) log.error({ id, outcome, err: error, repeats }, LOST);
    },
  });
}

const LOST =
  'Redis did not take an outcome for the stream of outcomes; its consumers do not see it, and the notification is ended all the same';
