import { Command, CommanderError } from 'commander';
import { InputError } from '../../src/domain/faults.ts';

/** Exit codes of every command. */
export const EXIT = { ok: 0, failure: 1, usage: 2 } as const;

/** A failure that a person can correct: its message is shown without a stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}

/** A bad flag: exit code 2, as for the flags that commander itself refuses. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** A command with `--help` and errors on standard error. It does not exit by itself: `runCommand` sets the exit code. */
export function createCommand(name: string, description: string): Command {
  return new Command(name).description(description).exitOverride().showHelpAfterError('(--help shows the options)');
}

/** Runs a command's action and sets `process.exitCode`: 0, 1 on failure, 2 on bad usage. */
export async function runCommand(command: Command, argv: readonly string[] = process.argv.slice(2)): Promise<void> {
  try {
    await command.parseAsync([...argv], { from: 'user' });
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage; // commander has printed the message
  const isUsage = error instanceof UsageError;
  const isExpected = isUsage || error instanceof CommandError || error instanceof InputError;
  process.stderr.write(`error: ${isExpected ? error.message : describe(error)}\n`);
  return isUsage ? EXIT.usage : EXIT.failure;
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** The last line of a command under `--json`. */
export function printJson(result: unknown): void {
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
