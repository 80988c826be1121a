import fc from 'fast-check';

/** Odd and long texts. */

const HALVES = ['\ud83d', '\udc69', 'a\ud800b'];
const PIECES = [
  ...[
    'Room 12',
    'Field trip forms are due',
    '👩‍🏫',
    '👨‍👩‍👧‍👦 🇨🇭',
    'é',
    'e\u0301',
    '教師',
    'שלום עולם',
    '\u202eالفصل\u202c',
    'ß',
  ],
  ...[
    '"',
    '\\',
    '\\u0000',
    '\\ud800',
    '%00',
    '</script>',
    '{{',
    "'",
    'null',
    '__proto__',
    'a b',
    '~',
    '\ufeff',
    '\u200d',
  ],
];
const CONTROLS = ['\0', '\n', '\r\n', '\t', '\u0007', '\u001b[2J', '\u007f', '\u0085', '\u2028', '\u2029'];

const joined = (unit: fc.Arbitrary<string>) =>
  fc.array(unit, { minLength: 1, maxLength: 4 }).map((all) => all.join(''));
export const cut = (text: string, most: number): string => Array.from(text).slice(0, most).join('');

/** Any text: short ones mostly, some with control characters, a few long ones, and very few with halves of characters. */
export const anyText = fc.oneof(
  { weight: 120, arbitrary: joined(fc.constantFrom(...PIECES)) },
  { weight: 40, arbitrary: joined(fc.constantFrom(...PIECES, ...CONTROLS)) },
  { weight: 30, arbitrary: fc.string({ unit: 'grapheme', maxLength: 30 }) },

  { weight: 10, arbitrary: fc.tuple(fc.constantFrom(...PIECES), fc.integer({ min: 200, max: 1_500 })).map(filled) },
  { weight: 1, arbitrary: fc.constantFrom(...HALVES) },
);

/** So many characters. */
function filled([piece, size]: [string, number]): string {
  return piece
    .repeat(Math.ceil(size / piece.length))
    .slice(0, size)
    .toWellFormed();
}

/** A text without control characters, as names have to be. */
export const printable = (most: number) =>
  fc
    .oneof(
      { weight: 6, arbitrary: joined(fc.constantFrom(...PIECES)) },
      { weight: 2, arbitrary: fc.stringMatching(/^[!-~]{1,64}$/) },
      { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...PIECES), fc.constant(most)).map(filled) },
    )
    .map((text) => cut(text, most));
