import { it } from 'vitest';
import { expectPaced } from '../../support/burst.ts';

const WORKERS = 24;
const BURST = 200;

it(`paces a burst of ${BURST} to one recipient over ${WORKERS} worker processes`, async () => {
  const policy = { rules: [{ max: 20, perMs: 3_500 }], minGapMs: 150 };
  await expectPaced({ workers: WORKERS, count: BURST, policy });
}, 300_000);
