/** One line of a stream. */
export interface Line {
  /** Its text; of a line that is too long none. */
  readonly text: string;
  /** How many characters it has; of the last one that is too long, how many had come so far. */
  readonly length: number;
  /** It has more characters than allowed. */
  readonly isTooLong: boolean;
  /** How many bytes of the stream were read so far. */
  readonly bytes: number;
}

/**
 * The lines of a stream, those of each chunk together as it comes; never more than a chunk and a line in memory, also if somebody sends a line without an end. node:readline
 * would also break at U+2028 and U+2029, which JSON allows inside a string.
 *
 * @param most a line with more characters than this is not kept
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, most = Infinity): AsyncGenerator<readonly Line[]> {
  const decoder = new TextDecoder(); // drops a byte order mark
  let rest = '';
  let dropped = 0;
  let bytes = 0;
  const lineOf = (text: string): Line => {
    const length = dropped + text.length;
    dropped = 0;
    const isTooLong = length > most;
    return { text: isTooLong ? '' : text, length, isTooLong, bytes };
  };
  for await (const chunk of chunks) {
    bytes += chunk.byteLength;
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (lines.length > 0) yield lines.map(lineOf);
    if (dropped + rest.length > most) {
      dropped += rest.length;
      rest = '';
    }
  }
  rest += decoder.decode();
  if (dropped + rest.length > 0) yield [lineOf(rest)];
}
