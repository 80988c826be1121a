import { expect, it } from 'vitest';
import { checks, countResult, type DemoResult } from '../../scripts/demo/verdict.ts';

const policy = { rules: [{ max: 2, perMs: 1_000 }], minGapMs: 100 };
const arrival = { recipientId: 'r', device: 'd' };
const good = countResult(
  ['a', 'b', 'c', 'd'],
  [
    { ...arrival, notificationId: 'a', at: 0 },
    { ...arrival, notificationId: 'b', at: 100 },
  ],
  {
    completed: [
      { id: 'a', outcome: 'delivered', requeues: 0 },
      { id: 'b', outcome: 'delivered', requeues: 1 },
      { id: 'c', outcome: 'expired', requeues: 0 },
    ],
    deadLettered: ['d'],
  },
  policy,
  4,
);

const passes = (result: DemoResult) => checks(result).every(({ ok }) => ok);

it('counts what the providers and the queue tell', () => {
  expect(good).toMatchObject({
    notifications: 4,
    delivered: 2,
    deadLettered: 1,
    expired: 1,
    lost: 0,
    requeues: 1,
    requeuesPerBlocked: 1,
    makespanRatio: 1,
  });
  expect(passes(good)).toBe(true);
});

it('calls lost what nobody knows of', () => {
  expect(countResult(['a', 'z'], [], { completed: [], deadLettered: [] }, policy, 4).lost).toBe(2);
});

it.each([
  [{ lost: 1 }],
  [{ duplicates: 1 }],
  [{ gapViolations: 1 }],
  [{ windowViolations: 1 }],
  [{ requeuesPerBlocked: 1.06 }],
  [{ makespanRatio: 1.031 }],
  [{ workers: 3 }],
  [{ delivered: 0 }],
  [{ requeues: 0 }],
])('fails on %j', (fault) => expect(passes({ ...good, ...fault })).toBe(false));
