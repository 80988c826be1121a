import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { renderTable } from '../../scripts/dead-letters.ts';
import { factsOf } from '../../src/dead-letters/facts.ts';
import { barText, createProgress, say, confirm } from '../../src/terminal/progress.ts';
import { table, widthOf } from '../../src/terminal/text.ts';
import { deadLetter } from '../dead-letters/letters.ts';
import { openTerminal, type TestTerminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

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

test('very many dead letters are listed', () => {
  const one = factsOf({ id: 'msg-1', letter: deadLetter('msg-1'), buriedAt: 0 });
  const all = Array.from({ length: 130_000 }, () => one);
  expect(renderTable(all, Date.now(), 200)).toHaveLength(all.length + 1);
});

/** A stream to the emulator of a terminal, which has the emulator's width. */
function streamTo(terminal: TestTerminal): NodeJS.WriteStream {
  const stream = new PassThrough();
  stream.on('data', (bytes: Buffer) => void terminal.write(bytes.toString()));
  Object.defineProperty(stream, 'columns', { get: () => terminal.screen.cols });
  return Object.assign(stream, { isTTY: true }) as unknown as NodeJS.WriteStream;
}

const shownIn = (terminal: TestTerminal, pattern: RegExp) =>
  waitFor(async () => expect((await terminal.lines()).join('\n')).toMatch(pattern));

test('no line is lost above a bar, and the bar leaves nothing behind', async () => {
  const terminal = openTerminal(60);
  const stream = streamTo(terminal);
  const progress = createProgress('replayed', 1_200, { stream });
  const lines = Array.from({ length: 40 }, (_, n) => `line ${n}`);
  for (const line of lines.slice(0, 20)) progress.say(line);
  progress.update(600);
  await shownIn(terminal, /^replayed .* 50% 600\/1,200 .*\/s/m);
  for (const line of lines.slice(20)) say(line, stream); // as parts that do not know the bar write
  await shownIn(terminal, /line 39\nreplayed/);
  progress.stop();
  expect(await terminal.lines()).toEqual(lines);
});

test.each([
  [80, 30],
  [30, 100],
  [80, 5],
])('a window of %i columns may become one of %i', async (before, after) => {
  const terminal = openTerminal(before);
  const stream = streamTo(terminal);
  const progress = createProgress('moved', 10, { stream });
  progress.say('one');
  progress.update(5);
  await shownIn(terminal, /^moved/m);
  terminal.screen.resize(after, 24);
  progress.update(10);
  await shownIn(terminal, after < 10 ? /^mov…$/m : /100%/);
  progress.say('two');
  progress.stop();
  expect(await terminal.lines()).toEqual(['one', 'two']);
});

test('without a terminal there are lines and no bar', () => {
  const stream = new PassThrough();
  const progress = createProgress('moved', 10, { stream: stream as unknown as NodeJS.WriteStream });
  progress.say('one');
  progress.update(10);
  progress.stop();
  expect(String(stream.read())).toBe('one\n');
});

const counted = { label: 'added', unit: undefined, done: 600, total: 1_200, perSecond: 200 } as const;

test.each([
  [counted, 'added ███████████████░░░░░░░░░░░░░░░ 50% 600/1,200 200/s, 3 s left'],
  [{ ...counted, perSecond: undefined }, 'added ███████████████░░░░░░░░░░░░░░░ 50% 600/1,200'],
  [{ ...counted, perSecond: 0.5 }, 'added ███████████████░░░░░░░░░░░░░░░ 50% 600/1,200 0.5/s, 20 min left'],
  [{ ...counted, perSecond: 1e-9 }, 'added ███████████████░░░░░░░░░░░░░░░ 50% 600/1,200 0.0/s'],
  [{ ...counted, done: 0, total: 0 }, 'added 0 200/s'],
  [{ ...counted, done: 0, total: undefined, perSecond: undefined }, 'added 0'],
  [{ ...counted, done: 2_000 }, 'added ██████████████████████████████ 100% 2,000/1,200 200/s, 0 s left'],
  [
    { ...counted, unit: 'bytes', done: 1_500_000, total: 3_000_000, perSecond: 950 } as const,
    'added ███████████████░░░░░░░░░░░░░░░ 50% 1.5 MB/3.0 MB 950 B/s, 27 min left',
  ],
])('%j is shown as %s', (state, text) => {
  expect(barText(state, 200)).toBe(text);
});

test('a bar is shorter than its terminal, at every width, and never says NaN or Infinity', () => {
  for (let columns = 2; columns <= 200; columns++) {
    for (const total of [undefined, 0, 1, 1e9]) {
      for (const perSecond of [undefined, 0, 1e-12, 3, 1e12]) {
        const text = barText({ ...counted, total, perSecond }, columns);
        expect(text.length).toBeLessThan(columns);
        expect(text).not.toMatch(/NaN|Inf|∞/);
      }
    }
  }
});

async function answered(text: string): Promise<{ isYes: boolean; shown: string }> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const asking = confirm('Discard 2 dead letters for good?', input, output);
  input.end(text);
  return { isYes: await asking, shown: String(output.read()) };
}

test.each(['y\n', ' YES \r\n'])('%j is a yes', async (text) => {
  const { isYes, shown } = await answered(text);
  expect(isYes).toBe(true);
  expect(shown).toBe('Discard 2 dead letters for good? [y/N] ');
});

test.each(['\n', 'yesterday\n', 'no\ny\n', ''])('%j is a no', async (text) => {
  expect((await answered(text)).isYes).toBe(false);
});
