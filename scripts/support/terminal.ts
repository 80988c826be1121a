import { styleText } from 'node:util';

type Format = Parameters<typeof styleText>[0];

// Colours appear only on a terminal; NO_COLOR turns them off, and FORCE_COLOR on.
const on = (stream: NodeJS.WriteStream, format: Format) => (text: string) => styleText(format, text, { stream });

/** `error:` before what went wrong, on standard error. */
export const red = on(process.stderr, 'red');
/** `warning:`, on standard error. */
export const yellow = on(process.stderr, 'yellow');
/** What is wrong, on standard output. */
export const redOut = on(process.stdout, 'red');
/** What is well, on standard output. */
export const green = on(process.stdout, 'green');
/** Headings of tables, on standard output. */
export const heading = on(process.stdout, 'bold');
/** What matters less, on standard output. */
export const dim = on(process.stdout, 'dim');

/** The columns of the terminal that `stream` is; undefined if it is none, and then nothing is cut. */
export function columnsOf(stream: NodeJS.WriteStream = process.stdout): number | undefined {
  if (!stream.isTTY) return undefined;
  return stream.columns > 0 ? stream.columns : 80; // 0: the terminal does not know
}

let isPrepared = false;

/**
 * When nobody reads standard output any more (`pushpacer dead-letters | head`), the command ends, quietly. When nobody reads
 * standard error any more, it goes on: its work is not about what it says there.
 */
export function endWithReader(): void {
  if (isPrepared) return;
  isPrepared = true;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    process.stderr.write(`${red('error:')} standard output: ${error.message}\n`);
    process.exit(1);
  });
  process.stderr.on('error', () => undefined);
}
