import { availableParallelism } from 'node:os';
import { z } from 'zod';
import { didYouMean, nearest, typingMistakes, type Fault } from '../domain/faults.ts';
import { ruleName, type Rule } from '../domain/limits.ts';
import { formatDuration } from '../domain/time.ts';
import { anyText, duration, flag, integer, parsed, rules, text, type Environment } from '../environment/values.ts';
import {
  DEFAULT_PREFIX,
  DEFAULT_REDIS_URL,
  MAX_SHARDS,
  parseRedisUrls,
  PREFIX_FORMAT,
  PREFIX_PATTERN,
  REDIS_URLS_FORMAT,
} from '../redis/target.ts';
import { PROVIDER_SECRETS, providerVariables } from './apps-file.ts';

const MAX_PROCESSES = 256;
export const PROCESSES_FORMAT = `an integer from 1 to ${MAX_PROCESSES}, or auto`;

/** How many worker processes a text asks for; `auto`: one for each core that this process may use. Undefined for a bad text. */
export function parseProcesses(value: string): number | undefined {
  if (value === 'auto') return Math.min(availableParallelism(), MAX_PROCESSES);
  const number = /^\d{1,3}$/.test(value) ? Number(value) : NaN;
  return number >= 1 && number <= MAX_PROCESSES ? number : undefined;
}

/** The variables before the providers' own: for each, the allowed values, what they become, and the README's text. */
const queueAndDelivery = {
  REDIS_URL: redisUrls()
    .default([DEFAULT_REDIS_URL])
    .describe(
      '`redis://` or `rediss://`; several, comma-separated, with `REDIS_CLUSTER=true` (nodes) or `REDIS_SENTINEL_NAME` (Sentinels)',
    ),
  REDIS_CLUSTER: flag().default(false).describe('`true`: the nodes are a Redis Cluster'),
  REDIS_SENTINEL_NAME: groupName()
    .optional()
    .describe('the name of a master, such as `mymaster`: the URLs are then those of its Sentinels (docs/redis.md)'),
  REDIS_SENTINEL_PASSWORD: anyText().optional().describe("the Sentinels' own password; those in the URLs are Redis's"),
  LIMITER_REDIS_URL: redisUrls().optional().describe('a Redis of its own for the limiter; `REDIS_URL` otherwise'),
  LIMITER_REDIS_SENTINEL_NAME: groupName()
    .optional()
    .describe("the limiter's master, where the Sentinels know it by another name"),
  REDIS_WAIT_REPLICAS: integer(0, 10)
    .default(0)
    .describe('so many replicas must have a slot before a worker sends in it; `0`: none (docs/redis.md)'),
  REDIS_WAIT_TIMEOUT: duration('1500ms', '10ms')
    .default(1_000)
    .describe('how long a worker waits for them before it puts the notification back'),
  QUEUE_PREFIX: text(PREFIX_PATTERN, PREFIX_FORMAT)
    .default(DEFAULT_PREFIX)
    .describe('the prefix of every queue key; the braces keep a queue in one Cluster slot'),
  QUEUE_SHARDS: integer(1, MAX_SHARDS)
    .default(1)
    .describe(
      'over how many queues (shards) a new installation spreads its recipients; `pushpacer reshard` changes it later (docs/shards.md)',
    ),
  LIMIT_RULES: rules('LIMIT_RULES')
    .default([{ max: 10, perMs: 60_000 }])
    .describe('comma-separated `max/per`: `1/1s,20/1m,200/1h,800/1d`'),
  LIMIT_MIN_GAP: duration().default(3_000).describe('least time between two alerts to one recipient; `0` for none'),
  LIMITS_FILE: anyText()
    .optional()
    .describe('path of a JSON file with limits per category and quiet hours (docs/limits.md)'),
  LIMIT_BACKGROUND_RULES: rules('LIMIT_BACKGROUND_RULES')
    .default([{ max: 3, perMs: 3_600_000 }])
    .describe('as `LIMIT_RULES`, for background pushes to one recipient; Apple asks for no more than 2 or 3 an hour'),
  LIMIT_LIVE_ACTIVITY_RULES: rules('LIMIT_LIVE_ACTIVITY_RULES')
    .default([{ max: 1, perMs: 15_000 }])
    .describe('as `LIMIT_RULES`, for Live Activities of one recipient, where they show no alert'),
  LIMIT_MAX_WAIT: duration()
    .default(86_400_000)
    .describe(
      'a notification whose slot lies further ahead, quiet time and blocks left out, becomes a dead letter, `throttled-too-long`',
    ),
  LIMIT_MAX_PENDING: integer(1, 1_000_000)
    .default(10_000)
    .describe('if this many wait for a recipient already, one more becomes a dead letter, `throttled-too-long`'),
  LIMIT_MAX_OVERTAKEN: integer(0, 1_000_000)
    .default(20)
    .describe(
      'how often a notification that waits is overtaken by others of `high` priority, at most; `0`: never, they go behind it',
    ),
  LIMIT_MAX_OVERTAKEN_WAIT: duration()
    .default(600_000)
    .describe('how late that may make it, quiet time apart: one that is later by this is not overtaken any more'),
  WORKER_CONCURRENCY: integer(1, 10_000).default(50).describe('jobs under way at once in one worker'),
  WORKER_PROCESSES: parsed(PROCESSES_FORMAT, parseProcesses)
    .default(1)
    .describe(
      'how many workers `pushpacer worker` runs, each in a process of its own; `auto`: one for each core (docs/scaling.md)',
    ),
  ATTEMPTS: integer(1, 1_000).default(8).describe('delivery attempts before a dead letter'),
  BACKOFF_BASE: duration().default(1_000).describe('wait after the first failed attempt; doubles with each'),
  BACKOFF_MAX: duration().default(600_000).describe('the longest wait between two attempts'),
  AT_MOST_ONCE: flag()
    .default(false)
    .describe('`true`: what may have alerted is never sent again; it becomes a dead letter, `ambiguous`'),
  CREDENTIALS_WAIT: duration('1d')
    .default(600_000)
    .describe(
      'how long a notification waits for a worker with credentials for it, while none is alive; then `provider-not-configured`',
    ),
  ALLOW_NO_CREDENTIALS: flag()
    .default(false)
    .describe('`true`: a worker starts although no platform has credentials; it sends nothing'),
  LOCK_DURATION: duration('1h', '1s')
    .default(30_000)
    .describe('how long a worker that went silent keeps its jobs before others take them'),
  MAX_STALLS: integer(1, 1_000)
    .default(10)
    .describe('a job that lost its worker more often than this becomes a dead letter, `stalled`'),
  PROVIDER_PAUSE_BASE: duration('1h', '100ms')
    .default(5_000)
    .describe(
      'how long nothing is sent to a provider that is down, or refuses the credentials or the app; doubles with each failed trial',
    ),
  PROVIDER_PAUSE_MAX: duration('1d', '100ms').default(120_000).describe('the longest such pause'),
  DEAD_LETTER_MAX_AGE: duration('365d')
    .default(2_592_000_000)
    .describe('dead letters older than this are removed, with a warning ahead of time; `0`: never'),
  DEAD_LETTER_MAX_COUNT: integer(0, 100_000_000)
    .default(100_000)
    .describe(
      'the most dead letters to keep: beyond it the oldest are removed, with a warning ahead of time; `0`: all',
    ),
  OUTCOMES_MAX: integer(0, 100_000_000)
    .default(0)
    .describe(
      'about how many outcomes of notifications the stream of outcomes keeps; `0`: there is none (docs/outcomes.md)',
    ),
  HISTORY_MAX: integer(0, 100_000_000)
    .default(0)
    .describe(
      'of how many notifications the story is kept when they have ended; `0`: no stories are recorded (docs/stories.md)',
    ),
  HISTORY_MAX_AGE: duration('365d', '1m').default(604_800_000).describe('how long a story is kept'),
  SHUTDOWN_GRACE: duration('1d').default(10_000).describe('how long a stopping worker waits for what is in flight'),
};

/** The variables about further apps. */
const otherApps = {
  APPS_FILE: anyText().optional().describe('path of a JSON file with more apps and their credentials (docs/apps.md)'),
};

/** The variables after the providers' own. */
const observation = {
  METRICS_HOST: anyText().default('127.0.0.1').describe('where `/metrics`, `/healthz` and `/readyz` are served'),
  METRICS_PORT: port()
    .default(9464)
    .describe('`0`: any free port; a port in use: a warning and a free one; `off`: none'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe('pino levels; JSON lines on standard output'),
  OTEL_PUSHPACER_PARENT: flag()
    .default(false)
    .describe(
      '`true`: in traces, passes are children of the span that enqueued, not traces of their own with a link to it (docs/tracing.md)',
    ),
};

/** The variables of the HTTP API. It reads the variables of the queue, the limits and the log too. */
export const apiSchema = z.object({
  API_HOST: anyText().default('127.0.0.1').describe('where the API listens; beyond this machine use TLS'),
  API_PORT: listeningPort().default(8620).describe('`0`: any free port'),
  API_TOKENS_FILE: anyText().default('api-tokens.json').describe('the bearer tokens, which `pushpacer token` writes'),
  API_TLS_CERT_FILE: anyText().optional().describe('the certificate chain as PEM, for HTTPS without a proxy'),
  API_TLS_KEY_FILE: anyText().optional().describe('its private key as PEM'),
  API_MAX_WAITING: integer(1, 100_000_000)
    .default(1_000_000)
    .describe('if this many notifications wait, no more are taken: 429; a token may have its own number'),
});

/** The variables of the console. It reads the variables of the queue, the limits and the log too. Its tokens are the API's. */
export const consoleSchema = z.object({
  CONSOLE_HOST: anyText()
    .default('127.0.0.1')
    .describe('where the console listens; beyond this machine it wants a login'),
  CONSOLE_PORT: listeningPort().default(8621).describe('`0`: any free port'),
  CONSOLE_LOGIN: flag().default(false).describe('`true`: a login on this machine too, as behind a proxy'),
  CONSOLE_READ_ONLY: flag().default(false).describe('`true`: nobody can change anything'),
  CONSOLE_SHOW_TEXTS: flag().default(false).describe('`true`: titles, texts and data of notifications are shown'),
  CONSOLE_TLS_CERT_FILE: anyText().optional().describe('the certificate chain as PEM, for HTTPS without a proxy'),
  CONSOLE_TLS_KEY_FILE: anyText().optional().describe('its private key as PEM'),
  API_TOKENS_FILE: apiSchema.shape.API_TOKENS_FILE,
});

/** A worker's environment without the variables that each provider reads itself. */
export const variablesSchema = z.object({ ...queueAndDelivery, ...otherApps, ...observation });
export type Variables = z.output<typeof variablesSchema>;

/** The whole environment of a worker, in the README's order. */
export const environmentSchema = z.object({
  ...queueAndDelivery,
  ...providerVariables(),
  ...otherApps,
  ...observation,
});

/** Variables whose value an error must not repeat: they contain keys, or may contain a password. */
export const SECRET_VARIABLES: ReadonlySet<string> = new Set([
  'REDIS_URL',
  'REDIS_SENTINEL_PASSWORD',
  'LIMITER_REDIS_URL',
  ...PROVIDER_SECRETS,
]);

/** The characters that Sentinel's own configuration allows in a master's name. */
function groupName() {
  return text(/^[A-Za-z0-9._-]{1,255}$/, "a master's name such as mymaster");
}

function redisUrls() {
  return parsed(REDIS_URLS_FORMAT, parseRedisUrls);
}

function listeningPort() {
  return parsed('a port from 0 to 65535', portOf);
}

function portOf(value: string): number | undefined {
  return /^\d{1,5}$/.test(value) && Number(value) <= 65_535 ? Number(value) : undefined;
}

function port() {
  return parsed('a port from 0 to 65535, or off', (value): number | 'off' | undefined => {
    return value === 'off' ? 'off' : portOf(value);
  });
}

export interface VariableDoc {
  readonly name: string;
  /** The default as a person writes it into the environment; undefined if there is none. */
  readonly default: string | undefined;
  readonly meaning: string;
}

const DURATIONS =
  /^(REDIS_WAIT_TIMEOUT|LIMIT_MIN_GAP|LIMIT_MAX_WAIT|LIMIT_MAX_OVERTAKEN_WAIT|BACKOFF_|CREDENTIALS_WAIT|LOCK_DURATION|PROVIDER_PAUSE_|DEAD_LETTER_MAX_AGE|HISTORY_MAX_AGE|SHUTDOWN_GRACE)/;

/** Every variable that a worker reads, in the order of the README's table, which is generated from this. */
export const CONFIG_VARIABLES = docsOf(environmentSchema);
/** The variables that only the HTTP API has, for docs/http-api.md and the API's help. */
export const API_VARIABLES = docsOf(apiSchema);
/** The variables that only the console has, for docs/console.md and the console's help. */
export const CONSOLE_VARIABLES = docsOf(consoleSchema);

function docsOf({ shape }: z.ZodObject): readonly VariableDoc[] {
  return Object.entries(shape).map(([name, schema]) => ({
    name,
    default: written(name, (schema as z.ZodType).safeParse(undefined).data),
    meaning: (schema as z.ZodType).description ?? '',
  }));
}

/** A default as a person writes it into the environment. */
function written(name: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (/^LIMIT_.*RULES$/.test(name)) return (value as readonly Rule[]).map(ruleName).join(',');
  if (DURATIONS.test(name)) return formatDuration(value as number);
  return Array.isArray(value) ? value.join(',') : JSON.stringify(value).replaceAll('"', '');
}

/** A variable that pushpacer does not read, and the variable that was probably meant. */
export interface UnknownVariable {
  readonly name: string;
  readonly meant: string;
}

const KNOWN = [environmentSchema, apiSchema, consoleSchema].flatMap(({ shape }) => Object.keys(shape));
/** Families of variables that other programs have too: REDIS_URI beside REDIS_URL need not be a mistake. */
const SHARED = /^(REDIS|LOG|METRICS)_/;

/**
 * The variables of an environment that look like mistyped variables of pushpacer: `LIMIT_RULE` for `LIMIT_RULES`. Only names
 * that are very similar count, because most variables of an environment belong to other programs. Values are not looked at.
 */
export function unknownVariables(given: Environment): UnknownVariable[] {
  return Object.keys(given).flatMap((name) => {
    if (given[name] === undefined || KNOWN.includes(name)) return [];
    const near = KNOWN.filter((known) => isNear(name.toUpperCase(), known));
    const meant = nearest(name, near);
    if (meant === undefined || (SHARED.test(meant) && given[meant] !== undefined)) return [];
    return [{ name, meant }];
  });
}

/**
 * A fault for each mistyped variable of the limits: if the default were used instead, people might get more alerts than the
 * operator wanted. Other mistyped variables only cause a warning.
 */
export function mistypedLimits(given: Environment): Fault[] {
  return unknownVariables(given)
    .filter(({ name, meant }) => LIMIT_VARIABLE.test(meant) && given[name] !== '')
    .map(({ name, meant }) => ({ path: name, expected: `no such variable${didYouMean(meant)}`, found: 'one' }));
}

const LIMIT_VARIABLE = /^LIMITS?_/;

/** `LIMIT_RULE is not known; did you mean LIMIT_RULES?` */
export function unknownText({ name, meant }: UnknownVariable): string {
  return `${name} is not known; did you mean ${meant}?`;
}

/**
 * Whether `name` has at most one typing mistake, or two in a long word after the right family (`APNS_`). Short words, such as
 * METRICS_PATH and METRICS_PORT, may differ by two letters on purpose.
 */
function isNear(name: string, known: string): boolean {
  if (Math.abs(name.length - known.length) > 2 || name[0] !== known[0]) return false;
  const mistakes = typingMistakes(name, known);
  const [family, word] = [known.split('_', 1)[0] ?? '', known.slice(known.indexOf('_') + 1)];
  const isOfFamily = name.startsWith(`${family}_`);
  if (mistakes <= 1) return isOfFamily || name.includes('_') === known.includes('_');
  return mistakes === 2 && isOfFamily && word.length > 6;
}
