import { expect, it } from 'vitest';
import { judgePacing } from '../../../scripts/chaos/pacing.ts';
import { enqueuedOf, entryOf, OTHER_TOKEN } from './facts.ts';

const policies = {
  policy: { rules: [{ max: 2, perMs: 1_000 }], minGapMs: 100 },
  categories: { news: { rules: [{ max: 1, perMs: 800 }], minGapMs: 0 } },
};
const enqueued = enqueuedOf(
  { id: 'a' },
  { id: 'b' },
  { id: 'c' },
  { id: 'n', category: 'news' },
  { id: 'o', category: 'news' },
);
const judged = (...entries: ReturnType<typeof entryOf>[]) => judgePacing(enqueued, entries, policies);

it('finds nothing where the limits were kept', () => {
  expect(judged(entryOf('a', 0), entryOf('b', 500), entryOf('c', 1_000))).toEqual({
    gapViolations: 0,
    windowViolations: 0,
    minGapMs: 500,
    bursts: [],
  });
});

it('tells two that came too close, and whom they alerted', () => {
  expect(judged(entryOf('a', 0), entryOf('b', 60))).toEqual({
    gapViolations: 1,
    windowViolations: 0,
    minGapMs: 60,
    bursts: ['r: gap, 60 ms at 1970-01-01T00:00:00.060Z'],
  });
});

it('tells what was too many for a window', () => {
  const { windowViolations, bursts } = judged(entryOf('a', 0), entryOf('b', 500), entryOf('c', 900));
  expect(windowViolations).toBe(1);
  expect(bursts).toEqual(['r: 2/1s, 900 ms at 1970-01-01T00:00:00.900Z']);
});

it('judges a category by its own limits too', () => {
  expect(judged(entryOf('n', 0), entryOf('o', 500))).toMatchObject({ gapViolations: 0, windowViolations: 1 });
});

it('judges what was accepted alone, whatever was answered', () => {
  const refused = entryOf('b', 10, { accepted: false, status: 503 });
  expect(judged(entryOf('a', 0), refused)).toMatchObject({ gapViolations: 0, minGapMs: null });
  expect(judged(entryOf('a', 0), { ...refused, accepted: true })).toMatchObject({ gapViolations: 1 });
});

it.each([
  ['APNs', entryOf('b', 10, { payload: { aps: { 'interruption-level': 'passive' } } })],
  [
    'FCM',
    entryOf('b', 10, {
      platform: 'fcm',
      token: OTHER_TOKEN,
      payload: { android: { notification: { notification_priority: 'PRIORITY_LOW' } } },
    }),
  ],
])('leaves out what alerted nobody on %s', (_platform, silent) => {
  expect(judged(entryOf('a', 0), silent)).toMatchObject({ gapViolations: 0, minGapMs: null });
});
