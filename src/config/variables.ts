import { z } from 'zod';
import { DURATION_FORMAT, parseDuration } from '../domain/duration.ts';
import { formatFault } from '../domain/faults.ts';
import { parseRules, type Rule } from '../domain/limits.ts';

/**
 * A quota keeps a number for each bucket of time, not an entry for each send, and so may be larger than a recipient's rule.
 * An hour at most: what is sent away waits for as long.
 */
const LARGEST_QUOTA: Rule = { max: 1_000_000_000, perMs: 3_600_000 };

/** The environment of a worker: what each variable may hold, what it becomes, and what the README says of it. */
const shape = {
  REDIS_URL: redisUrls()
    .default(['redis://127.0.0.1:6379'])
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
  QUEUE_PREFIX: text(/^[^\s:]{1,64}$/, 'up to 64 characters without spaces and colons, such as {pushpacer}')
    .default('{pushpacer}')
    .describe('the prefix of every queue key; the braces keep a queue in one Cluster slot'),
  QUEUE_SHARDS: integer(1, 64).default(1).describe('queues to spread over a cluster'),
  LIMIT_RULES: rules('LIMIT_RULES')
    .default([{ max: 10, perMs: 60_000 }])
    .describe('comma-separated `max/per`: `1/1s,20/1m,200/1h,800/1d`'),
  LIMIT_MIN_GAP: duration().default(3_000).describe('least time between two alerts to one recipient; `0` for none'),
  LIMITS_FILE: anyText().optional().describe('path of a JSON file with limits per category (docs/limits.md)'),
  LIMIT_MAX_WAIT: duration()
    .default(86_400_000)
    .describe('a notification whose slot lies further ahead becomes a dead letter, `throttled-too-long`'),
  LIMIT_MAX_PENDING: integer(1, 1_000_000)
    .optional()
    .describe('where so many wait for a recipient already, one more becomes a dead letter, `throttled-too-long`'),
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
    .describe('a job that took its workers down with it more often than this becomes a dead letter, `stalled`'),
  PROVIDER_PAUSE_BASE: duration('1h', '100ms')
    .default(5_000)
    .describe('first pause of a provider that is down or refuses the credentials; doubles as long as probes fail'),
  PROVIDER_PAUSE_MAX: duration('1d', '100ms').default(120_000).describe('the longest of these pauses'),
  DEAD_LETTER_MAX_AGE: duration('365d')
    .default(2_592_000_000)
    .describe('dead letters older than this are removed, with a warning ahead of time; `0`: never'),
  DEAD_LETTER_MAX_COUNT: integer(0, 100_000_000)
    .default(100_000)
    .describe(
      'the most dead letters to keep: beyond it the oldest are removed, with a warning ahead of time; `0`: all',
    ),
  SHUTDOWN_GRACE: duration('1d').default(10_000).describe('how long a stopping worker waits for what is in flight'),
  APNS_KEY_FILE: anyText().optional().describe('path of the .p8 key'),
  APNS_KEY: anyText().optional().describe('the .p8 key as PEM, instead of a file'),
  APNS_KEY_ID: text(/^[A-Za-z0-9]{1,32}$/, 'a key id such as ABC123DEFG')
    .optional()
    .describe('the id of that key'),
  APNS_TEAM_ID: text(/^[A-Za-z0-9]{1,32}$/, 'a team id such as DEF123GHIJ')
    .optional()
    .describe("the developer team's id"),
  APNS_TOPIC: text(/^[\x21-\x7e]{1,255}$/, 'a bundle id such as com.example.app')
    .optional()
    .describe("the app's bundle id"),
  APNS_ENDPOINT: httpsUrl()
    .default('https://api.push.apple.com')
    .describe('also `https://api.sandbox.push.apple.com`, or a loopback server'),
  APNS_CA_FILE: anyText().optional().describe("a CA to trust beside the system's"),
  APNS_QUOTA: rules('APNS_QUOTA', LARGEST_QUOTA)
    .optional()
    .describe('the most sends to APNs, by all workers together: rules such as `600000/1m`, of an hour at most'),
  GOOGLE_APPLICATION_CREDENTIALS: anyText().optional().describe("path of the service account's JSON"),
  FCM_PROJECT_ID: text(/^[a-z0-9:.-]{1,100}$/, 'a project id such as my-app-1234')
    .optional()
    .describe('the project; from the service account where it is left out'),
  FCM_ENDPOINT: httpsUrl()
    .default('https://fcm.googleapis.com')
    .describe('another host for tests; with it, a static token is used and no Google sign-in happens'),
  FCM_CA_FILE: anyText().optional().describe("a CA to trust beside the system's"),
  FCM_QUOTA: rules('FCM_QUOTA', LARGEST_QUOTA).optional().describe('the same for FCM'),
  METRICS_HOST: anyText().default('127.0.0.1').describe('where `/metrics`, `/healthz` and `/readyz` are served'),
  METRICS_PORT: port()
    .default(9464)
    .describe('`0`: any free port; a port in use: a warning and a free one; `off`: none'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe('pino levels; JSON lines on standard output'),
};

export const variablesSchema = z.object(shape);
export type Variables = z.output<typeof variablesSchema>;

/** Variables whose value an error must not repeat: they hold keys, or may hold a password. */
export const SECRET_VARIABLES: ReadonlySet<string> = new Set([
  'APNS_KEY',
  'REDIS_URL',
  'REDIS_SENTINEL_PASSWORD',
  'LIMITER_REDIS_URL',
  'APNS_ENDPOINT',
  'FCM_ENDPOINT',
]);

function anyText() {
  return z.string().min(1);
}

function text(pattern: RegExp, expected: string) {
  return z.string().regex(pattern, { error: expected });
}

/** As Sentinel's own configuration allows them. */
function groupName() {
  return text(/^[A-Za-z0-9._-]{1,255}$/, "a master's name such as mymaster");
}

/** A variable's text → a value, or what was expected instead. */
function parsed<T>(expected: string, parse: (text: string) => T | undefined) {
  return z.string().transform((value, context): T => {
    const result = parse(value.trim());
    if (result !== undefined) return result;
    context.addIssue({ code: 'custom', message: expected });
    return z.NEVER;
  });
}

function integer(least: number, most: number) {
  return parsed(`an integer from ${least} to ${most}`, (value) => {
    const number = /^\d{1,9}$/.test(value) ? Number(value) : NaN;
    return number >= least && number <= most ? number : undefined;
  });
}

function flag() {
  return parsed('true or false', (value) => ({ true: true, false: false })[value]);
}

function duration(most = '31d', least = '0') {
  const range =
    least === '0' ? `0 or ${DURATION_FORMAT}, at most ${most}` : `${DURATION_FORMAT}, from ${least} to ${most}`;
  return parsed(range, (value) => {
    const ms = parseDuration(value);
    const isWithin = ms !== undefined && ms >= (parseDuration(least) ?? 0) && ms <= (parseDuration(most) ?? 0);
    return isWithin ? ms : undefined;
  });
}

function rules(name: string, largest?: Rule) {
  return z.string().transform((value, context): readonly Rule[] => {
    const result = parseRules(value, name, largest);
    if (result.ok) return result.rules;
    const message = `rules as max/per, such as 10/1m,200/1h (${result.faults.map(formatFault).join('; ')})`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });
}

function redisUrls() {
  return parsed('redis:// or rediss:// URLs, comma-separated', (value) => {
    const urls = value.split(',').map((url) => url.trim());
    return urls.every((url) => /^rediss?:\/\//.test(url) && URL.canParse(url)) ? urls : undefined;
  });
}

function httpsUrl() {
  return parsed('an https:// URL without a path and without a user', (value) => {
    if (!URL.canParse(value)) return undefined;
    const url = new URL(value);
    const isBare = url.pathname === '/' && url.search === '' && url.username === '' && url.password === '';
    return url.protocol === 'https:' && isBare ? url.origin : undefined;
  });
}

function port() {
  return parsed('a port from 0 to 65535, or off', (value): number | 'off' | undefined => {
    if (value === 'off') return 'off';
    return /^\d{1,5}$/.test(value) && Number(value) <= 65_535 ? Number(value) : undefined;
  });
}
