import { describe, expect, it } from 'vitest';
import { createSuspicion } from '../../src/breaker/circuit.ts';
import type { Trouble } from '../../src/notification/outcome.ts';

type Answer = readonly [suspect: Trouble | undefined, recipientId: string, at: number];

/** What the answers made certain, each with the number of the answer that did. */
function weigh(answers: readonly Answer[]): [number, Trouble][] {
  const suspicion = createSuspicion();
  return answers.flatMap(([suspect, recipientId, at], index): [number, Trouble][] => {
    const found = suspicion.add({ suspect, recipientId }, at);
    return found === undefined ? [] : [[index + 1, found.trouble]];
  });
}

const times = (count: number, make: (index: number) => Answer): Answer[] =>
  Array.from({ length: count }, (_, index) => make(index));
const GOOD: Answer = [undefined, 'anybody', 0];

/** The odd devices fail once a second each, and something good comes every so often: what comes of it in ten minutes. */
function oddAmongGood(suspect: Trouble, { odd, goodEveryMs }: { odd: number; goodEveryMs: number }) {
  const failures = times(600 * odd, (index): Answer => [
    suspect,
    `odd-${index % odd}`,
    Math.floor(index / odd) * 1_000,
  ]);
  const good = times(600_000 / goodEveryMs, (index): Answer => [undefined, `person-${index}`, index * goodEveryMs]);
  return weigh([...good, ...failures].toSorted(([, , a], [, , b]) => a - b));
}

describe('an outage', () => {
  it('is believed with the fifth recipient where nothing was accepted, and not of one recipient however often', () => {
    expect(weigh(times(5, (index) => ['outage', `person-${index}`, index]))).toEqual([[5, 'outage']]);
    expect(weigh(times(500, (index) => ['outage', 'person', index]))).toEqual([]);
    expect(weigh(times(500, (index) => ['outage', `person-${index % 4}`, index]))).toEqual([]);
  });

  it('is no outage where a few odd devices fail again and again, and one alert in 20 s is accepted', () => {
    for (const goodEveryMs of [1_000, 5_000, 20_000]) {
      expect(oddAmongGood('outage', { odd: 10, goodEveryMs })).toEqual([]);
      expect(oddAmongGood('outage', { odd: 19, goodEveryMs })).toEqual([]);
    }
  });

  it('is believed half a minute after the last good answer where there is little traffic', () => {
    const failures = times(60, (index): Answer => ['outage', `person-${index}`, index * 1_000]);
    expect(weigh([GOOD, ...failures])).toEqual([
      [32, 'outage'],
      [37, 'outage'],
      [42, 'outage'],
      [47, 'outage'],
      [52, 'outage'],
      [57, 'outage'],
    ]);
  });

  it('needs 80 % of the last hundred answers of a busy provider', () => {
    const failing = (share: number) =>
      times(1_000, (index) => [index % 100 < share ? 'outage' : undefined, `person-${index}`, index]);
    const afterGood = (share: number) => weigh([...times(20, () => GOOD), ...failing(share)]);
    expect(afterGood(79)).toEqual([]);
    expect(afterGood(80)[0]).toEqual([100, 'outage']);
    // A busy provider that breaks down after any number of good answers.
    const breakdown = [...times(5_000, () => GOOD), ...times(100, (index): Answer => ['outage', `person-${index}`, 0])];
    expect(weigh(breakdown)[0]).toEqual([5_080, 'outage']);
  });

  it('is not made of what is older than half a minute', () => {
    expect(weigh(times(50, (index) => ['outage', `person-${index}`, index * 7_500]))).toEqual([]);
    expect(weigh(times(5, (index) => ['outage', `person-${index}`, index * 7_400]))).toEqual([[5, 'outage']]);
  });

  it('counts bad tokens and device quotas as answers of a busy provider', () => {
    const every = (other: Trouble) =>
      times(80, (index) => [index % 2 ? 'outage' : other, `person-${index % 40}`, 100_000 + index]);
    expect(weigh([[undefined, 'anybody', 99_999], ...every('configuration')])).toEqual([]);
  });

  it('knows whose notifications failed', () => {
    const suspicion = createSuspicion();
    const found = [0, 1, 2, 3, 4].map((n) => suspicion.add({ suspect: 'outage', recipientId: `person-${n}` }, n));
    expect(found.at(-1)?.recipientIds).toEqual(['person-0', 'person-1', 'person-2', 'person-3', 'person-4']);
  });
});

describe('a quota of all', () => {
  it('is believed with the twentieth recipient within ten seconds, good answers or not', () => {
    const spaced = (ms: number) => weigh(times(60, (index) => ['quota', `person-${index}`, index * ms]));
    expect(spaced(500)[0]).toEqual([20, 'quota']);
    expect(spaced(600)).toEqual([]);
    expect(weigh(times(40, (index) => (index % 2 ? ['quota', `person-${index}`, index] : GOOD)))).toEqual([
      [40, 'quota'],
    ]);
    expect(weigh(times(500, (index) => ['quota', `person-${index % 19}`, index]))).toEqual([]);
  });

  it('is not made of the few devices that a busy worker meets among many good answers', () => {
    expect(weigh(times(2_000, (index) => (index % 10 ? GOOD : ['quota', `person-${index}`, index])))).toEqual([]);
  });
});

describe('a wrong configuration', () => {
  it('is believed with the twentieth recipient in a row, however long it takes', () => {
    const run = (count: number) =>
      times(count, (index): Answer => ['configuration', `person-${index}`, index * 60_000]);
    expect(weigh(run(20))).toEqual([[20, 'configuration']]);
    expect(weigh(times(500, (index) => ['configuration', `person-${index % 19}`, index]))).toEqual([]);
  });

  it('is none where something was accepted in the last half minute', () => {
    const bad = times(99, (index): Answer => ['configuration', `person-${index}`, 100_000 + index]);
    expect(weigh([[undefined, 'anybody', 80_000], ...bad])).toEqual([]);
    expect(weigh([[undefined, 'anybody', 69_000], ...bad])[0]).toEqual([21, 'configuration']);
    const inBetween: Answer[] = [...bad.slice(0, 19), [undefined, 'anybody', 100_050], ...bad.slice(60)];
    expect(weigh([[undefined, 'anybody', 69_000], ...inBetween])).toEqual([]);
    expect(oddAmongGood('configuration', { odd: 25, goodEveryMs: 5_000 })).toEqual([]);
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

it('forgets what it believed, and what the caller wants to be forgotten', () => {
  const suspicion = createSuspicion();
  const fail = (index: number) => suspicion.add({ suspect: 'outage', recipientId: `person-${index}` }, index)?.trouble;
  expect([0, 1, 2, 3, 4].map(fail)).toEqual([undefined, undefined, undefined, undefined, 'outage']);
  expect([5, 6, 7, 8].map(fail)).toEqual([undefined, undefined, undefined, undefined]);
  suspicion.clear();
  expect([9, 10, 11, 12, 13].map(fail).at(-1)).toBe('outage');
});
