import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { countedAs, parseRules, policyFaults, ruleName } from '../../src/domain/limits.ts';
import { formatDuration, parseDuration, waitsFrom } from '../../src/domain/time.ts';

function faultsOf(text: string): string[] {
  const parsed = parseRules(text, 'LIMIT_RULES');
  return parsed.ok ? [] : parsed.faults.map(formatFault);
}

it('reads several rules', () => {
  expect(parseRules('1/1s, 20/1m,200/1h', 'LIMIT_RULES')).toEqual({
    ok: true,
    rules: [
      { max: 1, perMs: 1_000 },
      { max: 20, perMs: 60_000 },
      { max: 200, perMs: 3_600_000 },
    ],
  });
});

it('names each rule that it cannot read', () => {
  expect(faultsOf('10/1m,x,5/,0/1m')).toEqual([
    'LIMIT_RULES[1]: expected max/per, such as 10/1m, found "x"',
    'LIMIT_RULES[2]: expected max/per, such as 10/1m, found "5/"',
    'LIMIT_RULES[3].max: expected an integer from 1 to 100000, found 0',
  ]);
});

it('reads no rule of a text that has more than 16, and says so in one fault', () => {
  expect(faultsOf(Array(17).fill('1/1m').join())).toEqual(['LIMIT_RULES: expected at most 16 rules, found 17']);
  expect(faultsOf(','.repeat(1_000_000))).toEqual([
    'LIMIT_RULES: expected at most 16 rules, found a string of 1000000 characters',
  ]);
  expect(faultsOf('x'.repeat(900))).toEqual([
    'LIMIT_RULES[0]: expected max/per, such as 10/1m, found a string of 900 characters',
  ]);
  const rules = Array<never>(1_000_000).fill({} as never);
  expect(policyFaults({ rules, minGapMs: 0 }, 'policy').map(formatFault)).toEqual([
    'policy.rules: expected at most 16 rules, found 1000000',
  ]);
});

it.each([
  ['1/0', 'LIMIT_RULES[0].per: expected a duration such as 250ms, 3s, 1m, 2h or 1d, from 1ms to 31d, found 0 ms'],
  [
    '1/32d',
    'LIMIT_RULES[0].per: expected a duration such as 250ms, 3s, 1m, 2h or 1d, from 1ms to 31d, found 2764800000 ms',
  ],
])('refuses %s', (text, fault) => expect(faultsOf(text)).toEqual([fault]));

it('takes larger rules where the bounds are wider', () => {
  const largest = { max: 1_000_000_000, perMs: 3_600_000 };
  expect(parseRules('1000000000/1h', 'FCM_QUOTA', largest)).toEqual({ ok: true, rules: [largest] });
  const refused = parseRules('1000000001/2h', 'FCM_QUOTA', largest);
  expect(refused.ok ? [] : refused.faults.map(formatFault)).toEqual([
    'FCM_QUOTA[0].max: expected an integer from 1 to 1000000000, found 1000000001',
    'FCM_QUOTA[0].per: expected a duration such as 250ms, 3s, 1m, 2h or 1d, from 1ms to 1h, found 7200000 ms',
  ]);
});

it('refuses a gap that is no whole number of milliseconds', () => {
  expect(policyFaults({ rules: [], minGapMs: 0.5 }, 'policy')).toHaveLength(1);
});

it('calls a rule by how it is written', () => expect(ruleName({ max: 10, perMs: 60_000 })).toBe('10/1m'));

describe('a duration', () => {
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
});

it.each([
  [{}, 'alert'],
  [{ pushType: 'alert', alert: {} }, 'alert'],
  [{ pushType: 'background' }, 'background'],
  [{ pushType: 'liveactivity' }, 'liveactivity'],
  [{ pushType: 'liveactivity', alert: {} }, 'alert'],
  [{ pushType: ['liveactivity'] }, 'alert'],
])('%j is counted as %s', (fields, expected) => expect(countedAs(fields)).toBe(expected));

it.each([
  ['without a sendAfter', {}, 1_000],
  ['with an earlier one', { sendAfter: 999 }, 1_000],
  ['with a later one', { sendAfter: 5_000 }, 5_000],
  ['with a later one as a text', { sendAfter: '1970-01-01T00:00:05Z' }, 5_000],
  ['with one that is none', { sendAfter: 'soon' }, 1_000],
  ['that is not even an object', null, 1_000],
])('a notification %s waits from then on', (_, data, from) => {
  expect(waitsFrom(1_000, data)).toBe(from);
});
