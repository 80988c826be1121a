/**
 * The layout's rules: imports only go down. tools/check-imports.ts runs them, and makes sure that they had
 * something to judge.
 *
 *   floor 4   operations
 *   floor 3   delivery  producer  dead-letters  http  config                               (never each other)
 *   floor 2   limiter  quota  breaker  providers  queue  observe  terminal                 (never each other)
 *   floor 1   redis  environment                                                           (never each other)
 *   floor 0   notification, which stands on domain
 *
 * config stands above providers, because it has each of them read its own part of the environment. A producer adds jobs, asks
 * the limiter to cancel what waits, and begins the span that the passes link to. A dead letter was a job of the queue and may
 * become one again.
 */
const FLOORS = {
  domain: [],
  notification: ['domain'],
  environment: ['domain'],
  redis: ['domain', 'notification'],
  limiter: ['domain', 'notification', 'redis'],
  quota: ['domain', 'notification', 'redis'],
  providers: ['domain', 'notification', 'environment'],
  queue: ['domain', 'notification', 'redis'],
  observe: ['domain', 'notification'],
  breaker: ['domain', 'notification', 'redis'],
  terminal: ['domain', 'notification', 'environment'],
  producer: ['domain', 'notification', 'redis', 'limiter', 'queue', 'observe'],
  'dead-letters': ['domain', 'notification', 'redis', 'queue'],
  config: ['domain', 'notification', 'environment', 'redis', 'providers'],
  http: ['domain', 'notification', 'redis', 'limiter'],
  delivery: ['domain', 'notification', 'redis', 'limiter', 'quota', 'breaker', 'providers', 'queue', 'observe'],
  operations: [
    ...['domain', 'notification', 'redis', 'limiter', 'queue', 'observe', 'terminal'],
    ...['delivery', 'producer', 'dead-letters'],
  ],
};

/** What a device, the fields for it and its payload look like: each platform's own, and a notification is checked by them. */
const DEVICES = 'src/notification/devices/';
const BELOW_DEVICES = '^src/(domain/json|notification/(types|provider-fields))\\.ts$';

const onlyDown = Object.entries(FLOORS).map(([folder, below]) => ({
  name: `${folder}-only-imports-${below.join('-') || 'itself'}`,
  severity: 'error',
  from: { path: `^src/${folder}(/|\\.ts$)` },
  to: {
    path: '^(src|sandbox|api|console|workers|scripts|demo|chaos|tools|test|bench)/',
    pathNot: [`^src/(${[folder, ...below].join('|')})(/|\\.ts$)`],
  },
}));

/** What is constructed only where a program is put together: workers, scripts, tests, benches; index.ts may re-export it. */
const CONCRETE =
  '^src/(limiter/(redis/redis|memory/memory)-limiter|quota/(redis|memory)-quota|breaker/redis-breakers|redis/connection|' +
  'providers/(registry|(?!sender/)[^/]+/[^/]+))\\.ts$';

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
      from: { path: '^(sandbox|api|console|workers|scripts|demo)/' },
      to: { path: '^(chaos|tools|test|bench|examples)/' },
    },
    {
      name: 'workers-api-and-console-need-no-script',
      severity: 'error',
      from: { path: '^(api|console|workers)/' },
      to: { path: '^(scripts|sandbox|demo)/' },
    },
    {
      name: 'the-sandbox-stands-apart',
      comment: 'It knows what a notification is, and nothing of how a worker delivers it.',
      severity: 'error',
      from: { path: '^sandbox/' },
      to: { path: '^(src/(?!domain/|notification/)|api/|console/|workers/|scripts/|demo/)' },
    },
    {
      name: 'concrete-parts-only-in-composition-roots',
      comment:
        'The pipeline sees interfaces: a type may be imported, a class may not. config sees the registry of providers, to ' +
        'have each read its part of the environment; it creates none.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(index\\.ts$|redis/|limiter/|quota/|providers/|queue/|producer/|config/)' },
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
      comment: 'OpenTelemetry is an optional peer: the programs go on without it.',
      severity: 'error',
      from: { path: '^(src|sandbox|api|console|workers|scripts|demo)/' },
      to: {
        dependencyTypes: ['npm-dev'],
        dependencyTypesNot: ['type-only'],
        pathNot: '(^|/)node_modules/@(types|opentelemetry)/',
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
