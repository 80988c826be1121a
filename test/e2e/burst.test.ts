import { it } from 'vitest';
import { expectPaced } from '../support/burst.ts';

/** The main job, as small as it can be shown; test/slow/e2e/pacing.test.ts has the same with more of everything. */
it('paces a burst of 30 to one recipient over 4 worker processes', async () => {
  const policy = { rules: [{ max: 10, perMs: 1_800 }], minGapMs: 150 };
  await expectPaced({ workers: 4, count: 30, policy });
}, 120_000);
