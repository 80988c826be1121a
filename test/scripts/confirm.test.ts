import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { confirm } from '../../src/terminal/progress.ts';

async function answered(text: string): Promise<{ isYes: boolean; shown: string }> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const asking = confirm('Discard 2 dead letters for good?', input, output);
  input.end(text);
  return { isYes: await asking, shown: String(output.read()) };
}

test.each(['y\n', 'Y\n', 'yes\n', ' YES \r\n'])('%j is a yes', async (text) => {
  const { isYes, shown } = await answered(text);
  expect(isYes).toBe(true);
  expect(shown).toBe('Discard 2 dead letters for good? [y/N] ');
});

test.each(['n\n', '\n', 'yesterday\n', 'no\ny\n', ''])('%j is a no', async (text) => {
  expect((await answered(text)).isYes).toBe(false);
});
