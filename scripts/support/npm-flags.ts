import type { Command, Option } from 'commander';

type Environment = Readonly<Record<string, string | undefined>>;

/** Flags that npm kept for itself, since there was no `--` before them. */
export interface KeptFlags {
  /** How to write the command instead: `npm run enqueue -- --recipient teacher-42`. */
  readonly instead: string;
  /** Whether one of them cannot have been meant for npm: the command must not run without it. */
  readonly isCertain: boolean;
}

/** npm has flags of these names too, and people set them for good. */
const NPMS_OWN = ['json', 'all', 'yes'];

/**
 * `npm run enqueue --recipient x` calls the command without the flag: npm keeps it, and sets the variable `npm_config_recipient`. Undefined
 * if npm did not start the command, or kept none of its flags.
 */
export function keptByNpm(command: Command, argv: readonly string[], env: Environment): KeptFlags | undefined {
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

/** Those of the command and of its subcommands, each name once. */
function optionsOf(command: Command): Option[] {
  const all = [command, ...command.commands].flatMap(({ options }) => options);
  return [...new Map(all.map((option) => [option.name(), option])).values()];
}

function variableOf(option: Option): string {
  return `npm_config_${option.name().replaceAll('-', '_')}`;
}

/** npm sets a variable of its own to nothing or `false` where nobody gave the flag. */
function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== '' && value !== 'false';
}

function isGiven({ long, short }: Option, argv: readonly string[]): boolean {
  return argv.some((word) => word === long || word === short || word.startsWith(`${long ?? ''}=`));
}

function takesValue({ required, optional }: Option): boolean {
  return required || optional;
}

/** `--recipient teacher-42`; where npm does not say the value, what belongs there: `--recipient <id>`. */
function written(option: Option, value: string, loose: string | undefined): string {
  const flag = option.long ?? '';
  if (!takesValue(option)) return flag;
  const isKnown = !/^(true\s*)+$/.test(value) && !value.includes('\n');
  return `${flag} ${isKnown ? value : (loose ?? /<[^>]+>/.exec(option.flags)?.[0] ?? '<value>')}`;
}
