import { expect, it } from 'vitest';
import { checks, countResult, type DemoResult } from '../../scripts/demo/verdict.ts';

const policies = {
  alerts: { rules: [{ max: 2, perMs: 1_000 }], minGapMs: 100 },
  pushes: { rules: [{ max: 1, perMs: 1_000 }], minGapMs: 0 },
};
const arrival = { recipientId: 'r', device: 'd' };
const good = countResult(
  ['a', 'b', 'c', 'd', 'p', 's', 'm'],
  {
    alerts: [
      { ...arrival, notificationId: 'a', at: 0 },
      { ...arrival, notificationId: 'b', at: 100 },
    ],
    silent: [{ ...arrival, notificationId: 's', at: 10 }],
    pushes: [{ ...arrival, notificationId: 'p', at: 50 }],
  },
  {
    completed: [
      { id: 'a', outcome: 'delivered', requeues: 0 },
      { id: 'b', outcome: 'delivered', requeues: 1 },
      { id: 'c', outcome: 'expired', requeues: 0 },
      { id: 'm', outcome: 'merged', requeues: 0 },
    ],
    deadLettered: ['d'],
  },
  policies,
  4,
);

const passes = (result: DemoResult) => checks(result).every(({ ok }) => ok);

it('counts what the providers and the queue tell', () => {
  expect(good).toMatchObject({
    notifications: 7,
    delivered: 4,
    merged: 1,
    deadLettered: 1,
    expired: 1,
    lost: 0,
    requeues: 1,
    requeuesPerBlocked: 1,
    gapViolations: 0,
    minGapMs: 100,
    backgroundPushes: 1,
    backgroundViolations: 0,
    makespanRatio: 1,
  });
  expect(passes(good)).toBe(true);
});

it('calls lost what nobody knows of', () => {
  const nothing = { alerts: [], silent: [], pushes: [] };
  expect(countResult(['a', 'z'], nothing, { completed: [], deadLettered: [] }, policies, 4).lost).toBe(2);
});

it('judges background pushes by their own limit, and counts those that came twice', () => {
  const pushes = ['p', 'q', 'q'].map((notificationId, index) => ({ ...arrival, notificationId, at: index * 600 }));
  const result = countResult([], { alerts: [], silent: [], pushes }, { completed: [], deadLettered: [] }, policies, 4);
  expect(result).toMatchObject({
    delivered: 2,
    backgroundPushes: 2,
    backgroundViolations: 2,
    windowViolations: 0,
    gapViolations: 0,
    duplicates: 1,
  });
});

it.each([
  [{ lost: 1 }],
  [{ duplicates: 1 }],
  [{ gapViolations: 1 }],
  [{ windowViolations: 1 }],
  [{ backgroundViolations: 1 }],
  [{ backgroundPushes: 0 }],
  [{ requeuesPerBlocked: 1.06 }],
  [{ makespanRatio: 1.031 }],
  [{ workers: 3 }],
  [{ delivered: 0 }],
  [{ requeues: 0 }],
])('fails on %j', (fault) => expect(passes({ ...good, ...fault })).toBe(false));
