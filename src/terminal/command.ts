import { AsyncLocalStorage } from 'node:async_hooks';
import { styleText } from 'node:util';
import { CommanderError, Command, type AddHelpTextContext, type AddHelpTextPosition, type Option } from 'commander';
import { z } from 'zod';
import { InputError, printableJson, printableLines } from '../domain/faults.ts';
import type { Environment } from '../environment/values.ts';
import { endWithReader, red, yellow, wrapText, columnsOf } from './text.ts';

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
    .configureOutput({ outputError: (text, write) => write(printableLines(text).replace(/^error:/, red('error:'))) });
}

const collecting = new AsyncLocalStorage<(command: Command) => void>();

/** The command that a module's `main` would run: its flags, arguments and subcommands. The command itself does not run. */
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
  process.stderr.write(`${red('error:')} ${printableLines(isExpected ? error.message : describe(error))}\n`);
  return isUsage ? EXIT.usage : EXIT.failure;
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Prints one line on standard error about what is probably a mistake. The command goes on. */
export function warn(message: string): void {
  process.stderr.write(`${yellow('warning:')} ${printableLines(message)}\n`);
}

/** How the user called this command, for examples in messages: `npm run discard --`, `npx pushpacer discard` or `pushpacer discard`. */
export function callOf(name: string, env: Readonly<Record<string, string | undefined>> = process.env): string {
  const { npm_lifecycle_event: event, npm_command: command } = env;
  if (event === name) return `npm run ${name} --`;
  return command === 'exec' ? `npx pushpacer ${name}` : `pushpacer ${name}`;
}

/** Prints the result as the last line of a command under `--json`. */
export function printJson(result: unknown): void {
  process.stdout.write(`${printableJson(JSON.stringify(result))}\n`);
}

// The code below makes the help of every command fit the terminal, without a line break inside a word.

/** The widest help, since longer lines are hard to read. */
const WIDEST = 120;
const WITHOUT_TERMINAL = 80;
/** If a description has less room than this beside its term, it stands below the term. */
const LEAST_ROOM = 32;
const INDENT = '  ';
const BELOW = '      ';

function helpWidth(): number {
  return Math.min(columnsOf() ?? WITHOUT_TERMINAL, WIDEST);
}

/** A term with its description: beside the term, `termWidth` columns after its beginning, or below it. */
export function helpItem(term: string, description: string, termWidth: number, width = helpWidth()): string {
  if (description === '') return `${INDENT}${term}`;
  const before = termWidth + 2 * INDENT.length;
  if (width - before < LEAST_ROOM) {
    return [`${INDENT}${term}`, ...wrapText(description, width - BELOW.length).map((line) => BELOW + line)].join('\n');
  }
  const [first = '', ...rest] = wrapText(description, width - before);
  return [`${INDENT}${term.padEnd(termWidth)}${INDENT}${first}`, ...rest.map((line) => ' '.repeat(before) + line)].join(
    '\n',
  );
}

/** A command whose help, with the text behind its options, fits the terminal. */
class LaidOutCommand extends Command {
  constructor(name: string) {
    super(name);
    this.configureHelp({
      styleTitle: (title) => styleText('bold', title, { validateStream: false }), // commander removes it where there is no colour
      minWidthToWrap: 1,
      formatItem: (term, termWidth, description) => helpItem(term, description, termWidth),
    });
    this.configureOutput({ getOutHelpWidth: helpWidth });
  }

  override addHelpText(position: AddHelpTextPosition, text: string | ((context: AddHelpTextContext) => string)): this {
    const written = typeof text === 'string' ? () => `\n${paragraphs(text, helpWidth()).join('\n')}` : text;
    return super.addHelpText(position, written);
  }
}

/** Joins the lines of one paragraph and wraps them again. An empty line ends a paragraph; a line that begins with a space stays. */
function paragraphs(text: string, width: number): string[] {
  const blocks: string[] = [];
  let isOpen = false;
  for (const line of text.trim().split('\n')) {
    const isText = line !== '' && !line.startsWith(' ');
    if (isText && isOpen) blocks.push(`${blocks.pop() ?? ''} ${line}`);
    else blocks.push(line);
    isOpen = isText;
  }
  return blocks.flatMap((block) => (block.startsWith(' ') ? [block] : wrapText(block, width)));
}

/** Flags that npm took as its own, because there was no `--` before them. */
interface KeptFlags {
  /** How to write the command instead: `npm run enqueue -- --recipient teacher-42`. */
  readonly instead: string;
  /** Whether one of these flags cannot have been meant for npm: then the command must not run without it. */
  readonly isCertain: boolean;
}

/** Flags that npm has under the same names; a user may have set them in .npmrc. */
const NPMS_OWN = ['json', 'all', 'yes'];

/**
 * The flags that npm took: `npm run enqueue --recipient x` calls the command without the flag, since npm takes it and sets the
 * variable `npm_config_recipient`. Undefined if npm did not start the command, or took none of its flags.
 */
function keptByNpm(command: Command, argv: readonly string[], env: Environment): KeptFlags | undefined {
  if (env['npm_lifecycle_event'] !== command.name()) return undefined;
  const kept = optionsOf(command).filter((option) => isSet(env[variableOf(option)]) && !isGiven(option, argv));
  if (kept.length === 0) return undefined;
  const loose = argv.filter((word) => !word.startsWith('-') && !command.commands.some((each) => each.name() === word));
  const values = kept.filter(takesValue).length === 1 && loose.length === 1 ? loose : [];
  const rest = values.length === 0 ? argv : argv.filter((word) => word !== values[0]);
  const flags = kept.map((option) => written(option, env[variableOf(option)] ?? '', values[0]));
  return {
    instead: ['npm run', command.name(), '--', ...rest, ...flags].join(' '),
    isCertain: kept.some((option) => !NPMS_OWN.includes(option.name())),
  };
}

/** The options of the command and of its subcommands, each name once. */
function optionsOf(command: Command): Option[] {
  const all = [command, ...command.commands].flatMap(({ options }) => options);
  return [...new Map(all.map((option) => [option.name(), option])).values()];
}

function variableOf(option: Option): string {
  return `npm_config_${option.name().replaceAll('-', '_')}`;
}

/** Whether npm took the flag: if a flag of npm's own was not given, npm sets its variable to nothing or `false`. */
function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== '' && value !== 'false';
}

function isGiven({ long, short }: Option, argv: readonly string[]): boolean {
  return argv.some((word) => word === long || word === short || word.startsWith(`${long ?? ''}=`));
}

function takesValue({ required, optional }: Option): boolean {
  return required || optional;
}

/** A flag as a user writes it: `--recipient teacher-42`; if npm does not report the value, `--recipient <id>`. */
function written(option: Option, value: string, loose: string | undefined): string {
  const flag = option.long ?? '';
  if (!takesValue(option)) return flag;
  const isKnown = !/^(true\s*)+$/.test(value) && !value.includes('\n');
  return `${flag} ${isKnown ? value : (loose ?? /<[^>]+>/.exec(option.flags)?.[0] ?? '<value>')}`;
}

const dateTime = z.iso.datetime({ offset: true });

/** `2026-11-21T14:00:00Z`, `1795269600000` → epoch milliseconds; undefined if the text is neither. */
export function parseInstant(text: string): number | undefined {
  if (/^\d{12,14}$/.test(text)) return Number(text);
  const checked = dateTime.safeParse(text.toUpperCase());
  return checked.success ? Date.parse(checked.data) : undefined;
}

/** The parser of a flag that takes a whole number from `least` to `most`. @param what kind of number it is, for the error */
export function integer(flag: string, least: number, most: number, what = 'an integer'): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
    if (value >= least && value <= most) return value;
    throw new UsageError(`${flag}: expected ${what} from ${least} to ${most}, found ${JSON.stringify(text)}`);
  };
}

/** A second signal within this time is the first one again: the terminal sends it to all processes, and npm passes it on. */
const SAME_SIGNAL_MS = 1_000;

/** @returns a function to call at each signal to stop: is the signal the first one, the same one once more, or a later one? */
export function createStopSignals(): () => 'first' | 'same' | 'later' {
  let since: number | undefined;
  return () => {
    if (since !== undefined) return performance.now() - since > SAME_SIGNAL_MS ? 'later' : 'same';
    since = performance.now();
    return 'first';
  };
}

/** Resolves at the first SIGINT or SIGTERM. A later one ends the process at once. */
export function untilStopped(): Promise<void> {
  const signals = createStopSignals();
  return new Promise((resolve) => {
    const onSignal = (name: NodeJS.Signals): void => {
      resolve();
      if (signals() !== 'later') return;
      process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
      process.kill(process.pid, name);
    };
    process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  });
}
