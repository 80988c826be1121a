import { defineConfig } from 'vitest/config';

/** `npm run test:slow`: what strikes, waits or counts at length. All else is `npm test`. */
const SLOW = 'test/slow/**/*.test.ts';
/** The packages of test/slow have tests too. */
const NOT_OURS = '**/node_modules/**';
/** Installs those packages, on first use. */
const SLOW_SETUP = 'test/support/slow-setup.ts';
/** Random sequences in great number: in the slow suite alone. fast-check prints the seed of one that fails. */
const SEARCHES = ['test/limiter/{chain,model,waiting-model}.test.ts', 'test/wire/requests.test.ts'];
/** `npm run test:nightly`: other programs' tools and frameworks, the image, the bench. Before a release, and by who changes those. */
const NIGHTLY = [
  'test/slow/{bench,deploy,examples,http}/**/*.test.ts',
  'test/slow/api/typed-client.test.ts',
  'test/slow/console/pages.test.ts',
  'test/slow/e2e/python-client.test.ts',
  'test/slow/house/{getting-started,node-version,service-worker,snippets,your-app}.test.ts',
];
/** Tests that start many worker processes, judged by what arrived when: after all others. */
const PACED = ['test/e2e/**/*.test.ts'];
const SLOW_PACED = ['test/slow/{e2e,faults}/**/*.test.ts'];
/** Those of them that no other work may delay, since what they promise is a time: alone on the machine. */
const TIMED = ['test/slow/e2e/{judged,neighbours,outage,pacing,reality}.test.ts'];

const later = { sequence: { groupOrder: 1 } };
const alone = { fileParallelism: false, sequence: { groupOrder: 2 } };
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
        test: { name: 'parts', include: ['test/**/*.test.ts'], exclude: [SLOW, ...PACED, ...SEARCHES], ...together },
      },
      { extends: true, test: { name: 'whole', include: PACED, ...later } },
      {
        extends: true,
        test: {
          name: 'slow-parts',
          include: [SLOW, ...SEARCHES],
          exclude: [NOT_OURS, ...SLOW_PACED, ...NIGHTLY],
          globalSetup: SLOW_SETUP,
          ...together,
        },
      },
      {
        extends: true,
        test: {
          name: 'slow-whole',
          include: SLOW_PACED,
          exclude: [NOT_OURS, ...NIGHTLY, ...TIMED],
          globalSetup: SLOW_SETUP,
          ...later,
        },
      },
      { extends: true, test: { name: 'slow-timed', include: TIMED, globalSetup: SLOW_SETUP, ...alone } },
      {
        extends: true,
        test: { name: 'nightly', include: NIGHTLY, exclude: [NOT_OURS], globalSetup: SLOW_SETUP, ...together },
      },
    ],
  },
});
