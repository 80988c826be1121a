import { isUtf8 } from 'node:buffer';
import { counted, isOrAre, type Fault } from './faults.ts';

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

/** Memory that doubles when it is full, so that many small pieces cost no more than a large one. */
export function growingBytes() {
  let memory = Buffer.alloc(0);
  let length = 0;
  return {
    length: () => length,
    add(piece: Uint8Array): void {
      const needed = length + piece.byteLength;
      if (needed > memory.length) {
        const larger = Buffer.allocUnsafe(Math.max(needed, 2 * memory.length));
        memory.copy(larger, 0, 0, length);
        memory = larger;
      }
      memory.set(piece, length);
      length = needed;
    },
    /** All bytes so far. It begins anew with none. */
    take(): Buffer {
      const taken = memory.subarray(0, length);
      [memory, length] = [Buffer.alloc(0), 0];
      return taken;
    },
  };
}

const LINE_FEED = 10;

/**
 * The lines of a stream: for each chunk, an array of the lines that it completes. At most one chunk and one line are in memory,
 * even if a line never ends. node:readline would also break lines at U+2028 and U+2029, which JSON allows inside a string.
 *
 * @param most a line with more characters than this is not kept
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, most = Infinity): AsyncGenerator<readonly Line[]> {
  const rest = growingBytes();
  let dropped = 0;
  let bytes = 0;
  let isFirst = true;
  const lineOf = (line: Buffer): Line => {
    const text = isFirst ? line.toString().replace(/^\ufeff/, '') : line.toString(); // without a byte order mark
    isFirst = false;
    const length = dropped + text.length;
    dropped = 0;
    const isTooLong = length > most;
    return { text: isTooLong ? '' : text, length, isTooLong, isUtf8: isUtf8(line), bytes };
  };
  for await (const chunk of chunks) {
    bytes += chunk.byteLength;
    const last = chunk.lastIndexOf(LINE_FEED);
    if (last !== -1) {
      rest.add(chunk.subarray(0, last));
      yield dividedAt(LINE_FEED, rest.take()).map(lineOf);
    }
    rest.add(chunk.subarray(last + 1));
    if (dropped > 0 || rest.length() > MOST_BYTES * most) dropped += rest.take().toString().length;
  }
  if (dropped + rest.length() > 0) yield [lineOf(rest.take())];
}

function dividedAt(byte: number, bytes: Buffer): Buffer[] {
  const parts: Buffer[] = [];
  let from = 0;
  for (let at = bytes.indexOf(byte); at !== -1; at = bytes.indexOf(byte, from)) {
    parts.push(bytes.subarray(from, at));
    from = at + 1;
  }
  return [...parts, bytes.subarray(from)];
}

export function notUtf8(length: number): Fault {
  return { path: '', expected: 'UTF-8', found: `${counted(length, 'character')}, and not in UTF-8` };
}

export function notJson(length: number): Fault {
  return { path: '', expected: 'JSON', found: `${counted(length, 'character')} that ${isOrAre(length)} not JSON` };
}

/** A character (a UTF-16 unit) has at most this many bytes in UTF-8. */
const MOST_BYTES = 3;
