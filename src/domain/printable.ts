/** Control characters, lone surrogates, line separators, and marks that change the direction of the text. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Makes text of an unknown author safe for a terminal: an escape character becomes the text `\u{1b}`. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}
