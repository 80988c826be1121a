import { z } from 'zod';
import {
  DEFAULT_PREFIX,
  DEFAULT_REDIS_URL,
  MAX_SHARDS,
  parseRedisUrls,
  PREFIX_FORMAT,
  PREFIX_PATTERN,
  REDIS_URLS_FORMAT,
} from '../domain/queue-address.ts';
import { anyText, duration, flag, integer, parsed, rules, text } from '../environment/values.ts';
import { PROVIDER_SECRETS, providerVariables } from './providers.ts';

/** The variables before the providers' own: the values that are allowed, what they become, and the README's text. */
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
  QUEUE_PREFIX: text(PREFIX_PATTERN, PREFIX_FORMAT)
    .default(DEFAULT_PREFIX)
    .describe('the prefix of every queue key; the braces keep a queue in one Cluster slot'),
  QUEUE_SHARDS: integer(1, MAX_SHARDS).default(1).describe('queues to spread over a cluster'),
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
    .describe('a notification whose slot lies further ahead becomes a dead letter, `throttled-too-long`'),
  LIMIT_MAX_PENDING: integer(1, 1_000_000)
    .default(10_000)
    .describe('if this many wait for a recipient already, one more becomes a dead letter, `throttled-too-long`'),
  WORKER_CONCURRENCY: integer(1, 10_000).default(50).describe('jobs under way at once in one worker'),
  ATTEMPTS: integer(1, 1_000).default(8).describe('delivery attempts before a dead letter'),
  BACKOFF_BASE: duration().default(1_000).describe('wait after the first failed attempt; doubles with each'),
  BACKOFF_MAX: duration().default(600_000).describe('the longest wait between two attempts'),
  AT_MOST_ONCE: flag()
    .default(false)
    .describe('`true`: what may have alerted is never sent again; it becomes a dead letter, `ambiguous`'),
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
  SHUTDOWN_GRACE: duration('1d').default(10_000).describe('how long a stopping worker waits for what is in flight'),
};

/** Beside the providers' own. */
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
};

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

/** Variables whose value an error must not repeat: they hold keys, or may hold a password. */
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

function port() {
  return parsed('a port from 0 to 65535, or off', (value): number | 'off' | undefined => {
    if (value === 'off') return 'off';
    return /^\d{1,5}$/.test(value) && Number(value) <= 65_535 ? Number(value) : undefined;
  });
}
