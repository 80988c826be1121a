import { Argument, type Command, type Option } from 'commander';
import { createCommand, runCommand, definitionOf } from '../../src/terminal/command.ts';
import { shellQuoted as quoted } from '../../src/terminal/text.ts';

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };
type Shell = keyof typeof SCRIPTS;

const HELP = `
bash, in ~/.bashrc:
  source <(pushpacer completion bash)
zsh, in ~/.zshrc, after compinit:
  source <(pushpacer completion zsh)
fish, once:
  pushpacer completion fish > ~/.config/fish/completions/pushpacer.fish

It completes the word pushpacer, so that must be on the PATH (npm install --global pushpacer). After an update of pushpacer a new
shell has the new flags in bash and zsh; in fish, write the file again.`;

type Main = (argv: readonly string[]) => Promise<void>;

/** All commands of the program: what each does, and how it is loaded. */
type Commands = Readonly<
  Record<string, { readonly does: string; readonly load: () => Promise<{ readonly main: Main }> }>
>;

/** `pushpacer completion bash`: prints a script that completes commands, flags, and known values. */
export function completionOf(commands: Commands): Main {
  return async (argv) => {
    const command = createCommand('completion', 'Prints a script that completes commands and flags, for a shell.');
    command
      .addArgument(new Argument('<shell>', 'whose script').choices(Object.keys(SCRIPTS)))
      .addHelpText('after', HELP)
      .action(async (shell: Shell) => {
        process.stdout.write(SCRIPTS[shell](await readPlaces(commands, command)));
      });
    await runCommand(command, argv);
  };
}

/** A word that a shell may offer, with a text that says what it does. */
interface Word {
  readonly word: string;
  readonly does: string;
}

interface Flag {
  /** `--yes`, `-y` */
  readonly long: string;
  readonly short?: string;
  readonly does: string;
  /** What comes after the flag: nothing, one of these words, a file or folder, or any text. */
  readonly value: 'none' | readonly string[] | 'file' | 'text';
}

/** A place on the command line, after the words of `path`: what may come there. */
export interface Place {
  /** `''`, `enqueue`, `recipient show` */
  readonly path: string;
  /** Commands, or the known values of an argument. */
  readonly words: readonly Word[];
  readonly flags: readonly Flag[];
}

/**
 * All places, from the definitions of the commands. `own` is the command that calls this function: its module is still being
 * loaded, so it cannot be loaded here.
 */
async function readPlaces(commands: Commands, own: Command): Promise<Place[]> {
  const others = Object.entries(commands).filter(([name]) => name !== own.name());
  const definitions = await Promise.all(others.map(async ([, { load }]) => definitionOf((await load()).main)));
  const top: Place = {
    path: '',
    words: Object.entries(commands).map(([word, { does }]) => ({ word, does })),
    flags: [
      { long: '--help', short: '-h', does: 'shows the commands', value: 'none' },
      { long: '--version', short: '-V', does: "shows this program's version", value: 'none' },
    ],
  };
  return [top, ...[...definitions, own].flatMap((command) => placesOf(command, command.name()))];
}

function placesOf(command: Command, path: string): Place[] {
  const choices = command.registeredArguments.flatMap(({ argChoices = [], description }) =>
    argChoices.map((word) => ({ word, does: description })),
  );
  const place: Place = {
    path,
    words: [...command.commands.map((each) => ({ word: each.name(), does: each.description() })), ...choices],
    flags: command.createHelp().visibleOptions(command).map(flagOf),
  };
  return [place, ...command.commands.flatMap((each) => placesOf(each, `${path} ${each.name()}`))];
}

function flagOf(option: Option): Flag {
  const { long, short, description } = option;
  return { long: long ?? '', ...(short !== undefined && { short }), does: description, value: valueOf(option) };
}

function valueOf({ required, optional, argChoices, flags }: Option): Flag['value'] {
  if (!required && !optional) return 'none';
  if (argChoices !== undefined) return argChoices;
  return /<(path|file|folder)>/i.test(flags) ? 'file' : 'text';
}

/** Each way to write a flag: `--yes`, `-y`. */
function spellings({ long, short }: Flag): string[] {
  return short === undefined ? [long] : [long, short];
}

/** How a shell writes a pattern of `case`: `'a' | 'b')`, `('a'|'b')`. */
interface CaseStyle {
  readonly open: string;
  readonly or: string;
}

/** A branch of `case` for each flag with a value. `answerOf` says what to offer; undefined for a flag without a value. */
function valueCases(
  { path, flags }: Place,
  answerOf: (flag: Flag) => string | undefined,
  { open, or }: CaseStyle,
): string[] {
  return flags.flatMap((flag) => {
    const answer = answerOf(flag);
    if (answer === undefined) return [];
    const patterns = spellings(flag).map((one) => quoted(`${path} ${one}`));
    return [`    ${open}${patterns.join(or)}) ${answer}; return ;;`];
  });
}

/**
 * For bash 3.2 (macOS) and later. The script contains all words, so it answers at once. A script that calls the program at each
 * press of the key would have to wait until all of the program is loaded.
 */
function bashScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  return `# bash completion for pushpacer: source <(pushpacer completion bash)
_pushpacer() {
  local at='' cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} words='' IFS=$' \\t\\n' i
  # bash makes three words of --file=x
  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${at:+$at }\${COMP_WORDS[i]}" in
      ${paths.join(' | ')}) at="\${at:+$at }\${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  case "$at $prev" in
${places.flatMap((place) => valueCases(place, bashAnswer, { open: '', or: ' | ' })).join('\n')}
  esac
  case "$at" in
${places.map(bashWords).join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _pushpacer pushpacer
`;
}

function bashAnswer({ value }: Flag): string | undefined {
  if (value === 'none') return undefined;
  if (value === 'text') return ':';
  if (value === 'file') {
    return `IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$cur")); compopt -o filenames 2>/dev/null`;
  }
  return `COMPREPLY=($(compgen -W ${quoted(value.join(' '))} -- "$cur"))`;
}

function bashWords({ path, words, flags }: Place): string {
  const all = [...words.map(({ word }) => word), ...flags.flatMap(spellings)];
  return `    ${quoted(path)}) words=${quoted(all.join(' '))} ;;`;
}

/** For fish 3. */
function fishScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => fishQuoted(path));
  return `# fish completion for pushpacer: pushpacer completion fish > ~/.config/fish/completions/pushpacer.fish
function __pushpacer_at
  set -l at
  for word in (commandline -opc)[2..-1]
    if contains -- (string join -- ' ' $at $word) ${paths.join(' ')}
      set at (string join -- ' ' $at $word)
    end
  end
  test "$at" = "$argv[1]"
end
complete -c pushpacer -f
${places.flatMap(linesOf).join('\n')}
`;
}

function linesOf({ path, words, flags }: Place): string[] {
  const here = `complete -c pushpacer -n ${fishQuoted(`__pushpacer_at ${fishQuoted(path)}`)}`;
  return [
    ...words.map(({ word, does }) => `${here} -a ${fishQuoted(word)} -d ${fishQuoted(does)}`),
    ...flags.map((flag) => `${here} ${flagWords(flag)} -d ${fishQuoted(flag.does)}`),
  ];
}

/** `-l yes -s y`, `-l file -r -F` */
function flagWords({ long, short, value }: Flag): string {
  const names = [`-l ${long.slice(2)}`, ...(short === undefined ? [] : [`-s ${short.slice(1)}`])].join(' ');
  if (value === 'none') return names;
  if (value === 'file') return `${names} -r -F`;
  return value === 'text' ? `${names} -x` : `${names} -x -a ${fishQuoted(value.join(' '))}`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** For zsh 5. */
function zshScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  return `#compdef pushpacer
# zsh completion for pushpacer: source <(pushpacer completion zsh)
_pushpacer() {
  local at='' word prev=\${words[CURRENT-1]}
  local -a offered
  for word in \${words[2,CURRENT-1]}; do
    case "\${at:+$at }$word" in
      (${paths.join('|')}) at="\${at:+$at }$word" ;;
    esac
  done
  if [[ $PREFIX == --*=* ]]; then
    prev=\${PREFIX%%=*}
    compset -P '*='
  fi
  case "$at $prev" in
${places.flatMap((place) => valueCases(place, zshAnswer, { open: '(', or: '|' })).join('\n')}
  esac
  case "$at" in
${places.map(zshWords).join('\n')}
  esac
}
if [[ $funcstack[1] == _pushpacer ]]; then _pushpacer "$@"; else compdef _pushpacer pushpacer; fi
`;
}

function zshAnswer({ value, does }: Flag): string | undefined {
  if (value === 'none') return undefined;
  if (value === 'text') return `_message ${quoted(does)}`;
  if (value === 'file') return '_files';
  return `compadd -- ${value.map(quoted).join(' ')}`;
}

function zshWords({ path, words, flags }: Place): string {
  const offered = words.map(({ word, does }) => described(word, does));
  const options = flags.flatMap((flag) => spellings(flag).map((one) => described(one, flag.does)));
  const lines = [
    ...(offered.length > 0 ? [`offered=(${offered.join(' ')}); _describe -V command offered`] : []),
    `offered=(${options.join(' ')}); _describe -V -o option offered`,
  ];
  return `    (${quoted(path)}) ${lines.join('; ')} ;;`;
}

/** `word:what it does`; a colon in the word itself is escaped, since it would end the word. */
function described(word: string, does: string): string {
  return quoted(`${word.replaceAll(':', '\\:')}:${does}`);
}
