import { isUtf8 } from 'node:buffer';
import type { Fault } from './faults.ts';

/** One line of a stream. */
export interface Line {
  /** The text of the line; empty if the line is too long. */
  readonly text: string;
  /** How many characters the line has; for an unfinished line that is too long, how many have come so far. */
  readonly length: number;
  /** The line has more characters than allowed. */
  readonly isTooLong: boolean;
  /** Whether all bytes of the line are UTF-8. `text` has U+FFFD in place of other bytes. */
  readonly isUtf8: boolean;
  /** How many bytes of the stream were read so far. */
  readonly bytes: number;
}

/**
 * The lines of a stream: for each chunk, an array of the lines that it completes. At most one chunk and one line are in memory,
 * even if a line never ends. node:readline would also break lines at U+2028 and U+2029, which JSON allows inside a string.
 *
 * @param most a line with more characters than this is not kept
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, most = Infinity): AsyncGenerator<readonly Line[]> {
  let rest = ''; // a character for each byte, since a line may end within a chunk that is not UTF-8
  let dropped = 0;
  let bytes = 0;
  let isFirst = true;
  const lineOf = (raw: string): Line => {
    const buffer = Buffer.from(raw, 'latin1');
    const text = isFirst ? buffer.toString().replace(/^\ufeff/, '') : buffer.toString(); // without a byte order mark
    isFirst = false;
    const length = dropped + text.length;
    dropped = 0;
    const isTooLong = length > most;
    return { text: isTooLong ? '' : text, length, isTooLong, isUtf8: isUtf8(buffer), bytes };
  };
  for await (const chunk of chunks) {
    bytes += chunk.byteLength;
    const lines = (rest + Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    if (lines.length > 0) yield lines.map(lineOf);
    if (dropped > 0 || rest.length > MOST_BYTES * most) {
      dropped += Buffer.from(rest, 'latin1').toString().length;
      rest = '';
    }
  }
  if (dropped + rest.length > 0) yield [lineOf(rest)];
}

export function notUtf8(length: number): Fault {
  return { path: '', expected: 'UTF-8', found: `${length} characters of which some are not` };
}

/** A character (a UTF-16 unit) has at most this many bytes in UTF-8. */
const MOST_BYTES = 3;
