import { expect, test } from 'vitest';
import { startProcess } from '../../support/process.ts';

interface Flood {
  readonly ratio: number;
  readonly passes: number;
}

test('a quick flood is delivered in every setting, and judged by what arrived', { timeout: 180_000 }, async () => {
  const args = ['bench/bench.ts', 'pacing', '--quick', '--row', 'flood', '--json'];
  const { code, stdout, stderr } = await startProcess({ args }).waitForExit(150_000);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as { readonly flood: readonly Flood[] };
  expect(result).toMatchObject({ suite: 'pacing', quick: true, runs: 1, many: [], standstill: [] });
  expect(result.flood).toHaveLength(4);
  for (const each of result.flood) {
    expect(each).toMatchObject({ lost: 0, duplicates: 0 });
    expect(each.ratio).toBeGreaterThan(0.9); // below, the gap would have been broken
    expect(each.passes).toBeGreaterThan(1.5); // else hardly anything waited
  }
});
