import { pino, type DestinationStream, type Logger } from 'pino';
import { withoutCredentials } from '../domain/redact.ts';

export type { Logger };

/**
 * JSON lines on standard output, one a line. Tokens, keys and message texts are not handed to it in the first place;
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
  return destination === undefined ? pino(options) : pino(options, destination);
}

/** What is told of an error: its kind, words, code and place, and no field that a client hung on it. */
function plainError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const { name, message, stack } = error;
  const { code } = error as { readonly code?: unknown };
  return { type: name, message, stack, ...(typeof code === 'string' && { code }) };
}
