import { describe, expect, it } from 'vitest';
import { createWindow, MIN_HITS, WINDOW_ANSWERS, WINDOW_MS } from '../../src/pause/evidence.ts';

/** Adds answers 1 ms apart: `x` is a hit of a notification of its own, `s` one of always the same, `.` none. */
function add(window: ReturnType<typeof createWindow>, answers: string, from = 0): boolean[] {
  return Array.from(answers, (answer, index) =>
    window.add({
      at: from + index,
      notificationId: answer === 's' ? 'same' : `n-${from + index}`,
      isHit: answer !== '.',
    }),
  );
}

const isBelieved = (answers: string): boolean => add(createWindow(), answers).includes(true);

describe('an outage', () => {
  it('is believed with the fifth failure, not before', () => {
    expect(add(createWindow(), 'xxxxx')).toEqual([false, false, false, false, true]);
  });

  it('is not believed of one notification that always fails, nor of two', () => {
    expect(isBelieved('s'.repeat(500))).toBe(false);
    expect(isBelieved('ssssssx')).toBe(false);
    expect(isBelieved('sssssxx')).toBe(true);
  });

  it('is not believed where half of the answers are failures, however many', () => {
    expect(isBelieved('x.'.repeat(500))).toBe(false);
    expect(isBelieved('.xxx'.repeat(500))).toBe(false);
  });

  it('is believed where four of five are', () => {
    expect(isBelieved('.xxxx'.repeat(3))).toBe(true);
  });

  it('is not believed of failures that lie further apart than the window', () => {
    const window = createWindow();
    const apart = Array.from({ length: 3 * MIN_HITS }, (_, index) =>
      window.add({ at: (index * WINDOW_MS) / (MIN_HITS - 1), notificationId: `n-${index}`, isHit: true }),
    );
    expect(apart).not.toContain(true);
  });

  it('shows within a hundred answers of a busy provider that was well', () => {
    const window = createWindow();
    add(window, '.'.repeat(5_000));
    const failures = add(window, 'x'.repeat(WINDOW_ANSWERS), 5_000);
    expect(failures.indexOf(true)).toBe(0.8 * WINDOW_ANSWERS - 1);
  });

  it('is found anew after the window was cleared', () => {
    const window = createWindow();
    add(window, 'xxxx');
    window.clear();
    expect(add(window, 'xxxxx', 4)).toEqual([false, false, false, false, true]);
  });
});
