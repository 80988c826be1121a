import type { Command, Option } from 'commander';
import { COMMANDS, loadCommand } from '../pushpacer/commands.ts';
import { definitionOf } from '../support/command.ts';

/** A word that a shell may offer, and what it does. */
interface Word {
  readonly word: string;
  readonly does: string;
}

export interface Flag {
  /** `--yes`, `-y` */
  readonly long: string;
  readonly short?: string;
  readonly does: string;
  /** What comes after it: nothing, one of these words, a file or folder, or any text. */
  readonly value: 'none' | readonly string[] | 'file' | 'text';
}

/** A place on the command line, after the words of `path`: what may come there. */
export interface Place {
  /** `''`, `enqueue`, `recipient show` */
  readonly path: string;
  /** Commands, or values of an argument that are known. */
  readonly words: readonly Word[];
  readonly flags: readonly Flag[];
}

/** All places, from the definitions of the commands. `own` is the one that asks: its module is still being loaded, and cannot be loaded here. */
export async function readPlaces(own: Command): Promise<Place[]> {
  const names = Object.keys(COMMANDS).filter((name) => name !== own.name());
  const definitions = await Promise.all(
    names.map(async (name) => {
      const main = await loadCommand(name);
      return main === undefined ? [] : [await definitionOf(main)];
    }),
  );
  const top: Place = {
    path: '',
    words: Object.entries(COMMANDS).map(([word, [, does]]) => ({ word, does })),
    flags: [
      { long: '--help', short: '-h', does: 'shows the commands', value: 'none' },
      { long: '--version', short: '-V', does: "shows this program's version", value: 'none' },
    ],
  };
  return [top, ...[...definitions.flat(), own].flatMap((command) => placesOf(command, command.name()))];
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
export function spellings({ long, short }: Flag): string[] {
  return short === undefined ? [long] : [long, short];
}
