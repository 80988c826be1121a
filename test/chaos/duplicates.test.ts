import { describe, expect, it } from 'vitest';
import { countDuplicates, type DuplicatesParts } from '../../../chaos/judge.ts';
import { completedOf, enqueuedOf, entryOf, OTHER_TOKEN, TOKEN } from './facts.ts';

const twice = [entryOf('a', 1_000), entryOf('a', 9_000)];
const parts: DuplicatesParts = {
  enqueued: enqueuedOf({ id: 'a' }, { id: 'b' }),
  entries: twice,
  ends: { completed: [], dead: [] },
  incidents: [],
  thaws: [],
  cuts: [],
};
const count = (more: Partial<DuplicatesParts>) => countDuplicates({ ...parts, ...more });
const incident = (ids: readonly string[], at = 1_200) => ({ kind: 'kill' as const, at, until: at, ids: new Set(ids) });

describe('a second acceptance', () => {
  it('is one for each device', () => {
    const devices = [
      { platform: 'apns' as const, token: TOKEN },
      { platform: 'fcm' as const, token: OTHER_TOKEN },
    ];
    const other = { platform: 'fcm' as const, token: OTHER_TOKEN };
    const entries = [entryOf('a', 0), entryOf('a', 1, other)];
    expect(count({ enqueued: enqueuedOf({ id: 'a', devices }), entries })).toMatchObject({ duplicates: 0 });
    expect(count({ entries: [...entries, entryOf('a', 2, other)] })).toMatchObject({ duplicates: 1 });
  });

  it('has no reason where nothing happened', () => {
    expect(count({})).toMatchObject({ duplicates: 1, duplicateBound: 0, unexplainedDuplicates: 1 });
  });

  it('has none in an answer of 201, with which push services for browsers accept', () => {
    const told = (status: number) => [entryOf('a', 0, { status }), entryOf('a', 1, { status })];
    expect(count({ entries: told(201) })).toMatchObject({ duplicateBound: 0, unexplainedDuplicates: 1 });
    expect(count({ entries: told(500) })).toMatchObject({ duplicateBound: 2, unexplainedDuplicates: 0 });
  });

  it('is explained by its own notification in hand at a kill, and by no other one', () => {
    const explained = { duplicates: 1, duplicateBound: 1, unexplainedDuplicates: 0 };
    expect(count({ incidents: [incident(['a'])] })).toMatchObject({ ...explained, explainedBy: { kill: 1 } });
    expect(count({ incidents: [incident(['b'])] })).toMatchObject({ duplicateBound: 1, unexplainedDuplicates: 1 });
  });

  it('is not explained by a kill before the first or after the second', () => {
    expect(count({ incidents: [incident(['a'], 100)] })).toMatchObject({ unexplainedDuplicates: 1 });
    expect(count({ incidents: [incident(['a'], 9_001)] })).toMatchObject({ unexplainedDuplicates: 1 });
  });

  it('is explained where a frozen worker sent one of the two when it went on, with the job in another hand', () => {
    const thaw = (id: string, from: number) => ({ ids: new Set([id]), from, until: from + 250 });
    const explained = { unexplainedDuplicates: 0, explainedBy: { stop: 1 } };
    expect(count({ thaws: [thaw('a', 900)] })).toMatchObject(explained);
    expect(count({ thaws: [thaw('a', 8_900)] })).toMatchObject(explained);
    expect(count({ thaws: [thaw('b', 900)] })).toMatchObject({ unexplainedDuplicates: 1 });
    expect(count({ thaws: [thaw('a', 1_001)] })).toMatchObject({ unexplainedDuplicates: 1 });
    expect(count({ thaws: [thaw('a', 700)] })).toMatchObject({ unexplainedDuplicates: 1 });
  });

  it('may come out of an outage of Redis that the first one fell into', () => {
    const outage = { kind: 'redis' as const, at: 200, until: 1_500, ids: new Set(['a']) };
    expect(count({ incidents: [outage] })).toMatchObject({ unexplainedDuplicates: 0, explainedBy: { redis: 1 } });
  });

  it.each([
    ['an error', { status: 500, reason: 'InternalServerError' }],
    ['nothing', { status: undefined, reason: 'hang' }],
  ])('is explained where the first was answered with %s', (_what, said) => {
    const entries = [entryOf('a', 1_000, said), entryOf('a', 9_000)];
    expect(count({ entries })).toMatchObject({
      duplicateBound: 1,
      unexplainedDuplicates: 0,
      explainedBy: { answer: 1 },
    });
  });

  it('is explained where the answer was cut off, as the provider and the job both tell', () => {
    const cuts = [{ platform: 'apns' as const, at: 1_100 }];
    const attempts = [{ at: 1_150, device: 'apns#0', error: 'reset: socket hang up' }];
    const ends = { completed: [completedOf('a', 'delivered', { attempts })], dead: [] };
    expect(count({ cuts, ends })).toMatchObject({
      duplicateBound: 1,
      explainedBy: { cut: 1 },
      unexplainedDuplicates: 0,
    });
    expect(count({ cuts })).toMatchObject({ unexplainedDuplicates: 1 });
    expect(count({ ends })).toMatchObject({ unexplainedDuplicates: 1 });
    expect(count({ ends, cuts: [{ platform: 'fcm', at: 1_100 }] })).toMatchObject({ unexplainedDuplicates: 1 });
  });

  it('goes out under the ids of the first', () => {
    expect(count({}).changedIds).toBe(0);
    expect(count({ entries: [entryOf('a', 0), entryOf('a', 1, { apnsId: 'another' })] }).changedIds).toBe(1);
    expect(count({ entries: [entryOf('a', 0), entryOf('a', 1, { collapseId: 'another' })] }).changedIds).toBe(1);
    expect(count({ entries: [entryOf('a', 0, { tag: 'x' }), entryOf('a', 1, { tag: 'y' })] }).changedIds).toBe(1);
  });
});
