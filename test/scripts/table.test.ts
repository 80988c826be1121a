import fc from 'fast-check';
import { expect, test } from 'vitest';
import { renderTable } from '../../scripts/dead-letters.ts';
import { cut, table, widthOf } from '../../src/terminal/text.ts';
import { factsOf } from '../../scripts/dead-letters/facts.ts';
import { deadLetter } from '../dead-letters/letters.ts';

const ROWS = [
  ['id', 'reason', 'message'],
  ['msg-1', 'rejected', 'the provider refused the payload because it is too large for this device'],
  ['msg-22', 'stalled', '字字字字'],
];

test('without a terminal nothing is cut', () => {
  expect(table(ROWS)).toEqual([
    'id      reason    message',
    'msg-1   rejected  the provider refused the payload because it is too large for this device',
    'msg-22  stalled   字字字字',
  ]);
});

test('the widest column is cut first, and wide characters count twice', () => {
  expect(table(ROWS, { columns: 24 })).toEqual([
    'id      reason   message',
    'msg-1   reject…  the pr…',
    'msg-22  stalled  字字字…',
  ]);
  expect(table(ROWS, { columns: 18 })).toEqual(['id    reas…  mess…', 'msg…  reje…  the …', 'msg…  stal…  字字…']);
});

test('of a table that is too wide, only essential columns stay', () => {
  expect(table(ROWS, { columns: 40, essential: [0, 2] })).toEqual([
    'id      message',
    'msg-1   the provider refused the payloa…',
    'msg-22  字字字字',
  ]);
  expect(table(ROWS, { columns: 200, essential: [0, 2] })).toEqual(table(ROWS));
});

test('a last column may be wrapped', () => {
  expect(
    table(
      [
        ['message', 'one two three four five'],
        ['url', 'https://example.com/a/long/path'],
      ],
      { columns: 27, wrap: true },
    ),
  ).toEqual(['message  one two three four', '         five', 'url      https://example.co', '         m/a/long/path']);
});

test('no line is wider than the terminal, whatever the cells', () => {
  const cell = fc.string({ maxLength: 40, unit: fc.constantFrom('a', ' ', '字', '👍', '👩‍👩‍👧', 'é', '…', '-') });
  const rows = fc.array(fc.tuple(cell, cell, cell, cell), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(rows, fc.integer({ min: 10, max: 120 }), fc.boolean(), (all, columns, wrap) => {
      for (const line of table(all, { columns, wrap })) expect(widthOf(line)).toBeLessThanOrEqual(columns);
    }),
    { numRuns: 300 },
  );
});

test('a wrapped cell loses no word', () => {
  const text = 'the provider refused the payload because it is too large for this device';
  for (let columns = 25; columns < 100; columns++) {
    const lines = table([['message', text]], { columns, wrap: true });
    expect(lines.map((line) => line.slice('message  '.length).trim()).join(' ')).toBe(text);
  }
});

test.each([40, 60, 80, 120, 200])('dead letters fit %i columns', (columns) => {
  const message = 'the provider refused the payload: '.repeat(8);
  const ids = ['short', `long-${'x'.repeat(120)}`];
  const all = ids.map((id) => factsOf({ id, letter: deadLetter(id, { message }), buriedAt: 0 }));
  const lines = renderTable(all, Date.now(), columns);
  for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
  expect(lines.join('\n')).toContain('the provider');
  const redirected = renderTable(all, Date.now()).join('\n');
  for (const whole of [...ids, message.trimEnd()]) expect(redirected).toContain(whole);
});

test('what is cut ends with …', () => {
  expect(cut('as far as it goes', 6)).toBe('as fa…');
  expect(cut('as far', 6)).toBe('as far');
  expect(cut('字字字', 4)).toBe('字…');
});
