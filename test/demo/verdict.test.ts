import { describe, expect, it, onTestFinished, test, vi } from 'vitest';
import { watchDelays } from '../../demo/delays.ts';
import { countResult, type DemoResult } from '../../demo/counts.ts';
import { readMorning, BUSIEST, MATCH, NIGHT, THREAD, TRIP } from '../../demo/morning.ts';
import type { SeenEntry } from '../../demo/providers-child.ts';
import type { DemoDeadLetter } from '../../demo/queue.ts';
import {
  checkDeadLetters,
  checkReplayed,
  checkWaiting,
  machineChecks,
  promises,
  type Check,
} from '../../demo/verdict.ts';
import { idealMakespan, judge, type Arrival } from '../../sandbox/judge.ts';
import { tokenOf } from '../../src/notification/device.ts';
import { entryOf } from '../chaos/facts.ts';

const policies = {
  alerts: { rules: [{ max: 2, perMs: 1_000 }], minGapMs: 100 },
  pushes: { rules: [{ max: 1, perMs: 1_000 }], minGapMs: 0 },
};
const workers = { workers: 4, lateWakes: 0, mostLateMs: 20, lateToleranceMs: 90, standstills: 0 };
const arrival = { recipientId: 'r', device: 'd' };
const arrived = {
  alerts: [
    { ...arrival, notificationId: 'a', at: 0 },
    { ...arrival, notificationId: 'b', at: 100 },
  ],
  silent: [{ ...arrival, notificationId: 's', at: 10 }],
  pushes: [{ ...arrival, notificationId: 'p', at: 50, delayMs: 12.4 }],
};
const endings = {
  completed: [
    { id: 'a', outcome: 'delivered', requeues: 0 },
    { id: 'b', outcome: 'delivered', requeues: 1 },
    { id: 'c', outcome: 'expired', requeues: 0 },
    { id: 'm', outcome: 'merged', requeues: 0 },
  ],
  deadLettered: ['d'],
};
const good = countResult(['a', 'b', 'c', 'd', 'p', 's', 'm'], arrived, endings, policies, workers);

const broken = (checks: readonly Check[]) => checks.flatMap(({ what, ok }) => (ok ? [] : [what]));

const isExplained = (result: DemoResult) => machineChecks(result, policies.alerts).every(({ ok }) => ok);

/** One notification at two devices, at the second one later by `afterMs`, of which a process measured `delayMs`. */
it.each([
  { minGapMs: 1_000, afterMs: 499, delayMs: 0, violations: 0 },
  { minGapMs: 1_000, afterMs: 500, delayMs: 0, violations: 1 },
  { minGapMs: 1_000, afterMs: 600, delayMs: 101, violations: 0 },
  { minGapMs: 0, afterMs: 499, delayMs: 0, violations: 0 },
  { minGapMs: 0, afterMs: 500, delayMs: 0, violations: 1 },
])('two devices get one alert or two: %j', ({ minGapMs, afterMs, delayMs, violations }) => {
  const alerts = [
    { recipientId: 'r', notificationId: 'a', device: 'phone', at: 0 },
    { recipientId: 'r', notificationId: 'a', device: 'tablet', at: afterMs, delayMs },
  ];
  const verdict = judge(alerts, { rules: minGapMs === 0 ? [{ max: 1, perMs: 1_000 }] : [], minGapMs });
  expect(verdict.gapViolations + verdict.windowViolations).toBe(violations);
});

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
  expect([broken(promises(good)), isExplained(good)]).toEqual([[], true]);
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

type Told = Parameters<typeof countResult>[1];
const at = (notificationId: string, ms: number, more: Partial<Arrival> = {}): Arrival => ({
  ...arrival,
  notificationId,
  at: ms,
  ...more,
});
const told = (change: Partial<Told>, ids: readonly string[] = []): DemoResult => {
  return countResult(ids, { ...arrived, ...change }, endings, policies, workers);
};

test.each<[what: string, result: DemoResult, promise: string]>([
  ['one left no trace', told({}, ['a', 'z']), 'lost'],
  ['one came twice', told({ alerts: [at('a', 0), at('b', 100), at('a', 5)] }), 'sent twice'],
  ['a push came twice', told({ pushes: [at('p', 0), at('p', 9_000)] }), 'sent twice'],
  ['two are closer than the gap', told({ alerts: [at('a', 0), at('b', 49)] }), 'alerts closer than the gap'],
  ['a delay explains less', told({ alerts: [at('a', 10, { delayMs: 9 }), at('b', 50)] }), 'alerts closer than the gap'],
  [
    'a burst, whatever the delay',
    told({ alerts: [0, 5].map((ms) => at(`a${ms}`, ms, { delayMs: 40 })) }),
    'alerts closer than the gap',
  ],
  [
    'a third in a window of two',
    told({ alerts: [at('a', 0), at('b', 400), at('c', 949)] }),
    'alerts too many for a window',
  ],
  [
    'the same, with a delay that explains less',
    told({ alerts: [at('a', 84, { delayMs: 84 }), at('b', 400), at('c', 949)] }),
    'alerts too many for a window',
  ],
  [
    'a second push in its window',
    told({ pushes: [at('p', 0), at('q', 949)] }),
    'background pushes over their own limit',
  ],
  ['there was no push', told({ pushes: [] }), 'background pushes over their own limit'],
  ['a worker has ended', { ...good, workers: 3 }, 'workers that still run'],
  ['nothing was delivered', { ...good, delivered: 0 }, 'delivered; put back until their slot'],
  ['nothing was put back', { ...good, requeues: 0 }, 'delivered; put back until their slot'],
])('%s: that alone is reported, however late the machine was', (_, result, promise) => {
  const late = { ...result, lateWakes: 1_000, mostLateMs: 60_000, mostDelayMs: 60_000 };
  expect(broken(promises(late))).toEqual([promise]);
});

test.each<[what: string, alerts: Arrival[]]>([
  ['the limits were used up', [at('a', 0), at('b', 50), at('c', 950)]],
  ['recipients are apart', [at('a', 0), at('b', 0, { recipientId: 's' })]],
  ['two devices got the same one', [at('a', 0), at('a', 49, { device: 'e' })]],
  ['the first may have left in time', [at('a', 10, { delayMs: 10 }), at('b', 50)]],
  ['they may have left in the other order', [at('a', 0), at('b', 10, { delayMs: 60 })]],
  ['a window may have begun earlier', [at('a', 85, { delayMs: 85 }), at('b', 400), at('c', 950)]],
])('%s: nothing is reported', (_, alerts) => {
  expect(broken(promises(told({ alerts })))).toEqual([]);
});

test('a schedule is compared with the fastest that the limits allow', () => {
  expect(idealMakespan(1, policies.alerts)).toBe(0);
  expect(idealMakespan(5, policies.alerts)).toBe(2_000);
  const { makespanMs, makespanRatio, maxInWindow } = told({ alerts: [at('a', 0), at('b', 500), at('c', 1_500)] });
  expect({ makespanMs, makespanRatio, maxInWindow }).toEqual({ makespanMs: 1_500, makespanRatio: 1.5, maxInWindow: 2 });
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

const morning = readMorning();
const asked = (recipientId: string) => morning.valid.filter((one) => one.recipientId === recipientId);
/** What a device got of the n-th notification to a recipient. */
function got(recipientId: string, index: number, ms: number, more: Partial<SeenEntry> = {}): SeenEntry {
  const one = asked(recipientId).at(index);
  const [device] = one?.devices ?? [];
  if (one === undefined || device === undefined) throw new Error(`expected a notification ${index} to ${recipientId}`);
  const shown = one.onQuiet === 'silence' ? { payload: { aps: { 'interruption-level': 'passive' } } } : {};
  const own = {
    platform: 'apns',
    token: tokenOf(device),
    body: one.alert?.body,
    data: { ref: one.id },
    ...shown,
  } as const;
  return entryOf(one.id, ms, { ...own, ...more });
}
const last = asked(BUSIEST).findLastIndex(({ priority }) => priority === 'high');

/** A morning in which each that asked for something else than waiting got it. */
function waited() {
  const quiet = asked(NIGHT).flatMap(({ onQuiet }, index) => (onQuiet === 'drop' ? [] : [got(NIGHT, index, index)]));
  const entries = [
    ...[got(THREAD, 0, 0), got(THREAD, 1, 9, { body: `${asked(THREAD).length - 1} new messages` })],
    ...[got(MATCH, 0, 0), got(MATCH, -1, 9), got(BUSIEST, last, 0), got(BUSIEST, 0, 9), ...quiet],
  ];
  const counts = {
    merged: 1,
    superseded: asked(MATCH).length - 2,
    dropped: 1,
    canceled: asked(TRIP.recipientId).length,
  };
  const canceled = { canceled: counts.canceled, tooLate: 0 };
  return { entries, recipientOf: morning.recipientOf, valid: morning.valid, counts, canceled };
}
const THREADS = 'messages of one thread, in how many alerts';
const SCORES = 'scores of a match, the newest last';
const HIGH = 'the last of high priority, enqueued and arrived as';
const CANCELED = 'canceled, and arrived all the same';
const QUIET = 'in quiet hours silent, dropped, urgent';

test.each<[what: string, fault: (right: ReturnType<typeof waited>) => object, ...checks: string[]]>([
  ['all was well', () => ({})],
  ['a message is in no alert', ({ entries }) => ({ entries: entries.slice(1) }), THREADS],
  ['no message was merged', ({ counts }) => ({ counts: { ...counts, merged: 0 } }), THREADS],
  ['an older score came last', ({ entries }) => ({ entries: [...entries, got(MATCH, 1, 20)] }), SCORES],
  ['a score is lost', ({ counts }) => ({ counts: { ...counts, superseded: counts.superseded - 1 } }), SCORES],
  [
    'that of high priority came late',
    ({ entries }) => ({
      entries: [
        ...asked(BUSIEST)
          .slice(0, last - 14)
          .map((_, index) => got(BUSIEST, index, 0)),
        ...entries,
      ],
    }),
    HIGH,
  ],
  ['one came after its cancel', ({ entries }) => ({ entries: [...entries, got(TRIP.recipientId, 0, 0)] }), CANCELED],
  [
    'one was not canceled',
    ({ canceled }) => ({ canceled: { ...canceled, canceled: canceled.canceled - 1 } }),
    CANCELED,
  ],
  ['one sounded in the night', ({ entries }) => ({ entries: entries.map((one) => ({ ...one, payload: {} })) }), QUIET],
  ['none was dropped in the night', ({ counts }) => ({ counts: { ...counts, dropped: 0 } }), QUIET],
])('what asked for something else than waiting: %s', (_, fault, ...checks) => {
  const right = waited();
  expect(broken(checkWaiting({ ...right, ...fault(right) }))).toEqual(checks);
});

test('the dead letters of the morning are judged by notification and reason', () => {
  const morning = readMorning();
  const expected = [
    ...morning.malformed.map(({ id }) => [id, 'invalid'] as const),
    ...['morning-102', 'morning-106', 'morning-214'].map((id) => [id, 'bad-token'] as const),
    ...['morning-021', 'morning-351'].map((id) => [id, 'unregistered'] as const),
  ];
  const letters = expected.map(([id, reason]): DemoDeadLetter => ({ id, reason, recipientId: null, message: '' }));
  expect(checkDeadLetters(letters, morning)).toMatchObject({ found: '10 of 10', ok: true });
  const [first, ...rest] = letters;
  expect(checkDeadLetters(rest, morning)).toMatchObject({ found: '9 of 10', ok: false });
  const stalled: DemoDeadLetter = { id: first?.id ?? '', reason: 'stalled', recipientId: null, message: '' };
  expect(checkDeadLetters([...rest, stalled], morning)).toMatchObject({ found: '9 of 10, and 1 others', ok: false });
  expect(broken([checkReplayed(undefined), checkReplayed('a')])).toHaveLength(1);
});

test('a process measures for how long it did not look, and no more: that excuses a gap', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  let now = 1_000;
  const watch = watchDelays(undefined, () => now);
  onTestFinished(() => watch.stop());
  for (const tick of [1_005, 1_010, 1_022, 1_027]) {
    now = tick;
    vi.advanceTimersByTime(5);
  }
  // What came by 1,022 came after 1,010, and 5 ms of this is what a tick takes.
  expect([1_009, 1_022, 1_028].map((ms) => watch.delayMs(ms))).toEqual([0, 7, 0]);
});
