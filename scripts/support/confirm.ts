import { createInterface } from 'node:readline/promises';

/** Whether there is a terminal to ask on. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks on standard error, because results go to standard output. Everything but yes counts as no, also end of input and Ctrl-C. */
export async function confirm(
  question: string,
  input: NodeJS.ReadableStream = process.stdin,
  output: NodeJS.WritableStream = process.stderr,
): Promise<boolean> {
  const asking = new AbortController();
  const terminal = createInterface({ input, output });
  terminal.once('close', () => {
    asking.abort();
  });
  try {
    const answer = await terminal.question(`${question} [y/N] `, { signal: asking.signal });
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    output.write('\n');
    return false;
  } finally {
    terminal.close();
  }
}
