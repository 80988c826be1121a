import { describe, expect, it } from 'vitest';
import { createSuspicion } from '../../src/breaker/suspicion.ts';
import type { Trouble } from '../../src/domain/outcome.ts';

type Answer = readonly [suspect: Trouble | undefined, recipientId: string, at: number];

/** What the answers made certain, each with the number of the answer that did. */
function weigh(answers: readonly Answer[]): [number, Trouble][] {
  const suspicion = createSuspicion();
  return answers.flatMap(([suspect, recipientId, at], index): [number, Trouble][] => {
    const trouble = suspicion.add({ suspect, recipientId }, at);
    return trouble === undefined ? [] : [[index + 1, trouble]];
  });
}

const times = (count: number, make: (index: number) => Answer): Answer[] =>
  Array.from({ length: count }, (_, index) => make(index));
const GOOD: Answer = [undefined, 'anybody', 0];

describe('an outage', () => {
  it('is believed with the fifth recipient, and not of one recipient however often', () => {
    expect(weigh(times(5, (index) => ['outage', `person-${index}`, index]))).toEqual([[5, 'outage']]);
    expect(weigh(times(500, (index) => ['outage', 'person', index]))).toEqual([]);
    expect(weigh(times(500, (index) => ['outage', `person-${index % 4}`, index]))).toEqual([]);
  });

  it('needs 80 % of the last hundred answers', () => {
    const failing = (share: number) =>
      times(1_000, (index) => [index % 100 < share ? 'outage' : undefined, `person-${index}`, index]);
    const afterGood = (share: number) => weigh([...times(20, () => GOOD), ...failing(share)]);
    expect(afterGood(79)).toEqual([]);
    expect(afterGood(80)[0]).toEqual([100, 'outage']);
    // A busy provider that breaks down after any number of good answers.
    const breakdown = [...times(5_000, () => GOOD), ...times(100, (index): Answer => ['outage', `person-${index}`, 0])];
    expect(weigh(breakdown)[0]).toEqual([5_080, 'outage']);
  });

  it('is not made of what is older than ten seconds', () => {
    expect(weigh(times(50, (index) => ['outage', `person-${index}`, index * 2_500]))).toEqual([]);
    expect(weigh(times(5, (index) => ['outage', `person-${index}`, index * 2_400]))).toEqual([[5, 'outage']]);
  });

  it('counts bad tokens and device quotas as answers', () => {
    const every = (other: Trouble) =>
      times(40, (index) => [index % 2 ? 'outage' : other, `person-${index % 9}`, index]);
    expect(weigh(every('configuration'))).toEqual([]);
    expect(weigh(every('quota'))).toEqual([]);
  });
});

describe('a quota of all', () => {
  it('is believed with the tenth recipient within ten seconds, good answers or not', () => {
    const spaced = (ms: number) => weigh(times(30, (index) => ['quota', `person-${index}`, index * ms]));
    expect(spaced(1_000)[0]).toEqual([10, 'quota']);
    expect(spaced(1_200)).toEqual([]);
    expect(weigh(times(20, (index) => (index % 2 ? ['quota', `person-${index}`, index] : GOOD)))).toEqual([
      [20, 'quota'],
    ]);
    expect(weigh(times(500, (index) => ['quota', `person-${index % 9}`, index]))).toEqual([]);
  });

  it('is not made of the few devices that a busy worker meets among many good answers', () => {
    expect(weigh(times(2_000, (index) => (index % 20 ? GOOD : ['quota', `person-${index}`, index])))).toEqual([]);
  });
});

describe('a wrong configuration', () => {
  it('is believed with the twentieth recipient in a row, however long it takes', () => {
    const run = (count: number) =>
      times(count, (index): Answer => ['configuration', `person-${index}`, index * 60_000]);
    expect(weigh(run(20))).toEqual([[20, 'configuration']]);
    expect(weigh([...run(19), GOOD, ...run(19)])).toEqual([]);
    expect(weigh(times(500, (index) => ['configuration', `person-${index % 19}`, index]))).toEqual([]);
  });

  it('is not disproved by what is no good answer', () => {
    const failures = times(39, (index): Answer => [
      index % 2 ? 'quota' : 'configuration',
      `person-${index}`,
      index * 60_000,
    ]);
    expect(weigh(failures)).toEqual([[39, 'configuration']]);
  });
});

it('forgets what it believed, and what it is told to forget', () => {
  const suspicion = createSuspicion();
  const fail = (index: number) => suspicion.add({ suspect: 'outage', recipientId: `person-${index}` }, index);
  expect([0, 1, 2, 3, 4].map(fail)).toEqual([undefined, undefined, undefined, undefined, 'outage']);
  expect([5, 6, 7, 8].map(fail)).toEqual([undefined, undefined, undefined, undefined]);
  suspicion.clear();
  expect([9, 10, 11, 12, 13].map(fail).at(-1)).toBe('outage');
});
