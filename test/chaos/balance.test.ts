import { describe, expect, it } from 'vitest';
import { countBalance, unknownRequests, judgeWaiting, type WaitedParts } from '../../chaos/balance.ts';
import { completedOf, deadOf, enqueuedOf, entryOf, OTHER_TOKEN, TOKEN } from './facts.ts';

const nothing = { completed: [], dead: [], queued: [] };
const two = [
  { platform: 'apns' as const, token: TOKEN },
  { platform: 'fcm' as const, token: OTHER_TOKEN },
];

describe('the balance', () => {
  it('adds up where everything came to one end', () => {
    const enqueued = enqueuedOf(
      { id: 'a' },
      { id: 'b' },
      { id: 'c', expiresAt: 1 },
      { id: 'd', onThrottle: 'drop' },
      { id: 'e' },
    );
    const ends = {
      completed: [completedOf('a'), completedOf('c', 'expired'), completedOf('d', 'dropped')],
      dead: [deadOf('b')],
      queued: ['e'],
    };
    expect(countBalance(enqueued, [entryOf('a', 0)], ends)).toEqual({
      notifications: 5,
      delivered: 1,
      deadLettered: 1,
      deadLetters: { unregistered: 1 },
      expired: 1,
      dropped: 1,
      superseded: 0,
      merged: 0,
      canceled: 0,
      stillQueued: 1,
      unaccounted: 0,
      lost: 0,
      forgotten: [],
      suspects: [],
    });
  });

  it('calls lost what left no trace', () => {
    expect(countBalance(enqueuedOf({ id: 'a' }), [], nothing)).toMatchObject({
      lost: 1,
      unaccounted: 1,
      suspects: ['a: found nowhere'],
    });
  });

  it('calls lost what the queue has as delivered and no provider has seen', () => {
    const refused = entryOf('a', 0, { accepted: false, status: 503 });
    const ends = { ...nothing, completed: [completedOf('a')] };
    expect(countBalance(enqueuedOf({ id: 'a' }), [refused], ends)).toMatchObject({ delivered: 0, lost: 1 });
  });

  it('calls lost what one of two devices never got, unless the job says that it failed there', () => {
    const enqueued = enqueuedOf({ id: 'a', devices: two });
    const count = (progress: object) =>
      countBalance(enqueued, [entryOf('a', 0)], { ...nothing, completed: [completedOf('a', 'delivered', progress)] });
    expect(count({})).toMatchObject({ delivered: 1, lost: 1 });
    expect(count({ devices: { 'fcm#1': 'unregistered' } })).toMatchObject({ delivered: 1, lost: 0 });
    // The last pass could not save its progress, but the job has its end.
    const ended = { ...completedOf('a'), devices: { 'apns#0': 'delivered', 'fcm#1': 'unregistered' } } as const;
    expect(countBalance(enqueued, [entryOf('a', 0)], { ...nothing, completed: [ended] })).toMatchObject({ lost: 0 });
  });

  it('lets a notification expire that had reached one of its devices', () => {
    const enqueued = enqueuedOf({ id: 'a', devices: two, expiresAt: 1 });
    const ends = { ...nothing, completed: [completedOf('a', 'delivered', { devices: { 'apns#0': 'delivered' } })] };
    expect(countBalance(enqueued, [entryOf('a', 0)], ends)).toMatchObject({ delivered: 1, lost: 0 });
  });

  it.each([
    ['two ends', { ...nothing, completed: [completedOf('a')], dead: [deadOf('a')] }],
    ['an end that it cannot have', { ...nothing, completed: [completedOf('a', 'expired')] }],
    ['an end without an outcome', { ...nothing, completed: [completedOf('a', 'none')] }],
    ['an end and a job', { ...nothing, completed: [completedOf('a')], queued: ['a'] }],
  ])('does not account for one with %s', (_what, ends) => {
    expect(countBalance(enqueuedOf({ id: 'a' }), [entryOf('a', 0)], ends)).toMatchObject({ unaccounted: 1 });
  });

  it('does not account for what nobody enqueued', () => {
    const ends = { ...nothing, queued: ['x'] };
    expect(countBalance(new Map(), [entryOf('y', 0)], ends)).toMatchObject({
      unaccounted: 2,
      suspects: ['y: not enqueued', 'x: not enqueued'],
    });
  });
});

const enqueued = enqueuedOf({ id: 'a' });

it('knows the requests of what was enqueued, the refused ones too', () => {
  expect(unknownRequests(enqueued, [entryOf('a', 0), entryOf('a', 1, { accepted: false, status: 503 })])).toEqual([]);
});

it.each([
  ['no notification', entryOf('a', 0, { data: {}, accepted: false })],
  ['notification b', entryOf('b', 0)],
  ['notification a', entryOf('a', 0, { token: OTHER_TOKEN })],
  ['notification a', entryOf('a', 0, { platform: 'fcm' })],
])('reports a request that nobody asked for: %s', (whose, entry) => {
  expect(unknownRequests(enqueued, [entry])).toEqual([`${entry.platform} at 1970-01-01T00:00:00.000Z, ${whose}`]);
});

it('knows no request of a malformed notification', () => {
  expect(unknownRequests(new Map([['m', { id: 'm' }]]), [entryOf('m', 0)])).toHaveLength(1);
});

const digest = { onThrottle: 'digest', digest: { key: 'k', body: '{{count}} new' } } as const;
const latest = { onThrottle: 'latest', collapseId: 'c' } as const;

/** `a` goes for itself, `b` and `c`; `e` took the slot of `d`; `f` was canceled. */
function good(): WaitedParts {
  return {
    enqueued: enqueuedOf(
      ...['a', 'b', 'c'].map((id) => ({ id, ...digest })),
      ...['d', 'e'].map((id) => ({ id, ...latest })),
      { id: 'f' },
    ),
    entries: [entryOf('a', 0, { body: '3 new' }), entryOf('e', 0, { body: 'b' })],
    ends: {
      completed: [
        completedOf('a'),
        { ...completedOf('b', 'merged'), by: 'a' },
        { ...completedOf('c', 'merged'), by: 'a' },
        { ...completedOf('d', 'superseded'), by: 'e' },
        completedOf('e'),
        completedOf('f', 'canceled'),
      ],
      dead: [],
    },
    cancels: new Map([['f', true]]),
    inHand: new Set(),
  };
}

describe('what waited together', () => {
  it('is counted', () => {
    expect(judgeWaiting(good())).toEqual({
      superseded: 1,
      merged: 2,
      digests: 1,
      canceled: 1,
      quietAlerts: 0,
      faults: [],
    });
  });

  it.each<[why: string, change: (parts: WaitedParts) => Partial<WaitedParts>, fault: string]>([
    ['is in two digests', () => ({ entries: [entryOf('a', 0, { body: '2 new' })] }), 'for 2, of 3'],
    ['was not counted', () => ({ entries: [entryOf('a', 0, { body: 'b' })] }), 'for 1, of 3'],
    [
      'was sent too',
      ({ entries }) => ({ entries: [...entries, entryOf('b', 1)] }),
      'b: gave way to a, and was sent too',
    ],
    ['was sent after its cancel', ({ entries }) => ({ entries: [...entries, entryOf('f', 1)] }), 'f: sent although'],
    ['is canceled, but was too late', () => ({ cancels: new Map([['f', false]]) }), 'f: canceled, but'],
    ['was canceled by nobody', () => ({ cancels: new Map() }), 'nobody asked for it'],
    [
      'joined nothing',
      ({ ends }) => ({ ends: { ...ends, completed: ends.completed.slice(1) } }),
      'a, which has no end',
    ],
  ])('is a fault where one %s', (_, change, fault) => {
    const parts = good();
    expect(judgeWaiting({ ...parts, ...change(parts) }).faults.join('\n')).toContain(fault);
  });

  it('may have become a dead letter with its digest', () => {
    const parts = good();
    const ends = { completed: parts.ends.completed.slice(1), dead: [deadOf('a')] };
    expect(judgeWaiting({ ...parts, ends, entries: parts.entries.slice(1) }).faults).toEqual([]);
  });

  it('may have been sent by a worker that was struck', () => {
    const parts = good();
    const entries = [...parts.entries, entryOf('d', 1)];
    expect(judgeWaiting({ ...parts, entries }).faults).toHaveLength(1);
    expect(judgeWaiting({ ...parts, entries, inHand: new Set(['d']) }).faults).toEqual([]);
  });

  it('no longer counts what was canceled', () => {
    const parts = good();
    const cancels = new Map([
      ['b', true],
      ['f', true],
    ]);
    expect(judgeWaiting({ ...parts, cancels, entries: [entryOf('a', 0, { body: '2 new' })] }).faults).toEqual([]);
  });
});
