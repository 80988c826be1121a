/**
 * The lines of a stream, with the bytes read so far; never more than a chunk and a line in memory. node:readline would
 * also break at U+2028 and U+2029, which JSON allows inside a string.
 */
export async function* linesOf(
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
