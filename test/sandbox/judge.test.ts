import { describe, expect, it } from 'vitest';
import { idealMakespan, judge, type Arrival } from '../../src/sandbox/judge.ts';

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
    expect(judge(arrivals([0, 300, 600, 951]), policy).windowViolations).toBe(0);
    expect(judge(arrivals([0, 300, 600, 949]), policy)).toMatchObject({ windowViolations: 1, maxInWindow: 4 });
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
  });
});

it('knows the ideal makespan', () => {
  expect(idealMakespan(1, policy)).toBe(0);
  expect(idealMakespan(4, policy)).toBe(1_000);
  expect(idealMakespan(200, { rules: [], minGapMs: 100 })).toBe(19_900);
});
