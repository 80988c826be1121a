import { describe, expect, it } from 'vitest';
import { countResult, type DemoResult } from '../../demo/counts.ts';
import { machineChecks, promises } from '../../demo/verdict.ts';

const policies = {
  alerts: { rules: [{ max: 2, perMs: 1_000 }], minGapMs: 100 },
  pushes: { rules: [{ max: 1, perMs: 1_000 }], minGapMs: 0 },
};
const workers = { workers: 4, lateWakes: 0, mostLateMs: 20, lateToleranceMs: 90, standstills: 0 };
const arrival = { recipientId: 'r', device: 'd' };
const good = countResult(
  ['a', 'b', 'c', 'd', 'p', 's', 'm'],
  {
    alerts: [
      { ...arrival, notificationId: 'a', at: 0 },
      { ...arrival, notificationId: 'b', at: 100 },
    ],
    silent: [{ ...arrival, notificationId: 's', at: 10 }],
    pushes: [{ ...arrival, notificationId: 'p', at: 50, delayMs: 12.4 }],
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
  workers,
);

const keeps = (result: DemoResult) => promises(result).every(({ ok }) => ok);
const isExplained = (result: DemoResult) => machineChecks(result, policies.alerts).every(({ ok }) => ok);

it('counts what the providers, the queue and the workers say', () => {
  expect(good).toMatchObject({
    notifications: 7,
    delivered: 4,
    merged: 1,
    deadLettered: 1,
    expired: 1,
    lost: 0,
    blocked: 1,
    requeues: 1,
    requeuesPerBlocked: 1,
    gapViolations: 0,
    minGapMs: 100,
    backgroundPushes: 1,
    backgroundViolations: 0,
    makespanRatio: 1,
    mostDelayMs: 12,
    ...workers,
  });
  expect([keeps(good), isExplained(good)]).toEqual([true, true]);
});

it('counts the further requeues of the recipient with the most alerts', () => {
  const alerts = ['a', 'b', 'c'].map((notificationId, index) => ({ ...arrival, notificationId, at: index * 600 }));
  const other = { ...arrival, recipientId: 'other', notificationId: 'o', at: 0 };
  const completed = [
    { id: 'a', outcome: 'delivered', requeues: 0 },
    { id: 'b', outcome: 'delivered', requeues: 3 },
    { id: 'c', outcome: 'delivered', requeues: 1 },
    { id: 'o', outcome: 'delivered', requeues: 5 },
  ];
  const arrived = { alerts: [...alerts, other], silent: [], pushes: [] };
  const result = countResult([], arrived, { completed, deadLettered: [] }, policies, workers);
  expect(result).toMatchObject({ moreRequeuesOfBusiest: 2, requeues: 9, blocked: 3 });
});

it('calls lost what nobody knows of', () => {
  const nothing = { alerts: [], silent: [], pushes: [] };
  expect(countResult(['a', 'z'], nothing, { completed: [], deadLettered: [] }, policies, workers).lost).toBe(2);
});

it('judges background pushes by their own limit, and counts those that came twice', () => {
  const pushes = ['p', 'q', 'q'].map((notificationId, index) => ({ ...arrival, notificationId, at: index * 600 }));
  const endings = { completed: [], deadLettered: [] };
  const result = countResult([], { alerts: [], silent: [], pushes }, endings, policies, workers);
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
  [{ workers: 3 }],
  [{ delivered: 0 }],
  [{ requeues: 0 }],
])('a promise is broken by %j, however late the machine was', (fault) => {
  expect(keeps({ ...good, lateWakes: 1_000, mostLateMs: 60_000, mostDelayMs: 60_000, ...fault })).toBe(false);
});

describe('what depends on the machine', () => {
  // With two alerts a second, the 21st comes after 10 s at best, and the 23rd after 11 s.
  const many = { ...good, blocked: 100, alertsOfBusiest: 21, idealMakespanMs: 10_000 };

  it.each([
    ['5 % more requeues, for what providers refused', { requeues: 105 }, { requeues: 106 }],
    ['one more requeue for each late wake-up', { requeues: 115, lateWakes: 10 }, { requeues: 116, lateWakes: 10 }],
    [
      'one more for each standstill of a worker',
      { requeues: 115, standstills: 10 },
      { requeues: 116, standstills: 10 },
    ],
    ['3 % more time', { makespanMs: 10_320 }, { makespanMs: 10_321 }],
    [
      'one slot more for each further requeue of that recipient, and the latest wake-up',
      { makespanMs: 11_829, moreRequeuesOfBusiest: 2, mostLateMs: 500 },
      { makespanMs: 11_831, moreRequeuesOfBusiest: 2, mostLateMs: 500 },
    ],
  ])('explains %s, and no more', (_, granted, tooMuch) => {
    expect(isExplained({ ...many, ...granted })).toBe(true);
    expect(isExplained({ ...many, ...tooMuch })).toBe(false);
  });
});
