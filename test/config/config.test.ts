import { generateKeyPairSync } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import {
  loadApiConfig,
  loadConfig,
  loadConsoleConfig,
  loadLimiterConfig,
  loadQueueConfig,
} from '../../src/config/config.ts';
import { CONFIG_VARIABLES, unknownText, unknownVariables } from '../../src/config/variables.ts';
import { faultLines, file, NONE } from './support.ts';

const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString();
const apns = { APNS_KEY: p256, APNS_KEY_ID: 'ABC123DEFG', APNS_TEAM_ID: 'DEF123GHIJ', APNS_TOPIC: 'com.example.app' };
const account = { project_id: 'school-1', client_email: 'push@school-1.example', private_key: p256 };

const faultsOf = (env: Record<string, string>) => faultLines(() => loadConfig({ ...NONE, ...env }));

describe('defaults', () => {
  it('are those of the documentation, and both platforms are off', () => {
    expect(loadConfig(NONE)).toEqual({
      redis: { redisUrl: 'redis://127.0.0.1:6379', cluster: false },
      limiterRedis: { redisUrl: 'redis://127.0.0.1:6379', cluster: false },
      waitReplicas: { count: 0, timeoutMs: 1_000 },
      queue: { prefix: '{pushpacer}', shards: 1 },
      policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 },
      categories: {},
      providers: {},
      quotas: {},
      apps: new Map(),
      files: [],
      apartRules: { background: [{ max: 3, perMs: 3_600_000 }], liveactivity: [{ max: 1, perMs: 15_000 }] },
      maxWaitMs: 86_400_000,
      maxPending: 10_000,
      concurrency: 50,
      processes: 1,
      retry: { attempts: 8, backoffBaseMs: 1_000, backoffMaxMs: 600_000 },
      atMostOnce: false,
      credentialsWaitMs: 600_000,
      lockMs: 30_000,
      maxStalls: 10,
      providerPause: { baseMs: 5_000, maxMs: 120_000 },
      deadLetters: { maxAgeMs: 30 * 86_400_000, maxCount: 100_000 },
      overtaking: { mostTimes: 20, mostMs: 600_000 },
      outcomesMax: 0,
      history: { max: 0, maxAgeMs: 604_800_000 },
      shutdownGraceMs: 10_000,
      metrics: { host: '127.0.0.1', port: 9464 },
      logLevel: 'info',
      tracesAreChildren: false,
    });
  });

  it('are the same when written out, and where a variable is empty', () => {
    const written = CONFIG_VARIABLES.flatMap(({ name, default: value }) =>
      value === undefined ? [] : [[name, value]],
    );
    const empty = Object.fromEntries(CONFIG_VARIABLES.map(({ name }) => [name, '']));
    for (const given of [Object.fromEntries(written) as Record<string, string>, empty]) {
      expect(loadConfig({ ...given, ...NONE })).toEqual(loadConfig(NONE));
    }
  });
});

/** What a variable may say, and what becomes of it. */
const TAKEN: readonly (readonly [env: Record<string, string>, becomes: object])[] = [
  [
    { WORKER_PROCESSES: '4', LIMIT_MAX_PENDING: '500' },
    { processes: 4, maxPending: 500 },
  ],
  [{ WORKER_PROCESSES: 'auto' }, { processes: availableParallelism() }],
  [
    { FCM_QUOTA: '600000/1m,1000000000/1h' },
    { quotas: { fcm: [600_000, 1_000_000_000].map((max, at) => ({ max, perMs: [60_000, 3_600_000][at] })) } },
  ],
  [
    { WEBPUSH_QUOTA: '5000/1m, FCM.googleapis.com:443 = 1000/1m,fcm.googleapis.com=200/10s,127.0.0.1:8443=5/1s' },
    {
      quotas: {
        webpush: [
          { max: 5_000, perMs: 60_000 },
          { max: 1_000, perMs: 60_000, server: 'fcm.googleapis.com' },
          { max: 200, perMs: 10_000, server: 'fcm.googleapis.com' },
          { max: 5, perMs: 1_000, server: '127.0.0.1:8443' },
        ],
      },
    },
  ],
  [{ APNS_KEY: '', APNS_KEY_FILE: file('key.p8', p256) }, { providers: { apns: { key: p256 } } }],
  [
    { GOOGLE_APPLICATION_CREDENTIALS: file('account.json', account) },
    { providers: { fcm: { projectId: 'school-1', credentials: account, endpoint: 'https://fcm.googleapis.com' } } },
  ],
  [
    { FCM_PROJECT_ID: 'school-1', FCM_ENDPOINT: 'https://localhost:9443', FCM_ANDROID_V2: 'true' },
    { providers: { fcm: { projectId: 'school-1', endpoint: 'https://localhost:9443', androidV2: true } } },
  ],
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '1' }, {}],
  [{ LIMIT_RULE: '', ATTEMPT: '5', LIMIT_PER_USER: '5' }, {}],
];

it.each(TAKEN)('%j is taken', (env, becomes) => {
  expect(loadConfig({ ...apns, ...env })).toMatchObject(becomes);
});

describe('credentials', () => {
  it('must be there, for one platform or one app, unless they may be missing', () => {
    const line =
      'expected credentials of APNs, FCM or web push (docs/getting-started.md), or ALLOW_NO_CREDENTIALS=true for a worker that sends nothing, found none';
    const noApp = { APPS_FILE: file('no-app.json', '{ "apps": {} }') };
    for (const env of [{}, { ALLOW_NO_CREDENTIALS: 'false' }, { FCM_QUOTA: '5/1s' }, noApp]) {
      expect(() => loadConfig(env)).toThrow(`bad environment: ${line}`);
      expect(loadConfig({ ...env, ...NONE })).toMatchObject({ providers: {} });
    }
    const app = { APPS_FILE: file('one-app.json', '{ "apps": { "teacher": { "fcm": { "projectId": "p" } } } }') };
    for (const env of [apns, { FCM_PROJECT_ID: 'school-1' }, app]) expect(loadConfig(env)).toBeDefined();
    expect(() => loadConfig({ ATTEMPTS: 'many' })).toThrow(/^bad environment: ATTEMPTS: [^\n]*$/);
  });

  it("leaves the sign-in to Google's application default credentials where there is no service account", () => {
    const fcm = { projectId: 'school-1', endpoint: 'https://fcm.googleapis.com' };
    const path = file('workload.json', '{"type":"external_account","audience":"a"}');
    for (const env of [{}, { GOOGLE_APPLICATION_CREDENTIALS: path, FCM_ANDROID_V2: 'false' }]) {
      expect(loadConfig({ FCM_PROJECT_ID: 'school-1', ...env }).providers.fcm).toEqual(fcm);
    }
  });

  const ofGoogle = (path: string) => ({ GOOGLE_APPLICATION_CREDENTIALS: path });
  it.each([
    [{ APNS_TOPIC: 'com.example.app' }, ['APNS_KEY_FILE', 'APNS_KEY_ID', 'APNS_TEAM_ID']],
    [{ ...apns, APNS_KEY_FILE: 'x' }, ['APNS_KEY']],
    [{ ...apns, APNS_KEY: 'no key' }, ['APNS_KEY']],
    [{ ...apns, APNS_ENDPOINT: 'http://127.0.0.1' }, ['APNS_ENDPOINT']],
    [ofGoogle(file('other.json', '{"type":"external_account"}')), ['FCM_PROJECT_ID']],
    [ofGoogle(file('none.json', '{"type":"service_account"}')), ['GOOGLE_APPLICATION_CREDENTIALS']],
    [ofGoogle('/nowhere.json'), ['GOOGLE_APPLICATION_CREDENTIALS']],
    [{ ...ofGoogle('package.json'), FCM_PROJECT_ID: 'school-1' }, ['GOOGLE_APPLICATION_CREDENTIALS']],
    [ofGoogle(file('key.json', { ...account, private_key: 'a key' })), ['GOOGLE_APPLICATION_CREDENTIALS']],
  ])('that are missing or unusable are named: %j', (env, names) => {
    expect(faultsOf(env).map((fault) => fault.split(':')[0])).toEqual(names);
  });
});

describe('faults', () => {
  it('are shown all at once, files included', () => {
    const faults = faultsOf({ LIMIT_RULES: 'ten', ATTEMPTS: '0', METRICS_PORT: '99999', APNS_KEY_FILE: '/nowhere.p8' });
    expect(faults.map((fault) => fault.split(':')[0]).join(' ')).toBe(
      'LIMIT_RULES ATTEMPTS METRICS_PORT APNS_KEY_FILE APNS_KEY_ID APNS_TEAM_ID APNS_TOPIC',
    );
  });

  const bare = p256.replace(/-----[A-Z ]+-----|\n/g, '');
  const unreadable = (text: string) => `expected a file that can be read, found a string of ${text.length} characters`;

  it.each<[what: string, env: Record<string, string>, fault: string]>([
    ['a password', { REDIS_URL: 'http://user:hunter2@host' }, 'REDIS_URL: expected redis:// or rediss:// URLs'],
    ['a key that is none', { APNS_KEY: 'hunter2' }, 'APNS_KEY: expected'],
    ['a key in place of its path', { APNS_KEY_FILE: p256 }, `APNS_KEY_FILE: ${unreadable(p256)}`],
    ['a key without the lines around it', { APNS_KEY_FILE: bare }, `APNS_KEY_FILE: ${unreadable(bare)}`],
    [
      'a service account in place of its path',
      { GOOGLE_APPLICATION_CREDENTIALS: '{"private_key":1}' },
      `GOOGLE_APPLICATION_CREDENTIALS: ${unreadable('{"private_key":1}')}`,
    ],
  ])('never repeat %s', (_, env, fault) => {
    expect(bare.length).toBeGreaterThan(100);
    const shown = faultsOf(env).join();
    expect(shown).toContain(fault);
    expect(shown).not.toMatch(/hunter2|BEGIN|private_key":/);
    expect(shown).not.toContain(bare.slice(0, 20));
  });

  const REDIS_URLS =
    'expected redis:// or rediss:// URLs such as redis://127.0.0.1:6379, comma-separated, each with the number of a database or without a path';
  const DURATION = 'a duration such as 250ms, 3s, 1m, 2h or 1d';

  it.each<[Record<string, string>, fault: string]>([
    [{ REDIS_URL: 'redis://:100%@host' }, `REDIS_URL: ${REDIS_URLS}, found a string of 18 characters`], // `%25` it is
    // This would end every process: a connection asks Redis for the database, and Redis refuses.
    [{ REDIS_URL: 'redis://:s3cret@host/queue' }, `REDIS_URL: ${REDIS_URLS}, found a string of 26 characters`],
    [
      { LIMITER_REDIS_URL: 'redis://:s3cret@host?db=' },
      `LIMITER_REDIS_URL: ${REDIS_URLS}, found a string of 24 characters`,
    ],
    [{ ATTEMPTS: '0' }, 'ATTEMPTS: expected an integer from 1 to 1000, found "0"'],
    [{ LIMIT_MAX_PENDING: '0' }, 'LIMIT_MAX_PENDING: expected an integer from 1 to 1000000, found "0"'],
    ...['0', 'x', '257', '1.5'].map((bad): [Record<string, string>, string] => [
      { WORKER_PROCESSES: bad },
      `WORKER_PROCESSES: expected an integer from 1 to 256, or auto, found "${bad}"`,
    ]),
    [
      { APNS_QUOTA: '600000/2h' },
      `APNS_QUOTA: expected rules as max/per, such as 10/1m,200/1h (APNS_QUOTA[0].per: expected ${DURATION}, from 1ms to 1h, found 7200000 ms), found "600000/2h"`,
    ],
    [
      { FCM_QUOTA: 'fcm.googleapis.com=1/1m' },
      'FCM_QUOTA: expected rules as max/per, such as 10/1m,200/1h (FCM_QUOTA[0]: expected max/per, such as 10/1m, found "fcm.googleapis.com=1/1m"), found "fcm.googleapis.com=1/1m"',
    ],
    [{ REDIS_WAIT_TIMEOUT: '2s' }, `REDIS_WAIT_TIMEOUT: expected ${DURATION}, from 10ms to 1500ms, found "2s"`],
    [{ SHUTDOWN_GRACE: '2d' }, `SHUTDOWN_GRACE: expected 0 or ${DURATION}, at most 1d, found "2d"`],
    [{ LIMIT_MIN_GAP: '3' }, `LIMIT_MIN_GAP: expected 0 or ${DURATION}, at most 31d, found "3"`],
    [
      { REDIS_URL: 'redis://a,redis://b' },
      'REDIS_URL: expected one URL, or REDIS_CLUSTER=true, or a REDIS_SENTINEL_NAME, found 2 URLs',
    ],
    [
      { REDIS_URL: 'redis://a', REDIS_SENTINEL_NAME: 'mymaster', REDIS_CLUSTER: 'true' },
      'REDIS_SENTINEL_NAME: expected none, since REDIS_CLUSTER is true, found "mymaster"',
    ],
    [
      { REDIS_SENTINEL_NAME: 'mymaster' },
      'REDIS_URL: expected Sentinels, since REDIS_SENTINEL_NAME is given, found nothing',
    ],
    ...['REDIS_SENTINEL_PASSWORD', 'LIMITER_REDIS_SENTINEL_NAME'].map((name): [Record<string, string>, string] => [
      { [name]: 's3cret' },
      `${name}: expected none without REDIS_SENTINEL_NAME, found one`,
    ]),
    [
      { REDIS_CLUSTER: 'true', QUEUE_PREFIX: 'plain' },
      'QUEUE_PREFIX: expected a prefix with a {tag}, since REDIS_CLUSTER is true, found "plain"',
    ],
    [
      { NODE_TLS_REJECT_UNAUTHORIZED: '0' },
      'NODE_TLS_REJECT_UNAUTHORIZED: expected nothing or 1, since 0 turns off the check of every certificate, found "0"',
    ],
  ])('of one variable: %j', (env, fault) => expect(faultsOf(env)).toEqual([fault]));

  it('of the providers do not concern the commands that act on recipients, nor those of limits the ones that enqueue', () => {
    const env = { LIMIT_RULES: '5/1m', LIMIT_MIN_GAP: '0', LIMITER_REDIS_URL: 'redis://limiter' };
    expect(loadLimiterConfig({ ...env, APNS_KEY_FILE: '/nowhere.p8', ATTEMPTS: 'many' })).toEqual({
      redis: { redisUrl: 'redis://127.0.0.1:6379', cluster: false },
      limiterRedis: { redisUrl: 'redis://limiter', cluster: false },
      waitReplicas: { count: 0, timeoutMs: 1_000 },
      queue: { prefix: '{pushpacer}', shards: 1 },
      policy: { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 0 },
      categories: {},
      apartRules: { background: [{ max: 3, perMs: 3_600_000 }], liveactivity: [{ max: 1, perMs: 15_000 }] },
    });
    const wrong = { LIMITS_FILE: '/nowhere.json', LIMIT_RULES: 'ten' };
    expect(() => loadLimiterConfig(wrong)).toThrow(/LIMIT_RULES: expected[^]*LIMITS_FILE: expected a file/);
    expect(loadQueueConfig({ ...wrong, REDIS_URL: 'redis://queue' }).redis.redisUrl).toBe('redis://queue');
  });
});

describe('Sentinels', () => {
  const REDIS_URL = 'redis://app:s3cret@one:26379/2,redis://two';

  it('lead to both masters, under a name of its own for the limiter', () => {
    const env = { REDIS_URL, REDIS_SENTINEL_NAME: 'queue', LIMITER_REDIS_SENTINEL_NAME: 'limits' };
    expect(loadLimiterConfig({ ...env, REDIS_SENTINEL_PASSWORD: 'w0rd' })).toMatchObject({
      redis: { redisUrl: REDIS_URL, cluster: false, sentinel: { name: 'queue', password: 'w0rd' } },
      limiterRedis: { redisUrl: REDIS_URL, cluster: false, sentinel: { name: 'limits', password: 'w0rd' } },
    });
  });

  it('are those of the limiter too where it has a Redis of its own', () => {
    const env = { ...NONE, REDIS_URL, REDIS_SENTINEL_NAME: 'mymaster', LIMITER_REDIS_URL: 'redis://three' };
    expect(loadConfig(env).limiterRedis).toEqual({
      redisUrl: 'redis://three',
      cluster: false,
      sentinel: { name: 'mymaster' },
    });
    expect(loadQueueConfig(env).redis.sentinel).toEqual({ name: 'mymaster' });
  });
});

it.each([
  ['LIMIT_RULE', 'LIMIT_RULES'],
  ['LIMTI_RULES', 'LIMIT_RULES'],
  ['limit_rules', 'LIMIT_RULES'],
  ['LIMIT_MINGAP', 'LIMIT_MIN_GAP'],
  ['LIMIT_FILE', 'LIMITS_FILE'],
  ['APNS_KEYID', 'APNS_KEY_ID'],
  ['GOOGLE_APPLICATION_CREDENTIAL', 'GOOGLE_APPLICATION_CREDENTIALS'],
  ['REDIS_URI', 'REDIS_URL'],
  ['WORKER_CONCURENCY', 'WORKER_CONCURRENCY'],
])('%s is named, and %s beside it', (name, meant) => {
  expect(unknownVariables({ [name]: 's3cret' })).toEqual([{ name, meant }]);
  expect(unknownText({ name, meant })).toBe(`${name} is not known; did you mean ${meant}?`);
});

it('a mistyped variable is named although the right one is given too', () => {
  expect(unknownVariables({ LIMIT_RULE: '5/1m', LIMIT_RULES: '10/1m' })).toHaveLength(1);
  expect(unknownVariables({ REDIS_URI: 'redis://a', REDIS_URL: 'redis://b' })).toEqual([]); // another program's
});

it.each([
  ['a worker', loadConfig],
  ['the API', loadApiConfig],
  ['the console', loadConsoleConfig],
])('a mistyped variable of the limits stops the start of %s', (_, load) => {
  expect(() => load({ LIMIT_RULE: '5/1m', LIMIT_RULES: '10/1m' })).toThrow(
    'bad environment: LIMIT_RULE: expected no such variable (did you mean LIMIT_RULES?), found one',
  );
  expect(() => load({ LIMIT_MINGAP: '5s', LIMIT_FILE: 'x.json' })).toThrow(/LIMIT_MIN_GAP\?.*\n.*LIMITS_FILE\?/);
});

it('no variable of pushpacer is near another one of its own', () => {
  expect(CONFIG_VARIABLES.length).toBeGreaterThan(30);
  expect(unknownVariables(Object.fromEntries(CONFIG_VARIABLES.map(({ name }) => [name, 'x'])))).toEqual([]);
});

/** Of shells, Node, npm, CI, containers, Redis, clouds, and of other programs that have variables like pushpacer's. */
const OTHERS = `
  HOME PATH PWD OLDPWD USER LOGNAME SHELL SHLVL TERM LANG LC_ALL TZ HOSTNAME EDITOR PAGER DISPLAY COLUMNS LINES TMPDIR _ MAIL
  SSH_AUTH_SOCK SSH_CONNECTION XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS http_proxy https_proxy no_proxy HTTP_PROXY NO_PROXY
  NODE_ENV NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED NO_COLOR FORCE_COLOR DEBUG PORT HOST
  npm_config_cache npm_config_recipient npm_lifecycle_event npm_package_name npm_execpath npm_command INIT_CWD COLOR NVM_DIR
  CI GITHUB_ACTIONS GITHUB_TOKEN GITLAB_CI RUNNER_OS BUILD_NUMBER VITEST VITEST_POOL_ID TEST
  KUBERNETES_SERVICE_HOST KUBERNETES_PORT REDIS_SERVICE_HOST REDIS_PORT_6379_TCP REDIS_MASTER_SERVICE_PORT HEROKU_APP_NAME DYNO
  REDIS_HOST REDIS_PORT REDIS_PASSWORD REDIS_USER REDIS_USERNAME REDIS_DB REDIS_TLS REDIS_TLS_URL REDIS_SENTINELS REDIS_NODES
  REDIS_PREFIX REDISCLOUD_URL REDIS_CA REDIS_SENTINEL_HOST DATABASE_URL POSTGRES_URL MONGO_URL AMQP_URL RABBITMQ_URL KAFKA_URL
  LOG_DIR LOG_FILE LOG_FORMAT LOGLEVEL LOG_PATH LOG_NAME METRICS_PATH METRICS_ENABLED METRICS_PREFIX METRICS_INTERVAL
  QUEUE_NAME QUEUE_URL QUEUE_HOST QUEUE_SIZE WORKER_ID WORKER_COUNT WORKERS WEB_CONCURRENCY WORKER_THREADS LOCK_FILE LOCK_TIMEOUT
  BACKOFF_LIMIT MAX_RETRIES MAX_SIZE MAX_WORKERS MAX_CALLS SHUTDOWN_TIMEOUT GRACE_PERIOD RATE_LIMIT LIMIT LIMITS LIMIT_PER_USER
  APNS_HOST APNS_PORT APNS_PASSWORD APNS_CERT APNS_ENV APNS_BUNDLE_ID APNS_SANDBOX FCM_KEY FCM_SERVER_KEY FCM_SENDER_ID FCM_API_KEY
  FCM_APP_ID GOOGLE_CLOUD_PROJECT GOOGLE_API_KEY FIREBASE_PROJECT_ID GCP_PROJECT AWS_REGION AWS_ACCESS_KEY_ID AWS_PROFILE
  PROVIDER_URL PROVIDER DEAD_LETTER_QUEUE DEAD_LETTER_TOPIC DEAD_LETTER_EXCHANGE ATTEMPT_ID COMPOSE_PROJECT_NAME DOCKER_HOST
  OTEL_SERVICE_NAME OTEL_EXPORTER_OTLP_ENDPOINT OTEL_PROPAGATORS OTEL_SDK_DISABLED OTEL_TRACES_SAMPLER OTEL_RESOURCE_ATTRIBUTES`
  .split(/\s+/)
  .filter((name) => name !== '');

it('variables of other programs raise no alarm', () => {
  expect(OTHERS.length).toBeGreaterThan(120);
  expect(unknownVariables(Object.fromEntries(OTHERS.map((name) => [name, 'x'])))).toEqual([]);
  expect(unknownVariables({ LIMIT_RULE: undefined })).toEqual([]);
});
