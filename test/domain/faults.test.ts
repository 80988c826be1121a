import fc from 'fast-check';
import { expect, test } from 'vitest';
import { meantOption, nearest, typingMistakes } from '../../src/domain/faults.ts';

test.each<[name: string, meant: string | undefined]>([
  ['recipientID', 'recipientId'],
  ['recepientId', 'recipientId'],
  ['devcies', 'devices'],
  ['alrt', 'alert'],
  ['sond', 'sound'],
  ...['', 'x', 'data', 'token', 'al', 'receiver'].map((name): [string, undefined] => [name, undefined]),
])('the name %j was meant to be %s', (name, meant) => {
  expect(nearest(name, ['id', 'recipientId', 'devices', 'alert', 'sound'])).toBe(meant);
});

test.each<[name: string, meant: string | undefined]>([
  ['url', 'redisUrl'],
  ['redisURL', 'redisUrl'],
  ['queuePrefix', 'prefix'],
  ['timeout', 'timeoutMs'],
  ['shard', 'shards'],
  ...['', 'x', 're', 'concurrency'].map((name): [string, undefined] => [name, undefined]),
])('the option %j was meant to be %s', (name, meant) => {
  expect(meantOption(name, ['limiterRedisUrl', 'redisUrl', 'prefix', 'timeoutMs', 'shards'])).toBe(meant);
});

test('the nearest one is chosen, and the first of equals', () => {
  expect(nearest('LIMIT_RULE', ['LIMIT_RULER_X', 'LIMIT_RULES'])).toBe('LIMIT_RULES');
  expect(nearest('cat', ['bat', 'hat'])).toBe('bat');
});

test('typing mistakes are a distance', () => {
  const word = fc.string({ maxLength: 12, unit: fc.constantFrom('a', 'b', 'c') });
  fc.assert(
    fc.property(word, word, (a, b) => {
      const mistakes = typingMistakes(a, b);
      expect(mistakes).toBe(typingMistakes(b, a));
      expect(mistakes === 0).toBe(a === b);
      expect(mistakes).toBeGreaterThanOrEqual(Math.abs(a.length - b.length));
      expect(mistakes).toBeLessThanOrEqual(Math.max(a.length, b.length));
    }),
    { numRuns: 500 },
  );
  expect(['ab', 'ba', 'abc', 'acb', 'xbc', 'bc'].map((name) => typingMistakes('abc', name))).toEqual([
    1, 2, 0, 1, 1, 1,
  ]);
});

test('no name is left out that is near enough', () => {
  const word = fc.string({ minLength: 1, maxLength: 9, unit: fc.constantFrom('a', 'b', 'c', 'D', '1', 'q') });
  fc.assert(
    fc.property(word, word, (name, known) => {
      const mistakes = typingMistakes(name.toLowerCase(), known.toLowerCase());
      const most = Math.min(name.length, known.length) > 5 ? 2 : 1;
      expect(nearest(name, [known])).toBe(mistakes <= most ? known : undefined);
    }),
    { numRuns: 2_000 },
  );
});

test('a long name is not compared letter by letter', () => {
  const known = Array.from({ length: 50 }, (_, at) => `channelId${at}`);
  expect(nearest('channelId'.repeat(1_000_000), known)).toBeUndefined(); // otherwise this takes minutes
});
