/** One line of a stream. */
export interface Line {
  /** The text of the line; empty if the line is too long. */
  readonly text: string;
  /** How many characters the line has; for an unfinished line that is too long, how many have come so far. */
  readonly length: number;
  /** The line has more characters than allowed. */
  readonly isTooLong: boolean;
  /** How many bytes of the stream were read so far. */
  readonly bytes: number;
}

/**
 * The lines of a stream, in arrays: those that each chunk completes. Never more than a chunk and a line are in memory, even if
 * a line never ends. node:readline would also break lines at U+2028 and U+2029, which JSON allows inside a string.
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
