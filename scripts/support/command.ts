import { AsyncLocalStorage } from 'node:async_hooks';
import { CommanderError, type Command } from 'commander';
import { InputError } from '../../src/domain/faults.ts';
import { LaidOutCommand } from './help.ts';
import { keptByNpm, type KeptFlags } from './npm-flags.ts';
import { endWithReader, red, yellow } from './terminal.ts';

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
  return new LaidOutCommand(name)
    .description(description)
    .exitOverride()
    .showHelpAfterError('(--help shows the options)')
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error:/, red('error:'))) });
}

const collecting = new AsyncLocalStorage<(command: Command) => void>();

/** The command that a module's `main` would run: its flags, arguments and subcommands. Nothing is run. */
export async function definitionOf(main: (argv: readonly string[]) => Promise<void>): Promise<Command> {
  let definition: Command | undefined;
  await collecting.run(
    (command) => (definition = command),
    () => main([]),
  );
  if (definition === undefined) throw new TypeError('expected a main that calls runCommand, found one that does not');
  return definition;
}

/** Runs a command's action and sets `process.exitCode`: 0, 1 on failure, 2 on bad usage. */
export async function runCommand(command: Command, argv: readonly string[] = process.argv.slice(2)): Promise<void> {
  const collect = collecting.getStore();
  if (collect !== undefined) {
    collect(command);
    return;
  }
  endWithReader();
  const kept = keptByNpm(command, argv, process.env);
  try {
    if (kept?.isCertain) throw new UsageError(npmText(kept));
    if (kept !== undefined) warn(npmText(kept));
    await command.parseAsync([...argv], { from: 'user' });
  } catch (error) {
    process.exitCode = exitCodeOf(error);
  }
}

function npmText({ instead }: KeptFlags): string {
  return `npm kept a flag for itself, because there is no -- before the flags; write: ${instead}`;
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage; // commander has printed the message
  const isUsage = error instanceof UsageError;
  const isExpected = isUsage || error instanceof CommandError || error instanceof InputError;
  process.stderr.write(`${red('error:')} ${isExpected ? error.message : describe(error)}\n`);
  return isUsage ? EXIT.usage : EXIT.failure;
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** One line on standard error about what is probably a mistake. The command goes on. */
export function warn(message: string): void {
  process.stderr.write(`${yellow('warning:')} ${message}\n`);
}

/** How the reader called this command, for examples in messages: `npm run discard --`, `npx pushpacer discard` or `pushpacer discard`. */
export function callOf(name: string, env: Readonly<Record<string, string | undefined>> = process.env): string {
  const { npm_lifecycle_event: event, npm_command: command } = env;
  if (event === name) return `npm run ${name} --`;
  return command === 'exec' ? `npx pushpacer ${name}` : `pushpacer ${name}`;
}

/** The last line of a command under `--json`. */
export function printJson(result: unknown): void {
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
