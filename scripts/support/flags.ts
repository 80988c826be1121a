import { Option, type Command } from 'commander';
import { formatFault, InputError } from '../../src/domain/faults.ts';
import type { FieldOf, Names } from '../../src/operations/fields.ts';
import { UsageError } from '../../src/terminal/command.ts';

// Makes the flags of a command from the fields of an operation.

const IN_A_FILE = ' as JSON, in place of the flags; - reads standard input';

/** @param isInstead whether another flag may be given in place of the arguments */
export function addFields(command: Command, fields: readonly FieldOf[], isInstead = false): Command {
  for (const field of fields) {
    const description = field.kind === 'file' ? `${field.description}${IN_A_FILE}` : field.description;
    if (field.kind === 'argument') {
      command.argument(field.isOptional || isInstead ? `[${field.name}]` : `<${field.name}>`, description);
      continue;
    }
    // None is mandatory for commander, which names the first one that lacks only: the check of the fields names all.
    const option = new Option(flagText(field), description);
    command.addOption(field.choices === undefined ? option : option.choices(field.choices));
  }
  return command;
}

/** `minGap` → `--min-gap`; for an argument, `TEXT`. */
export function flagOf({ name, kind }: Pick<FieldOf, 'name' | 'kind'>): string {
  if (kind === 'argument') return name.toUpperCase();
  return kind === 'file' ? '--file' : `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function flagText(field: FieldOf): string {
  return field.kind === 'flag' ? flagOf(field) : `${flagOf(field)} <${field.value}>`;
}

/** @param others what else may be given instead of the fields, such as `--clear` */
export function namesOf(fields: readonly FieldOf[], others: readonly string[] = []): Names {
  const known = new Map(fields.map((field) => [field.name, flagOf(field)]));
  return { word: 'flag', of: (name) => known.get(name) ?? name, others };
}

/** Runs `work`. If it throws an InputError, that becomes a UsageError, since the fields came from flags. */
export async function usage<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof InputError) throw new UsageError(error.faults.map(formatFault).join('\n'));
    throw error;
  }
}

/** The number in a flag's text; any other text stays as it is, for the check that follows. */
export function numberOr(text: string): number | string {
  return /^-?\d+$/.test(text) ? Number(text) : text;
}
