import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { z } from 'zod';
import { InputError, zodFaults, type Fault } from '../domain/faults.ts';
import type { CountedApart, CategoryPolicy, Policy, Rule, Overtaking } from '../domain/limits.ts';
import type { QuietHours } from '../domain/quiet-hours.ts';
import { formatDuration } from '../domain/time.ts';
import { readCertificate, readPrivateKey, reporter } from '../environment/files.ts';
import type { Environment } from '../environment/values.ts';
import { accountsOf, readCredentials, type Credentials, type CredentialsRead } from './apps-file.ts';
import { readLimitsFile } from './limits-file.ts';
import {
  apiSchema,
  consoleSchema,
  environmentSchema,
  mistypedLimits,
  SECRET_VARIABLES,
  variablesSchema,
  type Variables,
} from './variables.ts';

export interface RedisConfig {
  /** One URL, or the URLs of a cluster's nodes or of Sentinels, comma-separated. */
  readonly redisUrl: string;
  readonly cluster: boolean;
  /** Absent: no Sentinels. */
  readonly sentinel?: { readonly name: string; readonly password?: string };
}

/** The whole configuration of a worker. The README's table explains each variable. */
export interface Config extends Credentials {
  readonly redis: RedisConfig;
  readonly limiterRedis: RedisConfig;
  /** How many replicas of the limiter's Redis must have a slot before a worker uses it. `count` 0: none. */
  readonly waitReplicas: { readonly count: number; readonly timeoutMs: number };
  readonly queue: { readonly prefix: string; readonly shards: number };
  readonly policy: Policy;
  /** The limits of categories, in addition to `policy`. */
  readonly categories: Readonly<Record<string, CategoryPolicy>>;
  /** The quiet hours of all recipients without quiet hours of their own. Absent: none. */
  readonly quietHours?: QuietHours;
  /** The limits of pushes that do not count against `policy`: background pushes, and Live Activities without an alert. */
  readonly apartRules: Readonly<Record<CountedApart, readonly Rule[]>>;
  readonly maxWaitMs: number;
  /** How many notifications may wait for one recipient. */
  readonly maxPending: number;
  /** How far notifications of high priority go before others. */
  readonly overtaking: Overtaking;
  readonly concurrency: number;
  /** How many workers are to run, each in a process of its own. */
  readonly processes: number;
  readonly retry: { readonly attempts: number; readonly backoffBaseMs: number; readonly backoffMaxMs: number };
  /** A notification that may have alerted is never sent again. */
  readonly atMostOnce: boolean;
  /** How long a notification waits while no worker with credentials for it is alive. */
  readonly credentialsWaitMs: number;
  /** How long a worker that went silent keeps its job locks (milliseconds), and how often a job may stall. */
  readonly lockMs: number;
  readonly maxStalls: number;
  readonly providerPause: { readonly baseMs: number; readonly maxMs: number };
  /** 0: no bound. */
  readonly deadLetters: { readonly maxAgeMs: number; readonly maxCount: number };
  /** About how many outcomes the stream keeps; 0: there is no stream. */
  readonly outcomesMax: number;
  /** How many stories of notifications that have ended are kept, and for how long; `max` 0: no story is recorded. */
  readonly history: { readonly max: number; readonly maxAgeMs: number };
  readonly shutdownGraceMs: number;
  readonly metrics?: { readonly host: string; readonly port: number };
  readonly logLevel: Variables['LOG_LEVEL'];
  /** Whether passes are children of the producer's span in traces. */
  readonly tracesAreChildren: boolean;
}

/** Reads the configuration. Throws one InputError that lists every fault, without the value of a secret. */
export function loadConfig(env: Environment): Config {
  const faults: Fault[] = [];
  const { variables, given } = readVariables(env, faults);
  const limiter = limiterConfig(variables, faults);
  const { credentials } = readCredentials(given, faults);
  faults.push(...tlsFaults(env), ...mistypedLimits(env));
  refuse(faults);
  if (!variables.ALLOW_NO_CREDENTIALS && accountsOf(credentials).size === 0) refuse([NO_CREDENTIALS]);

  return Object.freeze({
    ...limiter,
    maxWaitMs: variables.LIMIT_MAX_WAIT,
    maxPending: variables.LIMIT_MAX_PENDING,
    overtaking: { mostTimes: variables.LIMIT_MAX_OVERTAKEN, mostMs: variables.LIMIT_MAX_OVERTAKEN_WAIT },
    concurrency: variables.WORKER_CONCURRENCY,
    processes: variables.WORKER_PROCESSES,
    retry: {
      attempts: variables.ATTEMPTS,
      backoffBaseMs: variables.BACKOFF_BASE,
      backoffMaxMs: variables.BACKOFF_MAX,
    },
    atMostOnce: variables.AT_MOST_ONCE,
    credentialsWaitMs: variables.CREDENTIALS_WAIT,
    lockMs: variables.LOCK_DURATION,
    maxStalls: variables.MAX_STALLS,
    providerPause: { baseMs: variables.PROVIDER_PAUSE_BASE, maxMs: variables.PROVIDER_PAUSE_MAX },
    deadLetters: { maxAgeMs: variables.DEAD_LETTER_MAX_AGE, maxCount: variables.DEAD_LETTER_MAX_COUNT },
    outcomesMax: variables.OUTCOMES_MAX,
    history: { max: variables.HISTORY_MAX, maxAgeMs: variables.HISTORY_MAX_AGE },
    shutdownGraceMs: variables.SHUTDOWN_GRACE,
    ...credentials,
    ...(variables.METRICS_PORT !== 'off' && {
      metrics: { host: variables.METRICS_HOST, port: variables.METRICS_PORT },
    }),
    logLevel: variables.LOG_LEVEL,
    tracesAreChildren: variables.OTEL_PUSHPACER_PARENT,
  });
}

const NO_CREDENTIALS: Fault = {
  path: '',
  expected:
    'credentials of APNs, FCM or web push (docs/getting-started.md), or ALLOW_NO_CREDENTIALS=true for a worker that sends nothing',
  found: 'none',
};

/** Reads the credentials of all apps again, while the worker runs. Never throws: a faulty account keeps its old credentials. */
export function reloadCredentials(env: Environment): CredentialsRead & { readonly faults: readonly Fault[] } {
  const { given } = readVariables(env, []); // there were no faults at the start, and the environment has not changed since
  const faults: Fault[] = [];
  return { ...readCredentials(given, faults), faults };
}

/** Whether the limiter has a Redis of its own. */
export function hasOwnLimiter({ redis, limiterRedis }: Pick<Config, 'redis' | 'limiterRedis'>): boolean {
  return JSON.stringify(limiterRedis) !== JSON.stringify(redis);
}

/** For commands that only use the queue: where the queue is. */
export function loadQueueConfig(env: Environment): Pick<Config, 'redis' | 'queue'> {
  return load(env, QUEUE_VARIABLES, queueConfig);
}

/** For the command that says how long a replay takes: the overall limits of a recipient. */
export function loadPolicy(env: Environment): Policy {
  return load(env, ['LIMIT_RULES', 'LIMIT_MIN_GAP'], policyConfig);
}

/** For commands that act on recipients: where the limiter and the queue are, and the limits. */
export function loadLimiterConfig(env: Environment) {
  return load(env, LIMITER_VARIABLES, limiterConfig);
}

/** What the HTTP servers read beside their own variables: where queue and limiter are, and the limits. */
type ServerConfig = ReturnType<typeof loadLimiterConfig> & { readonly logLevel: Variables['LOG_LEVEL'] };

/** Where an HTTP server listens, and who may use it. */
interface Listening {
  readonly host: string;
  readonly port: number;
  readonly tokensFile: string;
  /** Certificate and key as PEM. Absent: plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

export interface ApiConfig extends ServerConfig {
  readonly api: Listening & {
    /** If more notifications than this wait, the API takes no more. */
    readonly maxWaiting: number;
  };
  /** For slots that are asked for over HTTP: how far ahead a slot may lie, and how many may wait for one recipient. */
  readonly admits: Pick<Config, 'maxWaitMs' | 'maxPending'>;
}

/** The environment of the HTTP API. Throws one InputError that lists every fault. */
export function loadApiConfig(env: Environment): ApiConfig {
  const faults: Fault[] = [];
  const own = readOwn(apiSchema, env, faults);
  const { API_HOST: host, API_PORT: port, API_TOKENS_FILE: tokensFile, API_MAX_WAITING: maxWaiting } = own;
  const tls = readTls('API_TLS', own.API_TLS_CERT_FILE, own.API_TLS_KEY_FILE, faults);
  const server = serverConfig(env, faults);
  const { LIMIT_MAX_WAIT: maxWaitMs, LIMIT_MAX_PENDING: maxPending } = readSome(ADMIT_VARIABLES, env, faults);
  refuse(faults);
  return { ...server, api: { host, port, tokensFile, maxWaiting, ...tls }, admits: { maxWaitMs, maxPending } };
}

export interface ConsoleConfig extends ServerConfig {
  readonly console: Listening & {
    /** Demands a login on the loopback interface too. On other addresses a login is always needed. */
    readonly login: boolean;
    readonly readOnly: boolean;
    /** Shows titles, texts and data of notifications. */
    readonly showTexts: boolean;
  };
}

/** The environment of the console. Throws one InputError that lists every fault. */
export function loadConsoleConfig(env: Environment): ConsoleConfig {
  const faults: Fault[] = [];
  const own = readOwn(consoleSchema, env, faults);
  const tls = readTls('CONSOLE_TLS', own.CONSOLE_TLS_CERT_FILE, own.CONSOLE_TLS_KEY_FILE, faults);
  const server = serverConfig(env, faults);
  refuse(faults);
  return {
    ...server,
    console: {
      ...{ host: own.CONSOLE_HOST, port: own.CONSOLE_PORT, tokensFile: own.API_TOKENS_FILE, ...tls },
      ...{ login: own.CONSOLE_LOGIN, readOnly: own.CONSOLE_READ_ONLY, showTexts: own.CONSOLE_SHOW_TEXTS },
    },
  };
}

function serverConfig(env: Environment, faults: Fault[]): ServerConfig {
  const variables = readSome([...LIMITER_VARIABLES, 'LOG_LEVEL'], env, faults);
  faults.push(...mistypedLimits(env));
  return { ...limiterConfig(variables, faults), logLevel: variables.LOG_LEVEL };
}

/** Reads some variables of a worker, as if no others were set. */
function readSome(names: readonly (keyof Variables)[], env: Environment, faults: Fault[]): Variables {
  return readVariables(Object.fromEntries(names.map((name) => [name, env[name]])), faults).variables;
}

/** @param family `API_TLS` for API_TLS_CERT_FILE and API_TLS_KEY_FILE */
function readTls(
  family: string,
  certFile: string | undefined,
  keyFile: string | undefined,
  faults: Fault[],
): Pick<Listening, 'tls'> {
  const [certName, keyName] = [`${family}_CERT_FILE`, `${family}_KEY_FILE`];
  const report = reporter(faults);
  const [cert, key] = [readCertificate(certName, certFile, report), readPrivateKey(keyName, keyFile, report)];
  if (cert !== undefined && key !== undefined && !new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) {
    report(keyName, `the private key of the certificate in ${certName}`, 'another one');
  }
  if ((certFile === undefined) !== (keyFile === undefined)) {
    report(certName, `both ${certName} and ${keyName}, or none`, 'one of them');
  }
  return cert === undefined || key === undefined ? {} : { tls: { cert, key } };
}

/** For the command that changes the tokens: the file of the tokens. */
export function loadApiTokensFile(env: Environment): string {
  const faults: Fault[] = [];
  const { API_TOKENS_FILE: path } = readOwn(apiSchema, { API_TOKENS_FILE: env['API_TOKENS_FILE'] }, faults);
  refuse(faults);
  return path;
}

/** The variables of one server. An empty variable counts as absent. */
function readOwn<T extends z.ZodObject>(schema: T, env: Environment, faults: Fault[]): z.output<T> {
  const names = Object.keys(schema.shape).filter((name) => env[name] !== undefined && env[name] !== '');
  const given = Object.fromEntries(names.map((name) => [name, env[name]]));
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  faults.push(...zodFaults(result.error, given));
  return schema.parse({});
}

/** Reads only some of the variables. Throws one InputError with every fault. */
function load<T>(env: Environment, names: readonly string[], read: (variables: Variables, faults: Fault[]) => T): T {
  const faults: Fault[] = [];
  const some = Object.fromEntries(names.map((name) => [name, env[name]]));
  const found = read(readVariables(some, faults).variables, faults);
  refuse(faults);
  return found;
}

const QUEUE_VARIABLES = [
  ...(['REDIS_URL', 'REDIS_CLUSTER', 'REDIS_SENTINEL_NAME', 'REDIS_SENTINEL_PASSWORD'] as const),
  ...(['QUEUE_PREFIX', 'QUEUE_SHARDS'] as const),
] as const;
const LIMITER_VARIABLES = [
  ...QUEUE_VARIABLES,
  ...(['LIMITER_REDIS_URL', 'LIMITER_REDIS_SENTINEL_NAME', 'LIMIT_RULES', 'LIMIT_MIN_GAP', 'LIMITS_FILE'] as const),
  ...(['REDIS_WAIT_REPLICAS', 'REDIS_WAIT_TIMEOUT'] as const),
  ...(['LIMIT_BACKGROUND_RULES', 'LIMIT_LIVE_ACTIVITY_RULES'] as const),
] as const;

/** The limits of slots that are asked for over HTTP. */
const ADMIT_VARIABLES = ['LIMIT_MAX_WAIT', 'LIMIT_MAX_PENDING'] as const;

function queueConfig(variables: Variables): Pick<Config, 'redis' | 'queue'> {
  return {
    redis: redisConfig(variables.REDIS_URL, variables.REDIS_SENTINEL_NAME, variables),
    queue: { prefix: variables.QUEUE_PREFIX, shards: variables.QUEUE_SHARDS },
  };
}

function limiterConfig(variables: Variables, faults: Fault[]) {
  return {
    ...queueConfig(variables),
    limiterRedis: redisConfig(
      variables.LIMITER_REDIS_URL ?? variables.REDIS_URL,
      variables.LIMITER_REDIS_SENTINEL_NAME ?? variables.REDIS_SENTINEL_NAME,
      variables,
    ),
    waitReplicas: { count: variables.REDIS_WAIT_REPLICAS, timeoutMs: variables.REDIS_WAIT_TIMEOUT },
    policy: policyConfig(variables),
    ...readLimitsFile(variables.LIMITS_FILE, faults),
    apartRules: { background: variables.LIMIT_BACKGROUND_RULES, liveactivity: variables.LIMIT_LIVE_ACTIVITY_RULES },
  };
}

function policyConfig({ LIMIT_RULES: rules, LIMIT_MIN_GAP: minGapMs }: Variables): Policy {
  return { rules, minGapMs };
}

function redisConfig(urls: readonly string[], name: string | undefined, variables: Variables): RedisConfig {
  const { REDIS_CLUSTER: cluster, REDIS_SENTINEL_PASSWORD: password } = variables;
  const redis = { redisUrl: urls.join(','), cluster };
  return name === undefined ? redis : { ...redis, sentinel: { name, ...(password !== undefined && { password }) } };
}

/**
 * Reads the variables that are well-formed, and reports the others as faults, so that a person sees all faults at once. An
 * empty variable counts as absent, because compose files pass an unset variable as an empty one. `given`: every well-formed
 * variable as text, for the providers, which read their own variables.
 */
function readVariables(env: Environment, faults: Fault[]): { variables: Variables; given: Environment } {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const result = environmentSchema.safeParse(present);
  const found = result.success ? [] : zodFaults(result.error, present, ([name]) => SECRET_VARIABLES.has(String(name)));
  faults.push(...found);
  const bad = new Set(found.map(({ path }) => path));
  const given = Object.fromEntries(Object.entries(present).filter(([name]) => !bad.has(name)));
  const variables = variablesSchema.parse(given);
  faults.push(...contradictions(variables, present));
  return { variables, given };
}

/** With `0` Node accepts any certificate, and prints only a warning that is easily missed (nodejs.org/api/cli.html). */
function tlsFaults({ NODE_TLS_REJECT_UNAUTHORIZED: found }: Environment): Fault[] {
  if (found !== '0') return [];
  const expected = 'nothing or 1, since 0 turns off the check of every certificate';
  return [{ path: 'NODE_TLS_REJECT_UNAUTHORIZED', expected, found: JSON.stringify(found) }];
}

function refuse(faults: readonly Fault[]): void {
  if (faults.length > 0) throw new InputError('bad environment', faults);
}

/** Faults of variables that are well-formed but contradict each other. `given`: the environment without defaults. */
function contradictions(variables: Variables, given: Readonly<Record<string, unknown>>): Fault[] {
  return [...redisFaults(variables, 'REDIS_URL' in given), ...sentinelFaults(variables), ...pauseFaults(variables)];
}

function redisFaults(variables: Variables, hasUrl: boolean): Fault[] {
  const { REDIS_CLUSTER: isCluster, REDIS_SENTINEL_NAME: sentinel, QUEUE_PREFIX: prefix } = variables;
  const faults: Fault[] = [];
  if (isCluster && !/\{[^{}]+\}/.test(prefix)) {
    const expected = 'a prefix with a {tag}, since REDIS_CLUSTER is true';
    faults.push({ path: 'QUEUE_PREFIX', expected, found: JSON.stringify(prefix) });
  }
  if (sentinel !== undefined && !hasUrl) {
    faults.push({ path: 'REDIS_URL', expected: 'Sentinels, since REDIS_SENTINEL_NAME is given', found: 'nothing' });
  }
  for (const name of ['REDIS_URL', 'LIMITER_REDIS_URL'] as const) {
    const count = variables[name]?.length ?? 1;
    if (isCluster || sentinel !== undefined || count === 1) continue;
    const expected = 'one URL, or REDIS_CLUSTER=true, or a REDIS_SENTINEL_NAME';
    faults.push({ path: name, expected, found: `${count} URLs` });
  }
  return faults;
}

function sentinelFaults(variables: Variables): Fault[] {
  const { REDIS_CLUSTER: isCluster, REDIS_SENTINEL_NAME: sentinel } = variables;
  if (sentinel !== undefined) {
    const found = JSON.stringify(sentinel);
    return isCluster ? [{ path: 'REDIS_SENTINEL_NAME', expected: 'none, since REDIS_CLUSTER is true', found }] : [];
  }
  return (['LIMITER_REDIS_SENTINEL_NAME', 'REDIS_SENTINEL_PASSWORD'] as const)
    .filter((name) => variables[name] !== undefined)
    .map((path) => ({ path, expected: 'none without REDIS_SENTINEL_NAME', found: 'one' }));
}

function pauseFaults({ PROVIDER_PAUSE_BASE: baseMs, PROVIDER_PAUSE_MAX: maxMs }: Variables): Fault[] {
  if (baseMs <= maxMs) return [];
  const expected = `a duration of PROVIDER_PAUSE_BASE (${formatDuration(baseMs)}) or more`;
  return [{ path: 'PROVIDER_PAUSE_MAX', expected, found: formatDuration(maxMs) }];
}
