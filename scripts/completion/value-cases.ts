import { shellQuoted } from '../support/text.ts';
import { spellings, type Flag, type Place } from './places.ts';

/** How a shell writes a pattern of `case`: `'a' | 'b')`, `('a'|'b')`. */
export interface CaseStyle {
  readonly open: string;
  readonly or: string;
}

/** A branch of `case` for each flag of the place that takes a value: `answerOf` says what to offer, undefined for no value. */
export function valueCases(
  { path, flags }: Place,
  answerOf: (flag: Flag) => string | undefined,
  { open, or }: CaseStyle,
): string[] {
  return flags.flatMap((flag) => {
    const answer = answerOf(flag);
    if (answer === undefined) return [];
    const patterns = spellings(flag).map((one) => shellQuoted(`${path} ${one}`));
    return [`    ${open}${patterns.join(or)}) ${answer}; return ;;`];
  });
}
