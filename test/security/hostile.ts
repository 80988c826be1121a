import fc from 'fast-check';

/** Pieces with which a text might break out of where it stands. */
const PIECES = [
  ...['{', '}', '{}', '}{', '{a}', '#', ':', '::', '/', '..', '../', '*', '?', '[', ']', ' ', '"', "'", '\\', '$', '|'],
  ...['\r\n', '\n', '\r', '\0', '\u001b[2J', '\u009b2J', '\u007f', '\t', '\u2028', '\u2029', '\u0085', '\ufeff'],
  ...[
    '%0d%0a',
    '%00',
    '%7b',
    '\\u0000',
    '\\n',
    ':path: /',
    'apns-priority: 10',
    'sent',
    'reserved',
    'settings',
    ':lock',
  ],
  ...['\ud800', '\udfff', '👩‍🏫', 'é', 'e\u0301', '教師', '\u202e', '\u2066', '\u200f', 'İ', 'ß'],
  ...['__proto__', 'constructor', 'toString', 'aps', 'null', 'undefined', '-1', '1e400', '0', 'a', 'teacher-42'],
];

const piece = fc.constantFrom(...PIECES);
const anyText = fc.string({ unit: 'binary', maxLength: 40 });

/** Any text but the empty one, made of what hurts, with a few of 10 kB among them. */
export const hostileText: fc.Arbitrary<string> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.array(fc.oneof(piece, anyText), { minLength: 1, maxLength: 5 }).map((parts) => parts.join('') || '{'),
  },
  { weight: 3, arbitrary: piece },
  { weight: 1, arbitrary: piece.map((text) => text.repeat(Math.ceil(10_240 / text.length))) },
);
