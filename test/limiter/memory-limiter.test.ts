import { expect, it } from 'vitest';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { limiterContract } from '../contract/limiter.ts';
import { inMemory } from './both.ts';

limiterContract('in memory', inMemory);

it('forgets recipients whose windows have passed, while others are served', async () => {
  let now = Date.now();
  const limiter = createMemoryLimiter({ policy: { rules: [{ max: 1, perMs: 1_000 }], minGapMs: 0 }, now: () => now });
  for (let number = 0; number < 500; number += 1) await limiter.admit({ recipientId: `past-${number}`, id: 'a' });
  expect(limiter.recipients).toBe(500);
  now += 1_001;
  for (let number = 0; number < 500; number += 1) await limiter.admit({ recipientId: `present-${number}`, id: 'a' });
  expect(limiter.recipients).toBe(500);
});
