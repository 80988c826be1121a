import type { Fault } from '../../src/domain/faults.ts';

/**
 * The lines of a stream, with the bytes read so far; never more than a chunk and a line in memory. node:readline would
 * also break at U+2028 and U+2029, which JSON allows inside a string.
 */
async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ readonly line: string; readonly bytes: number }> {
  const decoder = new TextDecoder(); // drops a byte order mark
  let rest = '';
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.byteLength;
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield { line, bytes };
  }
  rest += decoder.decode();
  if (rest !== '') yield { line: rest, bytes };
}

/** One line of the input, or the notification of the flags; `faults` if a line is not JSON. */
export type Item = { readonly where: string } & (
  { readonly input: unknown; readonly faults?: never } | { readonly input?: never; readonly faults: readonly Fault[] }
);

/** The lines of an NDJSON stream, without empty ones. `onRead` is called with the bytes read so far. */
export async function* itemsOfLines(
  chunks: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Item> {
  let number = 0;
  for await (const { line, bytes } of linesOf(chunks)) {
    number++;
    onRead(bytes);
    if (line.trim() !== '') yield itemOfLine(`line ${number}`, line);
  }
}

function itemOfLine(where: string, line: string): Item {
  try {
    return { where, input: JSON.parse(line) as unknown };
  } catch {
    const found = `${line.length} characters that are none`;
    return { where, faults: [{ path: '', expected: 'JSON', found }] };
  }
}
