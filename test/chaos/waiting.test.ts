import { describe, expect, it } from 'vitest';
import { judgeWaiting, type WaitedParts } from '../../../chaos/balance.ts';
import { completedOf, deadOf, enqueuedOf, entryOf } from './facts.ts';

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
