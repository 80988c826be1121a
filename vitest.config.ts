import { defineConfig } from 'vitest/config';

/** `npm run test:slow`: what strikes, waits or counts at length. All else is `npm test`. */
const SLOW = 'test/slow/**/*.test.ts';
/** The packages of test/slow have tests too. */
const NOT_OURS = '**/node_modules/**';
/** Installs those packages, on first use. */
const SLOW_SETUP = 'test/support/slow-setup.ts';
/** Tests that start many worker processes, judged by what arrived when: alone on the machine, after all others. */
const PACED = ['test/e2e/**/*.test.ts'];
const SLOW_PACED = ['test/slow/{e2e,faults}/**/*.test.ts'];
/** Property tests run in both: a fifth of their cases in the fast suite, all in the slow one (test/support/cases.ts). */
const PROPERTIES = [
  'test/limiter/{chain,model,waiting-model}.test.ts',
  'test/quota/quota.test.ts',
  'test/wire/requests.test.ts',
];

/** Suites of the fast run that run on a Redis Cluster too: all that is about Redis, but for what starts servers of its own. */
const ON_CLUSTER = [
  'test/{breaker,console,dead-letters,limiter,operations,producer,queue,quota,scripts,workers}/**/*.test.ts',
  'test/delivery/{blocked,processor,together}.test.ts',
  'test/api/{admit,dead-letters,notifications,reading}.test.ts',
];
const NOT_ON_CLUSTER = [
  'test/limiter/{chain,model,waiting-model}.test.ts', // random sequences: the other tests of the limiter use the same keys
  'test/limiter/{clock,fallback}.test.ts',
  'test/breaker/suspicion.test.ts',
  'test/operations/{rates,why}.test.ts',
  'test/scripts/{commands,dev,recipient-text,terminal}.test.ts',
];

const alone = { fileParallelism: false, sequence: { groupOrder: 1 } };
const together = { sequence: { groupOrder: 0 } };

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    setupFiles: 'test/support/limit-meta.ts',
    // These limits only end tests that fail anyway, however busy the machine is.
    testTimeout: 120_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 60_000 } }, // as waitFor (test/support/wait.ts)
    pool: 'forks',
    maxWorkers: 3, // on two cores: many tests wait for processes, timers and providers
    projects: [
      {
        extends: true,
        test: { name: 'parts', include: ['test/**/*.test.ts'], exclude: [SLOW, ...PACED], ...together },
      },
      { extends: true, test: { name: 'whole', include: PACED, ...alone } },
      {
        extends: true,
        test: {
          name: 'slow-parts',
          include: [SLOW, ...PROPERTIES],
          exclude: [NOT_OURS, ...SLOW_PACED],
          env: { ALL_CASES: '1' },
          globalSetup: SLOW_SETUP,
          ...together,
        },
      },
      {
        extends: true,
        test: {
          name: 'slow-cluster',
          include: ON_CLUSTER,
          exclude: NOT_ON_CLUSTER,
          globalSetup: 'test/support/cluster-setup.ts',
          ...together,
        },
      },
      {
        extends: true,
        test: { name: 'slow-whole', include: SLOW_PACED, exclude: [NOT_OURS], globalSetup: SLOW_SETUP, ...alone },
      },
    ],
  },
});
