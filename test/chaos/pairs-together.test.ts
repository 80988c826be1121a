import { describe, expect, it } from 'vitest';
import type { Done, LineLook, PairsFacts } from '../../chaos/pairs/facts.ts';
import type { Leftover } from '../../chaos/pairs/leftovers.ts';
import type { SeenEntry } from '../../demo/providers-child.ts';
import { act, cancelId, digest, endOf, faultsOf, judged, latest, livesOf, merged, seen } from './pairs-facts.ts';

/** The judge of a run with --pairs: rules 4 to 8, of what waits together, of limits, of what is left, and of lines. */

describe('rule 4, the alerts of digests count each once', () => {
  const lives = livesOf(...['l', 'p', 'q'].map((name) => ({ name, ...digest })));
  const parts = [merged('p', 'l'), merged('q', 'l')];
  const remove: Done = { kind: 'remove', life: 'l', jobId: 'l', ...act(10_000) };
  it.each<[string, Partial<PairsFacts>]>([
    [
      '4: l: an alert for 1, after a replay; itself and p, q should be in it',
      {
        ends: [endOf('l', 'dead-lettered', { from: 'stream' }), endOf('l', 'delivered', { generation: 1 }), ...parts],
        entries: [seen('l', 1)],
      },
    ],
    [
      '4: no alert counts p (merged into l, which ended as dropped), q (merged into l, which ended as dropped)',
      { ends: [endOf('l', 'dropped'), ...parts] },
    ],
    [
      '4: alerts count only 1 of p (merged into l, which ended as dropped), q (merged into l, which ended as dropped)',
      {
        lives: [...lives, ...livesOf(...['0', '1', '2', 'x'].map((name) => ({ name, ...digest }))).slice(3)],
        ends: [endOf('l', 'dropped'), ...parts, endOf('x', 'delivered')],
        entries: [seen('x', 1, { body: '2 new' })],
      },
    ],
    [
      '4: l: an alert for 4: 1 more than there are',
      { ends: [endOf('l', 'delivered'), ...parts], entries: [seen('l', 1, { body: '4 new' })] },
    ],
    [
      '4: l: an alert for 3: 1 more than there are; q, merged into them, had been canceled',
      {
        ends: [
          endOf('l', 'delivered'),
          merged('p', 'l'),
          endOf('q', 'dead-lettered', { from: 'stream' }),
          merged('q', 'l', { generation: 1 }),
        ],
        done: [cancelId('q', 5_000)],
        entries: [seen('l', 9_000, { body: '3 new' })],
      },
    ],
    [
      '4: p: is a part of l, and was seen by itself too',
      { ends: [endOf('l', 'delivered'), ...parts], entries: [seen('l', 1, { body: '3 new' }), seen('p', 900)] },
    ],
    [
      '4: l: an alert for 3, and at most 2 are in one digest',
      {
        lives: livesOf(
          ...['l', 'p', 'q'].map((name) => ({ name, ...digest, digest: { ...digest.digest, maxSize: 2 } })),
        ),
        ends: [endOf('l', 'delivered'), ...parts],
        entries: [seen('l', 1, { body: '3 new' })],
      },
    ],
  ])('%s', (fault, facts) => {
    expect(faultsOf({ lives, ...facts })).toContain(fault);
  });

  it('takes what was removed with its leader, and lets a part go for the others', () => {
    const { faults, excused } = judged({
      lives,
      ends: parts,
      done: [remove],
      entries: [seen('p', 900, { body: '2 new' })],
    });
    expect(faults).toEqual([]);
    expect(excused).toEqual({ 'in a digest that was tried, and whose job was removed by hand': 1 });
  });

  it('counts a part that was seen by itself too, if nobody could know that', () => {
    const two = { lives: lives.slice(0, 2), ends: [endOf('l', 'delivered'), merged('p', 'l')] };
    const entries = [seen('l', 9_000, { body: '2 new' }), seen('p', 900, { status: 500 })];
    expect(judged({ ...two, entries })).toMatchObject({ faults: [], excused: { 'merged, and seen at a fault': 1 } });
    const known = [seen('l', 9_000, { body: '2 new' }), seen('p', 900)];
    expect(faultsOf({ ...two, entries: known })).toContain('4: p: is a part of l, and was seen by itself too');
  });

  it('takes the digest as the one that a part names, where its id was used again', () => {
    const twice = livesOf(...['l', 'p', 'l@2'].map((name) => ({ name, ...digest })));
    const ends = [endOf('l', 'delivered'), endOf('l@2', 'delivered'), merged('p', 'l')];
    const entries = [seen('l', 900, { body: '2 new' }), seen('l@2', 11_000)];
    const done: Done[] = [{ kind: 'forget', life: 'l', ...act(1_500) }];
    expect(faultsOf({ lives: twice, ends, entries, done })).toEqual([]);
  });

  it('lets a part go for the others where the leader left and is replayed alone', () => {
    const gone = [endOf('l', 'dead-lettered', { from: 'stream' }), endOf('l', 'delivered', { generation: 1 })];
    const alone = [seen('p', 900, { body: '2 new' }), seen('l', 9_000)];
    const more = merged('p', 'l', { from: 'stream', at: 1 });
    const ends = [...gone, more, endOf('p', 'delivered'), merged('q', 'l')];
    expect(judged({ lives, ends, entries: alone }).excused).toEqual({ 'counted by another one of its digest': 1 });
    expect(faultsOf({ lives, ends, entries: alone })).toEqual([]);
    expect(faultsOf({ lives, ends: [...gone, ...parts], entries: alone })).toEqual([]);
    const all = [seen('p', 900, { body: '2 new' }), seen('l', 9_000, { body: '3 new' })];
    expect(faultsOf({ lives, ends: [...gone, ...parts], entries: all })).toEqual([
      '4: l: an alert for 3; p: an alert for 2: 2 more than there are',
    ]);
    const same = [endOf('l', 'delivered'), ...parts];
    expect(faultsOf({ lives, ends: same, entries: alone })).toContain(
      '4: l: an alert for 1; itself and q should be in it',
    );
  });

  it('lets parts end with their leader where docs say so', () => {
    const dead = [{ life: 'l', letterId: 'l', reason: 'bad-token', generation: 0 }];
    const ends = [endOf('l', 'dead-lettered', { from: 'stream' }), ...parts];
    expect(judged({ lives, ends, dead })).toMatchObject({
      faults: [],
      excused: { 'in a digest that is a dead letter': 2 },
    });
    const expiring = livesOf(...['l', 'p', 'q'].map((name) => ({ name, ...digest, expiresAt: 9 })));
    expect(faultsOf({ lives: expiring, ends: [endOf('l', 'expired'), ...parts] })).toEqual([]);
    const [leader, ...others] = expiring;
    const lasting = [
      ...(leader ? [leader] : []),
      ...others.map((life) => ({ ...life, input: { ...life.input, expiresAt: undefined } })),
    ];
    expect(faultsOf({ lives: lasting, ends: [endOf('l', 'expired'), ...parts] })).toHaveLength(1);
  });
});

describe('rule 5, only a newer one takes the place', () => {
  const lives = livesOf(...['a', 'b'].map((name) => ({ name, ...latest })));
  it.each<[string, Partial<PairsFacts>]>([
    [
      '5: b: was superseded by a, which is older',
      { ends: [endOf('a', 'delivered'), endOf('b', 'superseded', { by: 'a' })], entries: [seen('a', 1)] },
    ],
    [
      '5: b: is the newest of its collapse id, and ended as dropped, unseen',
      { ends: [endOf('a', 'delivered'), endOf('b', 'dropped')], entries: [seen('a', 1)] },
    ],
    [
      '5: a (replayed): was seen after b, which is newer',
      {
        ends: [
          endOf('a', 'dead-lettered', { from: 'stream' }),
          endOf('a', 'delivered', { generation: 1 }),
          endOf('b', 'delivered'),
        ],
        entries: [seen('b', 2_000), seen('a', 9_000)],
      },
    ],
    [
      '5: a: was superseded by b, of another line',
      {
        lives: livesOf({ name: 'a', ...latest }, { name: 'b', ...latest, collapseId: 'd' }),
        ends: [endOf('a', 'superseded', { by: 'b' }), endOf('b', 'delivered')],
        entries: [seen('b', 1)],
      },
    ],
    [
      '5: a: was superseded by z, which is not known',
      { lives: livesOf({ name: 'a', ...latest }), ends: [endOf('a', 'superseded', { by: 'z' })] },
    ],
  ])('%s', (fault, facts) => {
    expect(faultsOf({ lives, ...facts })).toContain(fault);
  });

  it('asks for no older one where the newest was canceled', () => {
    const ends = [endOf('a', 'superseded', { by: 'b' }), endOf('b', 'canceled')];
    expect(faultsOf({ lives, ends, done: [cancelId('b', 1_500)] })).toEqual([]);
  });
});

describe('rule 6, gaps, windows, blocks and quiet hours', () => {
  const lives = livesOf({ name: 'a' }, { name: 'b' }, { name: 'u', category: 'urgent' });
  const ends = ['a', 'b', 'u'].map((name) => endOf(name, 'delivered'));
  const at = (first: number, second: number): SeenEntry[] => [seen('a', first), seen('b', second), seen('u', 90_000)];
  const faults = (entries: SeenEntry[], ...done: Done[]): string[] => faultsOf({ lives, ends, entries, done });

  it('finds alerts that are too close, but for what a reset has forgotten', () => {
    expect(faults(at(10_000, 10_200))).toEqual([]);
    expect(faults(at(10_000, 10_100))).toEqual(['6: r: gap, 100 ms at 1970-01-01T00:00:10.100Z (a, b)']);
    expect(faults(at(10_000, 10_100), { kind: 'reset', recipientId: 'r', ...act(10_050) })).toEqual([]);
    expect(faults(at(10_000, 10_100), { kind: 'reset', recipientId: 's', ...act(10_050) })).toHaveLength(1);
    expect(faults(at(10_000, 10_100), { kind: 'reset', recipientId: 'r', ...act(5_000) })).toHaveLength(1);
  });

  it('judges by stricter limits only while they are certainly in force', () => {
    const limit: Done = { kind: 'limit', recipientId: 'r', ...act(5_000) };
    const unlimit: Done = { kind: 'unlimit', recipientId: 'r', ...act(12_000) };
    expect(faults(at(10_000, 10_300), limit, unlimit)).toEqual(['6: r: gap of its own limits, 300 ms: a, b']);
    expect(faults(at(11_900, 12_200), limit, unlimit)).toEqual([]);
    expect(faults(at(5_500, 5_800), limit, unlimit)).toEqual([]);
  });

  it('finds what sounds in quiet hours, or is sent in a block', () => {
    const quiet: Done = { kind: 'quiet', recipientId: 'r', ...act(5_000) };
    expect(faults(at(1_000, 10_000), quiet)).toEqual(['6: b: was seen in quiet hours, 3990 ms after its beginning']);
    expect(faults(at(1_000, 10_000), quiet, { kind: 'unquiet', recipientId: 'r', ...act(9_000) })).toEqual([]);
    const block: Done = { kind: 'block', recipientId: 'r', blockedUntil: 11_000, ...act(5_000) };
    expect(faults(at(1_000, 10_000), block)).toEqual([
      '6: b: was seen while it was blocked, 3990 ms after its beginning',
    ]);
    expect(faults(at(1_000, 11_500), block)).toEqual([]);
    const silent = seen('b', 10_000, { payload: { aps: { 'interruption-level': 'passive' } } });
    expect(faults([seen('a', 1_000), silent, seen('u', 90_000)], block)).toEqual([]);
  });

  it('excuses what left late after a freeze', () => {
    const thaws = [{ ids: new Set(['b']), from: 10_050, until: 10_300 }];
    const { faults: found, excused } = judged({ lives, ends, entries: at(10_000, 10_100), thaws });
    expect(found).toEqual([]);
    expect(excused).toEqual({ 'too close, sent late after a freeze': 1 });
  });
});

describe('rule 7, nothing is left but what its documented life explains', () => {
  const lives = livesOf({ name: 'a' });
  const fine = { lives, ends: [endOf('a', 'delivered')], entries: [seen('a', 1)] };
  const left = (key: string, more: Partial<Leftover> = {}): Leftover => ({ key, type: 'string', ttlMs: -1, ...more });
  const hour = 3_600_000;
  const readAt = 100_000;
  const completed = left('{p}:notifications:completed', { content: { a: '1' } });
  it.each<[string, Leftover[]]>([
    ['7: p:{r}:settings: never expires', [left('p:{r}:settings')]],
    [
      '7: {p}:notifications:b: is in no state of its queue, and never expires',
      [completed, left('{p}:notifications:b')],
    ],
    [
      '7: p:{r}:reserved: a/0 has a slot 500 ms ahead',
      [left('p:{r}:reserved', { ttlMs: 1, content: { 'a/0': String(readAt + 500) } })],
    ],
    [
      '7: p:{r}:held:news: a/1 has a slot 500 ms ahead',
      [left('p:{r}:held:news', { ttlMs: 1, content: { 'a/1': String(readAt + 500) } })],
    ],
    [
      '7: p:{r}:waiting: digest::k is kept for 48 h more',
      [
        left('p:{r}:waiting', {
          ttlMs: 1,
          content: { 'digest::k': JSON.stringify({ name: 'a', kept: readAt + 48 * hour }) },
        }),
      ],
    ],
    [
      '7: {p}:cancellation:x: has a, which ended, for 720 h more',
      [left('{p}:cancellation:x', { ttlMs: 1, content: { a: String(readAt + 720 * hour) } })],
    ],
  ])('%s', (fault, leftovers) => {
    expect(faultsOf({ ...fine, leftovers })).toEqual([fault]);
  });

  it('takes what docs list, what ends in time, and what a person removed', () => {
    const leftovers = [
      ...[
        completed,
        left('{p}:notifications:a'),
        left('{p}:notifications:meta'),
        left('{p}:outcomes'),
        left('{p}:dead-letters:events'),
      ],
      left('p:{r}:reserved', { ttlMs: 1, content: { 'a/0': String(readAt - 1), 'g/0': String(readAt + 500) } }),
      left('{p}:cancellation:x', { ttlMs: 1, content: { a: String(readAt + hour), g: String(readAt + 720 * hour) } }),
      left('p:{r}:waiting', {
        ttlMs: 1,
        content: {
          'end:a@0': JSON.stringify({ how: 'canceled', kept: readAt }),
          'latest::k': JSON.stringify({ name: 'a', entry: '', kept: readAt + 168 * hour }),
          'part:g@1000': JSON.stringify({ field: 'digest::k', kept: readAt + 9_600 * hour }),
        },
      }),
    ];
    const done: Done[] = [{ kind: 'remove', life: 'g', jobId: 'g', ...act(1) }];
    const { faults, excused } = judged({ ...fine, leftovers, done });
    expect(faults).toEqual([]);
    expect(Object.values(excused)).toEqual([1, 1, 1]);
  });
});

// Rule 8, of the lines as they were seen.

const one = { lives: livesOf({ name: 'a' }), ends: [endOf('a', 'delivered')], entries: [seen('a', 1)] };
/** Looks of one line, a quarter of a second apart from 10,000 on. */
const looksOf = (count: number, more: (now: number) => Partial<LineLook>): LineLook[] =>
  Array.from({ length: count }, (_, index) => {
    const now = 10_000 + 250 * index;
    return { recipientId: 'r', kind: 'alert', now, sent: [], ...more(now) };
  });
const first = (at: number) => ({ first: { entry: 'a#r1/0', at } });
const late = (count: number) => looksOf(count, () => first(60_000));
const found = (looks: readonly LineLook[]) => faultsOf({ ...one, looks });

it('a line whose first one could come sooner for longer than a move takes is a fault', () => {
  expect(found(late(20))).toEqual([
    '8: r, alert: for 4750 ms the first of the line, a, had a slot 48600 ms later than the limits need',
  ]);
  expect(found(late(20).map((look) => ({ ...look, kind: 'background' })))[0]).toContain('r, background: for 4750 ms');
});

it.each<[string, (now: number) => Partial<LineLook>]>([
  ['the gap', (now) => ({ ...first(now + 1_400), sent: [now] })],
  ['a window', (now) => ({ ...first(now + 5_300), sent: Array.from({ length: 20 }, (_, index) => now + index) })],
  [
    'limits of its own',
    (now) => ({
      ...first(now + 5_300),
      sent: [now],
      limits: [
        [1, 0],
        [1, 5_300],
      ],
    }),
  ],
  ['a block', () => ({ ...first(60_000), blockedUntil: 59_700 })],
  ['quiet hours', () => ({ ...first(60_000), isQuiet: true })],
  ['that it is due', (now) => first(now - 30_000)],
  ['that nobody waits', () => ({})],
])('what has a reason is none: %s', (_, more) => {
  expect(found(looksOf(20, more))).toEqual([]);
});

it.each<[string, (now: number) => Partial<LineLook>]>([
  ['the gap', (now) => ({ ...first(now + 1_700), sent: [now - 10_000] })],
  [
    'a window with room',
    (now) => ({ ...first(now + 5_000), sent: Array.from({ length: 19 }, (_, n) => now + n - 19) }),
  ],
  ['a block that has ended', (now) => ({ ...first(60_000), blockedUntil: now })],
])('but only if that reason holds: %s', (_, more) => {
  expect(found(looksOf(20, more))).toHaveLength(1);
});

it('a line that is moved in time is none, nor are several short times', () => {
  expect(found(late(8))).toEqual([]);
  const [some, others] = [late(8), late(20).slice(10, 18)];
  expect(found([...some, ...looksOf(10, () => ({})).slice(8), ...others])).toEqual([]);
});

it('after a kill or a freeze it is excused, and counted, until another worker has taken the job', () => {
  const incident = (until: number) => [{ kind: 'kill' as const, at: until - 100, until, ids: new Set<string>() }];
  const near = judged({ ...one, looks: late(20), incidents: incident(9_000) });
  expect([near.faults, near.excused]).toEqual([[], { 'a line that was late, after a fault': 1 }]);
  for (const until of [-1_000, 20_000]) {
    expect(judged({ ...one, looks: late(20), incidents: incident(until) }).faults).toHaveLength(1);
  }
});
