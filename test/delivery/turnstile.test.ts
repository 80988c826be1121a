import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createTurnstile } from '../../src/delivery/turnstile.ts';

it('lets one begin in each turn of the event loop, in order', async () => {
  const turn = createTurnstile();
  let turns = 0;
  const begun: { readonly pass: number; readonly turns: number }[] = [];
  const passes = Array.from({ length: 20 }, async (_, pass) => {
    await turn();
    begun.push({ pass, turns });
  });
  while (begun.length < 20 && turns < 100) {
    await nextTurn();
    turns += 1;
  }
  await Promise.all(passes);
  expect(begun.map(({ pass }) => pass)).toEqual(Array.from({ length: 20 }, (_, pass) => pass));
  expect(new Set(begun.map((each) => each.turns)).size).toBe(20);
});

it('lets one that comes later through, also when it was empty in between', async () => {
  const turn = createTurnstile();
  await turn();
  await turn();
  await Promise.all([turn(), turn()]);
});
