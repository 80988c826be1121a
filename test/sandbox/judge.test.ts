import { describe, expect, it } from 'vitest';
import { idealMakespan, judge, type Arrival } from '../../sandbox/judge.ts';

const policy = { rules: [{ max: 3, perMs: 1_000 }], minGapMs: 200 };

function arrivals(times: readonly number[], recipientId = 'teacher-1'): Arrival[] {
  return times.map((at, index) => ({ recipientId, notificationId: `${recipientId}-${index}`, device: 'd', at }));
}

describe('judge', () => {
  it('finds nothing wrong with an exact schedule', () => {
    expect(judge(arrivals([0, 200, 400, 1_000, 1_200]), policy)).toEqual({
      gapViolations: 0,
      windowViolations: 0,
      duplicates: 0,
      minGapMs: 200,
      maxInWindow: 3,
      makespanMs: 1_200,
      idealMakespanMs: 1_200,
      makespanRatio: 1,
    });
  });

  it('counts gaps that are short by more than the tolerance', () => {
    expect(judge(arrivals([0, 149, 350]), policy).gapViolations).toBe(1);
  });

  it('counts windows that hold too many by more than the tolerance', () => {
    expect(judge(arrivals([0, 300, 600, 950]), policy).windowViolations).toBe(0);
    expect(judge(arrivals([0, 300, 600, 949]), policy)).toMatchObject({ windowViolations: 1, maxInWindow: 4 });
  });

  it.each([
    ['the first alert may have left in time', [100, 0, 0], 0],
    ['the first may have left a little earlier, but not early enough', [99, 0, 0], 1],
    ['the second may have left before the first', [0, 150, 0], 0],
    ['a later one was late', [0, 0, 500], 1],
  ])('gives the benefit of the doubt where %s', (_, delays, gapViolations) => {
    const seen = arrivals([1_000, 1_050, 2_000]).map((one, index) => ({ ...one, delayMs: delays[index] }));
    expect(judge(seen, policy)).toMatchObject({ gapViolations, windowViolations: 0 });
  });

  it('counts a window that is too full by every instant at which the alerts may have left', () => {
    const seen = arrivals([0, 300, 600, 865]).map((one) => ({ ...one, delayMs: 84 }));
    expect(judge(seen, policy)).toMatchObject({ windowViolations: 1, maxInWindow: 4 });
    expect(
      judge(
        seen.map((one) => ({ ...one, delayMs: 85 })),
        policy,
      ),
    ).toMatchObject({
      windowViolations: 0,
      maxInWindow: 3,
    });
  });

  it('finds a burst whatever the doubt is, as long as that is less than the gap', () => {
    const seen = arrivals([0, 5, 10, 15, 20, 25]).map((one) => ({ ...one, delayMs: 100 }));
    expect(judge(seen, policy)).toMatchObject({ gapViolations: 5, windowViolations: 3, maxInWindow: 6 });
  });

  it('keeps recipients apart', () => {
    const two = [...arrivals([0, 200]), ...arrivals([100, 300], 'teacher-2')];
    expect(judge(two, policy)).toMatchObject({ gapViolations: 0, minGapMs: 200 });
  });

  it('takes the devices of one notification for one alert, and counts what came twice', () => {
    const first = { recipientId: 'r', notificationId: 'n', device: 'phone', at: 0 };
    expect(judge([first, { ...first, device: 'tablet', at: 5 }], policy)).toMatchObject({
      gapViolations: 0,
      duplicates: 0,
    });
    expect(judge([first, { ...first, at: 5 }], policy).duplicates).toBe(1);
    // A second device half a gap later is an alert of its own, unless its request may have left earlier.
    const late = { ...first, device: 'tablet', at: 130 };
    expect(judge([first, late], policy).gapViolations).toBe(1);
    expect(judge([first, { ...late, delayMs: 31 }], policy).gapViolations).toBe(0);
  });
});

it('knows the ideal makespan', () => {
  expect(idealMakespan(1, policy)).toBe(0);
  expect(idealMakespan(4, policy)).toBe(1_000);
  expect(idealMakespan(200, { rules: [], minGapMs: 100 })).toBe(19_900);
});
