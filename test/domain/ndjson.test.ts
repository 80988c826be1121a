import { expect, test } from 'vitest';
import { linesOf, notJson, notUtf8, type Line } from '../../src/domain/ndjson.ts';

/** The lines of these bytes, in chunks of `size`. */
async function lines(bytes: Buffer, size: number, most?: number) {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (let from = 0; from < bytes.length; from += size) {
      await Promise.resolve();
      yield bytes.subarray(from, from + size);
    }
  }
  const found: Line[] = [];
  for await (const some of linesOf(chunks(), most)) found.push(...some);
  return found;
}

test.each([1, 2, 3, 1_000])('characters are whole, however the bytes are divided: %i at a time', async (size) => {
  const found = await lines(Buffer.from('\ufeffä\u2028€\n👩‍🏫\ufeff\n\nend'), size);
  expect(found.map(({ text }) => text)).toEqual(['ä\u2028€', '👩‍🏫\ufeff', '', 'end']);
  expect(found.every(({ isUtf8 }) => isUtf8)).toBe(true);
  expect(found.at(-1)?.bytes).toBe(31);
});

test('says of each line whether it is UTF-8', async () => {
  const bytes = Buffer.concat([Buffer.from('ok \ufffd\n'), Buffer.from([0xe9, 0x0a]), Buffer.from([0xc3])]);
  expect((await lines(bytes, 2)).map(({ isUtf8 }) => isUtf8)).toEqual([true, false, false]);
});

test.each([1, 7, 1_000])('a line that is too long is counted, and not kept: %i at a time', async (size) => {
  const found = await lines(Buffer.from(`${'ä'.repeat(10)}\n${'x'.repeat(90)}\n${'€'.repeat(11)}`), size, 10);
  expect(found.map(({ text, isTooLong }) => [text.length, isTooLong])).toEqual([
    [10, false],
    [0, true],
    [0, true],
  ]);
  expect(found[1]?.length).toBe(90);
});

/** Processor time, since a busy machine makes anything slow; the quickest of three. */
async function cpuMs(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let time = 0; time < 3; time++) {
    const before = process.threadCpuUsage();
    await work();
    const { user, system } = process.threadCpuUsage(before);
    times.push((user + system) / 1_000);
  }
  return Math.min(...times);
}

test('a line by single bytes: eight times as many take no more than sixteen times as long', async () => {
  const [some, many] = [20_000, 160_000].map((size) => Buffer.alloc(size, 'x'));
  const someMs = await cpuMs(() => lines(some ?? Buffer.alloc(0), 1));
  const manyMs = await cpuMs(() => lines(many ?? Buffer.alloc(0), 1));
  expect(manyMs).toBeLessThan(16 * Math.max(someMs, 1));
});

test('a line that cannot be read is told with its length', () => {
  expect([notJson(1), notJson(8), notUtf8(1)].map(({ found }) => found)).toEqual([
    '1 character that is not JSON',
    '8 characters that are not JSON',
    '1 character, and not in UTF-8',
  ]);
});
