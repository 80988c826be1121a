import { beforeEach } from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** The limit of the test, milliseconds: tools/summary.ts names the tests that came near to theirs. */
    limitMs?: number;
  }
}

beforeEach(({ task }) => {
  task.meta.limitMs = task.timeout;
});
