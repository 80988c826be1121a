import { describe, expect, it, test } from 'vitest';
import { main } from '../../chaos/chaos.ts';
import type { Done, PairsFacts } from '../../chaos/pairs/facts.ts';
import { emptiness } from '../../chaos/pairs/judge.ts';
import { runMain } from '../support/command.ts';
import { TOKEN } from './facts.ts';
import { act, cancelId, digest, endOf, faultsOf, judged, latest, livesOf, merged, seen } from './pairs-facts.ts';

/** The judge of a run with --pairs: rules 1 to 3, of each notification by itself. */

describe('a run in which all was well', () => {
  const lives = livesOf(
    { name: 'a' },
    ...['l', 'p', 'q', 'x'].map((name) => ({ name, ...digest })),
    ...['old', 'new'].map((name) => ({ name, ...latest })),
    { name: 'd' },
    { name: 'a@2' },
  );
  const facts = {
    lives,
    done: [
      cancelId('x', 20_000),
      { kind: 'forget', life: 'a', ...act(7_900) } as const,
      { kind: 'replay', life: 'd', letterId: 'd', generation: 0, ...act(60_000) } as const,
    ],
    ends: [
      endOf('a', 'delivered', { at: 5_000 }),
      endOf('a@2', 'delivered'),
      endOf('l', 'delivered'),
      ...[
        merged('p', 'l'),
        merged('q', 'l'),
        merged('x', 'l', { from: 'stream' }),
        endOf('x', 'canceled', { at: 51_000 }),
      ],
      ...[endOf('old', 'superseded', { by: 'new' }), endOf('new', 'delivered')],
      ...[endOf('d', 'dead-lettered', { from: 'stream' }), endOf('d', 'delivered', { generation: 1, at: 61_000 })],
    ],
    entries: [
      seen('a', 4_000),
      seen('a@2', 9_000),
      seen('l', 40_000, { body: '3 new' }),
      ...[seen('new', 42_000), seen('d', 60_500)],
    ],
  };

  it('is clean', () => {
    const result = judged(facts);
    expect(result.faults).toEqual([]);
    expect(result.excused).toEqual({});
    expect(result.ends).toEqual({ delivered: 5, merged: 2, canceled: 1, superseded: 1 });
    expect(emptiness(result)).toEqual([]);
  });

  it('is not clean where it proves nothing, or a worker ended by itself', () => {
    const empty = judged({
      lives: livesOf({ name: 'a' }),
      ends: [endOf('a', 'delivered')],
      entries: [seen('a', 1)],
      crashes: [7],
    });
    expect(emptiness(empty)).toEqual([
      ...['no notification was merged', 'no notification was superseded', 'no notification was canceled'],
      '1 workers ended by themselves',
    ]);
  });

  it('tells the story of what a fault names', () => {
    const [fault] = judged({ ...facts, entries: facts.entries.slice(1) }).faults;
    expect(fault?.story[0]).toBe('a:');
    expect(fault?.story.join('\n')).toMatch(
      /enqueued as a: r delay[\s\S]*end of a \(job\): delivered[\s\S]*act forget/,
    );
  });
});

describe('rule 1, one end for each time that it was enqueued', () => {
  const lives = livesOf({ name: 'a' });
  const delivered = [endOf('a', 'delivered')];
  const entries = [seen('a', 10)];
  const dead = [{ life: 'a', letterId: 'a', reason: 'bad-token', generation: 0 }];
  const buried = endOf('a', 'dead-lettered', { from: 'stream', reason: 'bad-token' });
  it.each<[string, Partial<PairsFacts>]>([
    ['1: a: has no end', {}],
    ['1: a: is still in the queue, delayed', { queued: ['a delayed'] }],
    ['1: a: ended as delivered, and is a dead letter too (bad-token)', { ends: delivered, entries, dead }],
    ['1: a: was a dead letter (bad-token), which is gone', { ends: [buried] }],
    [
      '1: a: ended in two ways at generation 0: expired, delivered',
      {
        ends: [endOf('a', 'expired', { from: 'stream', at: 1 }), ...delivered],
        entries,
        lives: livesOf({ name: 'a', expiresAt: 9 }),
      },
    ],
    ['1: a: ended as expired, which it cannot', { ends: [endOf('a', 'expired')] }],
    ['1: a: was canceled, and no cancel says so', { ends: [endOf('a', 'canceled')], done: [cancelId('a', 1, 0)] }],
    [
      '1: a: ended as delivered at generation 0, and was replayed',
      { ends: [...delivered, endOf('a', 'delivered', { generation: 1 })], entries },
    ],
    [
      '1: a: ended as expired after its job was removed',
      {
        lives: livesOf({ name: 'a', expiresAt: 9 }),
        ends: [endOf('a', 'expired')],
        done: [{ kind: 'remove', life: 'a', jobId: 'a', ...act(10) }],
      },
    ],
    ['1: z: ended, and nobody enqueued it', { ends: [...delivered, endOf('z', 'delivered')], entries }],
    [
      '1: a@2: was added, although a had its id',
      {
        lives: livesOf({ name: 'a' }, { name: 'a@2' }),
        ends: [...delivered, endOf('a@2', 'delivered')],
        entries: [...entries, seen('a@2', 900)],
      },
    ],
  ])('%s', (fault, facts) => {
    expect(faultsOf({ lives, ...facts })).toEqual([fault]);
  });

  it('takes what an act ended for an end', () => {
    const remove: Done = { kind: 'remove', life: 'a', jobId: 'a', ...act(10) };
    const discard: Done = { kind: 'discard', life: 'a', letterId: 'a', generation: 0, ...act(60_000) };
    expect(judged({ lives, done: [remove] })).toMatchObject({ faults: [], ends: { removed: 1 } });
    expect(judged({ lives, ends: [buried], done: [discard] })).toMatchObject({ faults: [], ends: { discarded: 1 } });
    expect(judged({ lives, ends: [buried], dead })).toMatchObject({ faults: [], ends: { 'dead-lettered': 1 } });
  });

  it('takes two outcomes of what a worker had at its kill', () => {
    const ends = [endOf('a', 'delivered', { from: 'stream', at: 1 }), endOf('a', 'canceled', { at: 2 })];
    const incidents = [{ kind: 'kill' as const, at: 1, until: 1, ids: new Set(['a']) }];
    const { faults, excused } = judged({ lives, ends, incidents, done: [cancelId('a', 1)] });
    expect(faults).toEqual([]);
    expect(excused).toEqual({ 'two outcomes, in hand at a fault': 1 });
  });
});

describe('rule 2, delivered and seen are the same', () => {
  const lives = livesOf({ name: 'a', expiresAt: 9 });
  const two = livesOf({
    name: 'a',
    devices: [
      { platform: 'apns', token: TOKEN },
      { platform: 'fcm', token: 't' },
    ],
  });
  it.each<[string, Partial<PairsFacts>]>([
    ['2: a: was delivered, and no phone saw it', { ends: [endOf('a', 'delivered')] }],
    [
      '2: a: was delivered to fcm#1, which did not see it',
      {
        lives: two,
        ends: [endOf('a', 'delivered', { devices: { 'apns#0': 'delivered', 'fcm#1': 'delivered' } })],
        entries: [seen('a', 1)],
      },
    ],
    ['2: a: was seen by a phone, and ended as expired', { ends: [endOf('a', 'expired')], entries: [seen('a', 1)] }],
    [
      '2: a: was seen twice by apns, 300 ms apart',
      { ends: [endOf('a', 'delivered')], entries: [seen('a', 1), seen('a', 301)] },
    ],
  ])('%s', (fault, facts) => {
    expect(faultsOf({ lives, ...facts })).toEqual([fault]);
  });

  it('excuses what the answer did not say, what was in hand at a kill, and nothing else', () => {
    const ends = [endOf('a', 'expired')];
    const denied = [seen('a', 1, { status: 500 })];
    expect(judged({ lives, ends, entries: denied }).excused).toEqual({ 'seen, but the answer did not say so': 1 });
    const killAt = (at: number) => [{ kind: 'kill' as const, at, until: at, ids: new Set(['a']) }];
    expect(faultsOf({ lives, ends, entries: [seen('a', 900)], incidents: killAt(1_000) })).toEqual([]);
    expect(faultsOf({ lives, ends, entries: [seen('a', 2_000)], incidents: killAt(1_000) })).toHaveLength(1);
    expect(faultsOf({ lives, ends, entries: [seen('a', 900)], incidents: killAt(30_000) })).toHaveLength(1);
    const other = [{ kind: 'kill' as const, at: 1_000, until: 1_000, ids: new Set(['b']) }];
    expect(faultsOf({ lives, ends, entries: [seen('a', 900)], incidents: other })).toHaveLength(1);
  });
});

describe('rule 3, what is canceled is not seen', () => {
  it.each<[string, Partial<PairsFacts>]>([
    [
      '3: a: was seen after its cancel was answered with canceled, and ended as delivered at generation 1',
      {
        ends: [endOf('a', 'dead-lettered', { from: 'stream' }), endOf('a', 'delivered', { generation: 1 })],
        done: [cancelId('a', 5_000)],
        entries: [seen('a', 6_000)],
      },
    ],
    [
      '3: a: had been seen when its cancel was answered with canceled, and ended as delivered at generation 0',
      { ends: [endOf('a', 'delivered')], done: [cancelId('a', 5_000)], entries: [seen('a', 4_000)] },
    ],
    [
      '3: a: was seen after a cancel by its key c that was too late for none',
      {
        lives: livesOf({ name: 'a', cancellationKey: 'c' }),
        ends: [endOf('a', 'delivered')],
        done: [{ kind: 'cancel-key', recipientId: 'r', key: 'c', canceled: 1, tooLate: 0, ...act(5_000) }],
        entries: [seen('a', 6_000)],
      },
    ],
  ])('%s', (fault, facts) => {
    expect(faultsOf({ lives: livesOf({ name: 'a' }), ...facts })).toContain(fault);
  });

  it('takes no word of a cancel that was too late for one of its key', () => {
    const lives = livesOf({ name: 'a', cancellationKey: 'c' });
    const done: Done[] = [{ kind: 'cancel-key', recipientId: 'r', key: 'c', canceled: 1, tooLate: 1, ...act(5_000) }];
    expect(faultsOf({ lives, ends: [endOf('a', 'delivered')], done, entries: [seen('a', 6_000)] })).toEqual([]);
  });

  it('lets a cancel that failed have canceled, and no other notification', () => {
    const lives = livesOf({ name: 'a', cancellationKey: 'c' });
    const failed = (on: Extract<Done, { kind: 'failed' }>['on']): Done[] => [
      { kind: 'failed', act: 'cancel-id', error: 'RedisAwayError', ...(on && { on }), ...act(5_000) },
    ];
    const judge = (done: Done[]) => faultsOf({ lives, ends: [endOf('a', 'canceled')], done });
    expect(judge(failed({ id: 'a' }))).toEqual([]);
    expect(judge(failed({ recipientId: 'r', key: 'c' }))).toEqual([]);
    for (const other of [undefined, { id: 'b' }, { recipientId: 'r', key: 'd' }]) {
      expect(judge(failed(other))).toEqual(['1: a: was canceled, and no cancel says so']);
    }
  });
});

test('chaos --pairs prints its plan, with every act, without a run', async () => {
  const { code, stdout } = await runMain(main, ['--pairs', '--plan', '--json', '--seed', '3']);
  const { notifications, acts } = JSON.parse(stdout) as { notifications: number; acts: readonly { kind: string }[] };
  expect([code, notifications]).toEqual([0, 360]);
  const needed = ['cancel-id', 'cancel-key', 'block', 'replay-all', 'replay-one', 'discard-one', 'remove', 'again'];
  expect(acts.map(({ kind }) => kind)).toEqual(expect.arrayContaining(needed));
  expect(await runMain(main, ['--pairs', '--cluster'])).toMatchObject({ code: 2 });
});
