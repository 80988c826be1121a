/**
 * The layout's rules: imports only go down. tools/check-imports.ts runs them, and makes sure that they had
 * something to judge.
 *
 *   floor 3   operations
 *   floor 2   delivery  http  config                                                       (never each other)
 *   floor 1   limiter  quota  breaker  providers  queue  dead-letters  observe  terminal   (never each other)
 *   floor 0   domain  redis  environment
 *
 * config stands above providers, because it has each of them read its own part of the environment.
 */
const FLOORS = {
  domain: [],
  environment: ['domain'],
  redis: ['domain'],
  limiter: ['domain', 'redis'],
  quota: ['domain', 'redis'],
  providers: ['domain', 'environment'],
  queue: ['domain', 'redis'],
  'dead-letters': ['domain', 'redis'],
  observe: ['domain'],
  breaker: ['domain', 'redis'],
  config: ['domain', 'environment', 'redis', 'providers'],
  terminal: ['domain', 'environment'],
  http: ['domain', 'redis', 'limiter'],
  operations: ['domain', 'redis', 'limiter', 'queue', 'dead-letters', 'observe', 'terminal', 'delivery'],
  delivery: ['domain', 'redis', 'limiter', 'quota', 'breaker', 'providers', 'queue', 'observe'],
};

/**
 * What a device, the fields for it and its payload look like is each provider's own, and a notification is checked by them: so
 * these files lie in providers, and domain may import them. That stays an import that goes down, because they import nothing but
 * zod, each other, and the files of domain that know nothing of providers.
 */
const PAYLOAD_FILES = 'fields|payload';
const DEVICES = `src/providers/(devices|device-kind|[^/]+/(${PAYLOAD_FILES}))\\.ts$`;
const BELOW_DEVICES = '^src/domain/(json|notification-types)\\.ts$';

/**
 * A dead letter was a job of the queue and may become one again: names, keys and how long a job is kept are the queue's to
 * say. Dead letters see these three files of it, which do nothing by themselves, and the queue sees nothing of dead letters.
 */
const QUEUE_FORMAT = 'src/queue/(bullmq-internals|names|readable)\\.ts$';

/** A producer cancels what waits, and the limiters decide that: one Lua script, which needs no policies. It tells places in line too. */
const CANCELLER = 'src/limiter/(redis/canceller|limiter)\\.ts$';

/** A producer begins the span that the passes of its notifications link to. The file imports nothing of logs and metrics. */
const TRACING = 'src/observe/tracing\\.ts$';

/** What a folder may import beside the floors below it. */
const EXCEPT = {
  domain: [`^${DEVICES}`],
  'dead-letters': [`^${QUEUE_FORMAT}`],
  queue: [`^${CANCELLER}`, `^${TRACING}`],
};

const onlyDown = Object.entries(FLOORS).map(([folder, below]) => ({
  name: `${folder}-only-imports-${below.join('-') || 'itself'}`,
  severity: 'error',
  from: { path: `^src/${folder}(/|\\.ts$)` },
  to: {
    path: '^(src|sandbox|api|console|workers|scripts|demo|chaos|tools|test|bench)/',
    pathNot: [`^src/(${[folder, ...below].join('|')})(/|\\.ts$)`, ...(EXCEPT[folder] ?? [])],
  },
}));

/** What is constructed only where a program is put together: workers, scripts, tests, benches; index.ts may re-export it. */
const CONCRETE =
  '^src/(limiter/(redis/redis|memory/memory)-limiter|quota/(redis|memory)-quota|breaker/redis-breakers|redis/connection|' +
  `providers/(registry|(?!sender/)[^/]+/(?!(${PAYLOAD_FILES})\\.)[^/]+))\\.ts$`;

export default {
  forbidden: [
    ...onlyDown,
    {
      name: 'devices-only-import-zod',
      comment: 'Producers check notifications: they must not load the client of any provider.',
      severity: 'error',
      from: { path: `^${DEVICES}` },
      to: { pathNot: [`^${DEVICES}`, BELOW_DEVICES, '^node:', '^(crypto|buffer)$', '(^|/)node_modules/zod/'] },
    },
    {
      name: 'every-folder-of-src-has-a-floor',
      severity: 'error',
      from: { path: '^src/', pathNot: `^src/(index\\.ts|(${Object.keys(FLOORS).join('|')})(/|\\.ts$))` },
      to: {},
    },
    {
      name: 'src-stands-alone',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(sandbox|api|console|workers|scripts|demo|chaos|tools|test|bench|examples)/' },
    },
    {
      name: 'what-is-published-needs-no-tool-test-or-bench',
      severity: 'error',
      from: { path: '^(sandbox|api|console|workers|scripts)/' },
      to: { path: '^(demo|chaos|tools|test|bench|examples)/' },
    },
    {
      name: 'workers-api-and-console-need-no-script',
      severity: 'error',
      from: { path: '^(api|console|workers)/' },
      to: { path: '^(scripts|sandbox)/' },
    },
    {
      name: 'the-sandbox-stands-apart',
      comment: 'It knows what a notification is, and nothing of how a worker delivers it.',
      severity: 'error',
      from: { path: '^sandbox/' },
      to: { path: '^(src/(?!domain/)|api/|console/|workers/|scripts/)' },
    },
    {
      name: 'concrete-parts-only-in-composition-roots',
      comment:
        'The pipeline sees interfaces: a type may be imported, a class may not. config sees the registry of providers, to ' +
        'have each read its part of the environment; it creates none.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(index\\.ts$|redis/|limiter/|quota/|providers/|queue/|config/)' },
      to: { path: CONCRETE, dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'one-home-for-each-client',
      comment: 'What knows APNs, FCM and web push is in providers; what connects to Redis is in redis.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(providers|redis)/' },
      to: {
        path: '(^|/)node_modules/(apn|@parse/node-apn|firebase-admin|google-auth-library|http_ece|ioredis)/',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'no-cycles',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['dynamic-import'] } },
    },
    {
      name: 'published-code-needs-no-dev-dependency',
      comment: 'bull-board and OpenTelemetry are optional peers: the programs go on without them.',
      severity: 'error',
      from: { path: '^(src|sandbox|api|console|workers|scripts)/' },
      to: {
        dependencyTypes: ['npm-dev'],
        dependencyTypesNot: ['type-only'],
        pathNot: '(^|/)node_modules/@(types|bull-board|opentelemetry)/',
      },
    },
    {
      name: 'everything-resolves',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    combinedDependencies: true,
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'node', 'default'] },
  },
};
