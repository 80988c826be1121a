import { pino, type DestinationStream, type Logger } from 'pino';
import { printableJson } from '../domain/faults.ts';
import { SECRET_DEVICE_FIELDS } from '../notification/device.ts';
import { withoutCredentials } from '../notification/redact.ts';

export type { Logger };

/**
 * Lines are written in batches: with one write for each line, a busy worker had 5% less throughput. A pipe takes 4,096 bytes in
 * one piece (PIPE_BUF), so that the lines of several workers on one standard output do not mix.
 */
const BATCH = { bytes: 4_096, everyMs: 100 };

/**
 * JSON lines on standard output, written within 100 ms and at the end of the process; a killed process may lose the last 100
 * ms. Callers never log tokens, keys or texts of an alert. As a second safeguard, fields are redacted by their names, and the
 * whole line by patterns of credentials. What a terminal would obey is escaped.
 */
export function createLog(level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: { pid: process.pid },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (level: string) => ({ level }) },
    // ioredis attaches the failed command to its errors, with passwords, tokens and whole notifications in it.
    serializers: { err: plainError },
    redact: {
      paths: [...SECRET_DEVICE_FIELDS.flatMap(everywhere), 'alert', '*.alert', 'key', '*.key'],
      censor: '[redacted]',
    },
    hooks: { streamWrite: (line: string) => printableJson(withoutCredentials(line)) },
  };
  return pino(options, destination ?? batchedOutput());
}

/** The field at the top of a log line, one level below, and in a list of devices. */
function everywhere(field: string): string[] {
  return [field, `*.${field}`, `devices[*].${field}`];
}

/** An error's type, message, stack and code, without any field that a client library attached to it. */
function plainError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const { name, message, stack } = error;
  const { code } = error as { readonly code?: unknown };
  return { type: name, message, stack, ...(typeof code === 'string' && { code }) };
}

/** After these errors the log goes on. After other errors it ends: the terminal was closed, or the pipe has no reader. */
const DISK_FULL: readonly string[] = ['ENOSPC', 'EDQUOT'];

/**
 * Standard output in batches, each in one synchronous write. (pino's asynchronous output waits for ever at the exit if a write
 * fails for another reason than a full pipe.) pino calls `flushSync` for a `fatal` line, so such a line is written at once.
 */
function batchedOutput(): DestinationStream & { flushSync(): void } {
  let output = openOutput();
  let [lines, bytes] = ['', 0];
  let [isGone, isCut] = [false, false];
  let timer: NodeJS.Timeout | undefined;
  function openOutput() {
    return pino.destination({ dest: 1, sync: true }).on('error', ({ code = '' }: NodeJS.ErrnoException) => {
      isCut = true;
      // The new output begins without the lines that could not be written: the old one would keep all lines in memory.
      if (DISK_FULL.includes(code)) output = openOutput();
      else isGone = true;
    });
  }
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (lines !== '' && !isGone) {
      const text = isCut ? `\n${lines}` : lines; // the line before may have been written only in part
      isCut = false;
      output.write(text);
    }
    [lines, bytes] = ['', 0];
  };
  process.prependListener('exit', flush);
  return {
    write(line) {
      const size = Buffer.byteLength(line);
      if (bytes + size > BATCH.bytes) flush();
      lines += line;
      bytes += size;
      timer ??= setTimeout(flush, BATCH.everyMs).unref();
    },
    flushSync: flush,
  };
}

/** Whether to log a trouble now: how often it occurred since it was last logged, or undefined if it must not be logged. */
export type Sparing = (trouble: string) => number | undefined;

/** Keeps a log short during an outage: each trouble is logged at most once in `everyMs` milliseconds. */
export function createSparing(everyMs: number, now: () => number = () => performance.now()): Sparing {
  const logged = new Map<string, { readonly at: number; repeats: number }>();
  return (trouble) => {
    const time = now();
    const last = logged.get(trouble);
    if (last !== undefined && time - last.at < everyMs) {
      last.repeats += 1;
      return undefined;
    }
    for (const [key, { at }] of logged) if (time - at >= everyMs) logged.delete(key);
    logged.set(trouble, { at: time, repeats: 0 });
    return last?.repeats ?? 0;
  };
}
