/**
 * The layout's rules: imports only go down. scripts/support/check-imports.ts runs them, and makes sure that they had
 * something to judge.
 *
 *   floor 2   delivery  http
 *   floor 1   limiter  providers  pause  queue  observe  config  sandbox    (never each other)
 *   floor 0   domain
 */
const FLOORS = {
  domain: [],
  limiter: ['domain'],
  providers: ['domain'],
  queue: ['domain'],
  observe: ['domain'],
  pause: ['domain'],
  config: ['domain'],
  sandbox: ['domain'],
  http: ['domain', 'limiter'],
  delivery: ['domain', 'limiter', 'providers', 'pause', 'queue', 'observe'],
};

const onlyDown = Object.entries(FLOORS).map(([folder, below]) => ({
  name: `${folder}-only-imports-${below.join('-') || 'itself'}`,
  severity: 'error',
  from: { path: `^src/${folder}(/|\\.ts$)` },
  to: { path: '^(src|workers|scripts|test|bench)/', pathNot: `^src/(${[folder, ...below].join('|')})(/|\\.ts$)` },
}));

/** What is constructed only where a program is put together: workers, scripts, tests, benches; index.ts may re-export it. */
const CONCRETE =
  '^src/(limiter/(redis|memory)-(limiter|quota)|pause/redis-pauses|providers/(apns|fcm)|queue/connection)\\.ts$';

export default {
  forbidden: [
    ...onlyDown,
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
      to: { path: '^(workers|scripts|test|bench|examples)/' },
    },
    {
      name: 'what-is-published-needs-no-test-or-bench',
      severity: 'error',
      from: { path: '^(workers|scripts)/' },
      to: { path: '^(test|bench|examples)/' },
    },
    {
      name: 'concrete-parts-only-in-composition-roots',
      comment: 'The pipeline sees interfaces: a type may be imported, a class may not.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(index\\.ts$|limiter/|providers/|queue/)' },
      to: { path: CONCRETE, dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'one-home-for-each-client',
      comment:
        'What knows APNs and FCM is in providers; what connects to Redis is the limiter, the queue and the sandbox.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(providers|limiter|queue|sandbox)/' },
      to: {
        path: '(^|/)node_modules/(apn|@parse/node-apn|firebase-admin|ioredis)/',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'no-cycles',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'published-code-needs-no-dev-dependency',
      severity: 'error',
      from: {
        path: '^(src|workers|scripts)/',
        pathNot: '^scripts/support/(build|check|check-imports|schema|summary)\\.ts$',
      },
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'], pathNot: '(^|/)node_modules/@types/' },
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
