import { pino, type DestinationStream, type Logger } from 'pino';
import { withoutCredentials } from '../domain/redact.ts';

export type { Logger };

/** Lines are written together: handing each to pino's destination by itself would cost a busy worker a twentieth of its throughput. */
const BATCH = { characters: 16_384, everyMs: 100 };

/**
 * JSON lines on standard output, one a line, written within 100 ms and at the end of the process; one that is killed may lose that much. Tokens, keys and message texts are not handed to it in the first place;
 * redaction is the second lock, of fields by their names and of the whole line by what credentials look like.
 */
export function createLog(level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: { pid: process.pid },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    // Redis's errors carry the command that failed, and with it passwords, tokens and whole notifications.
    serializers: { err: plainError },
    redact: {
      paths: ['token', '*.token', 'devices[*].token', 'alert', '*.alert', 'key', '*.key'],
      censor: '[redacted]',
    },
    hooks: { streamWrite: withoutCredentials },
  };
  return pino(options, destination ?? batchedOutput());
}

/** What is told of an error: its kind, words, code and place, and no field that a client hung on it. */
function plainError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const { name, message, stack } = error;
  const { code } = error as { readonly code?: unknown };
  return { type: name, message, stack, ...(typeof code === 'string' && { code }) };
}

/** Standard output; a line waits in the process for others, and `fatal` for none. */
function batchedOutput(): DestinationStream & { flushSync(): void } {
  const output = pino.destination({ dest: 1, sync: false });
  let lines = '';
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (lines !== '') output.write(lines);
    lines = '';
  };
  process.prependListener('exit', flush); // before the output's own, which writes what it has
  return {
    write(line) {
      lines += line;
      if (lines.length >= BATCH.characters) flush();
      else timer ??= setTimeout(flush, BATCH.everyMs).unref();
    },
    flushSync() {
      flush();
      output.flushSync();
    },
  };
}

/** Answers how often a trouble was met since it was last told, and undefined where that was only lately: then nothing is told. */
export type Sparing = (trouble: string) => number | undefined;

/** Keeps a log readable through an outage: each trouble once in so many milliseconds, with how often it went untold. */
export function createSparing(everyMs: number, now: () => number = () => performance.now()): Sparing {
  const told = new Map<string, { readonly at: number; untold: number }>();
  return (trouble) => {
    const time = now();
    const last = told.get(trouble);
    if (last !== undefined && time - last.at < everyMs) {
      last.untold += 1;
      return undefined;
    }
    for (const [key, { at }] of told) if (time - at >= everyMs) told.delete(key);
    told.set(trouble, { at: time, untold: 0 });
    return last?.untold ?? 0;
  };
}
