import { expect, it } from 'vitest';
import { mastersClocks } from '../../scripts/doctor/redis.ts';

const master = (where: string, offsetMs: number, errorMs = 0.5) => ({ where, offsetMs, errorMs });

it.each([
  ['one master', [master('a:1', 900)], []],
  ['masters that agree', [master('a:1', 900), master('b:1', 905), master('c:1', 897)], ['ok']],
  ['masters that differ', [master('a:1', 3), master('b:1', -10), master('c:1', 30.2)], ['warning']],
  [
    'masters that may agree, as far as their distance lets it be known',
    [master('a:1', 0, 9), master('b:1', 20, 9)],
    ['ok'],
  ],
])('the clocks of %s', (_, clocks, results) => {
  expect(mastersClocks(clocks).map(({ result }) => result)).toEqual(results);
});

it('the two that differ most are named, and what that means', () => {
  const [finding] = mastersClocks([master('a:1', 3), master('b:1', -10), master('c:1', 30.2)]);
  expect(finding).toMatchObject({
    check: 'clocks',
    text: "the masters' clocks differ by 40ms (c:1 is ahead of b:1): alerts may leave as much too early",
    advice: 'set the clocks of these machines, with NTP (docs/limiter.md)',
  });
});
