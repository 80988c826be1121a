import { expect, it } from 'vitest';
import { createSparing } from '../../src/observe/log.ts';

it('tells each trouble once in a while, and then how often it was met since', () => {
  let time = 0;
  const sparing = createSparing(1_000, () => time);
  expect(sparing('OOM')).toBe(0);
  for (let round = 0; round < 5; round++) expect(sparing('OOM')).toBeUndefined();
  expect(sparing('READONLY')).toBe(0);
  time = 999;
  expect(sparing('OOM')).toBeUndefined();
  time = 1_000;
  expect(sparing('OOM')).toBe(6);
  time = 5_000;
  expect([sparing('READONLY'), sparing('OOM')]).toEqual([0, 0]);
});
