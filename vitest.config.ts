import { defineConfig } from 'vitest/config';

/** Tests that start many worker processes, judged by what arrived when: alone on the machine, after all others. */
const PACED = ['test/e2e/**/*.test.ts', 'test/faults/**/*.test.ts'];

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: 'forks',
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: { name: 'parts', include: ['test/**/*.test.ts'], exclude: PACED, sequence: { groupOrder: 0 } },
      },
      {
        extends: true,
        test: { name: 'whole', include: PACED, fileParallelism: false, sequence: { groupOrder: 1 } },
      },
    ],
  },
});
