import { expect, test } from 'vitest';
import { CONFIG_VARIABLES, unknownText, unknownVariables } from '../../src/config/variables.ts';

test.each([
  ['LIMIT_RULE', 'LIMIT_RULES'],
  ['LIMITS_RULES', 'LIMIT_RULES'],
  ['LIMTI_RULES', 'LIMIT_RULES'],
  ['limit_rules', 'LIMIT_RULES'],
  ['LIMIT_MINGAP', 'LIMIT_MIN_GAP'],
  ['LIMIT_FILE', 'LIMITS_FILE'],
  ['ATTEMPT', 'ATTEMPTS'],
  ['QUEUE_SHARD', 'QUEUE_SHARDS'],
  ['APNS_KEYID', 'APNS_KEY_ID'],
  ['APNS_TOPICS', 'APNS_TOPIC'],
  ['FCM_PROJECTID', 'FCM_PROJECT_ID'],
  ['GOOGLE_APPLICATION_CREDENTIAL', 'GOOGLE_APPLICATION_CREDENTIALS'],
  ['REDIS_URI', 'REDIS_URL'],
  ['WORKER_CONCURENCY', 'WORKER_CONCURRENCY'],
])('%s is named, and %s beside it', (name, meant) => {
  expect(unknownVariables({ [name]: 's3cret' })).toEqual([{ name, meant }]);
  expect(unknownText({ name, meant })).toBe(`${name} is not known; did you mean ${meant}?`);
});

test('a mistyped variable is named although the right one is given too', () => {
  expect(unknownVariables({ LIMIT_RULE: '5/1m', LIMIT_RULES: '10/1m' })).toHaveLength(1);
  expect(unknownVariables({ REDIS_URI: 'redis://a', REDIS_URL: 'redis://b' })).toEqual([]); // another program's
});

test('no variable of pushpacer is near another one of its own', () => {
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
  PROVIDER_URL PROVIDER DEAD_LETTER_QUEUE DEAD_LETTER_TOPIC DEAD_LETTER_EXCHANGE ATTEMPT_ID COMPOSE_PROJECT_NAME DOCKER_HOST`
  .split(/\s+/)
  .filter((name) => name !== '');

test('variables of other programs raise no alarm', () => {
  expect(OTHERS.length).toBeGreaterThan(120);
  expect(unknownVariables(Object.fromEntries(OTHERS.map((name) => [name, 'x'])))).toEqual([]);
  expect(unknownVariables({ LIMIT_RULE: undefined })).toEqual([]);
});
