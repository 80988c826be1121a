import { describe, expect, it } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { createDeadline, LimiterUnavailableError } from '../../src/redis/deadline.ts';

describe('a deadline', () => {
  it.each([0, -1, NaN, Infinity, 2 ** 31])('of %d ms is refused', (timeoutMs) => {
    expect(() => createDeadline(timeoutMs)).toThrow(InputError);
    expect(() => createDeadline(timeoutMs)).toThrow(
      `timeoutMs: expected milliseconds, from 1 to 2147483647, found ${timeoutMs}`,
    );
  });

  it.each([1, 0.5 + 1, 2 ** 31 - 1])('of %d ms passes an answer on', async (timeoutMs) => {
    expect(await createDeadline(timeoutMs)(Promise.resolve('yes'))).toBe('yes');
  });

  it('gives up what is not answered, each in its own time, and what fails with its reason', async () => {
    const answered = createDeadline(30);
    const never = new Promise<never>(() => undefined);
    const startedAt = performance.now();
    await expect(answered(never)).rejects.toThrow(LimiterUnavailableError);
    await expect(answered(never)).rejects.toThrow('did not answer within 30 ms');
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(60);
    const cause = new Error('READONLY');
    await expect(answered(Promise.reject(cause))).rejects.toMatchObject({ name: 'LimiterUnavailableError', cause });
  });
});
