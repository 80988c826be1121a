import fc from 'fast-check';
import { expect, it } from 'vitest';
import { formatDuration, parseDuration } from '../../src/domain/time.ts';

it.each([
  ['250ms', 250],
  ['3s', 3_000],
  ['1m', 60_000],
  ['2h', 7_200_000],
  ['1d', 86_400_000],
  ['0', 0],
])('reads %s', (text, ms) => expect(parseDuration(text)).toBe(ms));

it.each(['', '3', '3 s', '-1s', '1.5s', '3S', 's', '1w', '9999999999s'])('refuses %j', (text) =>
  expect(parseDuration(text)).toBeUndefined(),
);

it('writes what it reads', () => {
  fc.assert(fc.property(fc.nat(999_999_999), (ms) => parseDuration(formatDuration(ms)) === ms));
});
