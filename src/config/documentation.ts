import { formatDuration } from '../domain/time.ts';
import { ruleName, type Rule } from '../domain/limits.ts';
import { environmentSchema } from './variables.ts';

export interface VariableDoc {
  readonly name: string;
  /** As one writes it into the environment; undefined if there is no default. */
  readonly default: string | undefined;
  readonly meaning: string;
}

const DURATIONS =
  /^(LIMIT_MIN_GAP|LIMIT_MAX_WAIT|BACKOFF_|LOCK_DURATION|PROVIDER_PAUSE_|DEAD_LETTER_MAX_AGE|SHUTDOWN_GRACE)/;

/** Every variable that a worker reads, in the order of the README's table, which is generated from this. */
export const CONFIG_VARIABLES: readonly VariableDoc[] = Object.entries(environmentSchema.shape).map(
  ([name, schema]) => ({
    name,
    default: written(name, schema.safeParse(undefined).data),
    meaning: schema.description ?? '',
  }),
);

/** A default as one writes it into the environment. */
function written(name: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (/^LIMIT_.*RULES$/.test(name)) return (value as readonly Rule[]).map(ruleName).join(',');
  if (DURATIONS.test(name)) return formatDuration(value as number);
  return Array.isArray(value) ? value.join(',') : JSON.stringify(value).replaceAll('"', '');
}
