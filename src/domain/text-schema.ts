import { z } from 'zod';

/** Text without control characters, line breaks or lone surrogates (halves of characters). */
const PRINTABLE = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]*$/u;
/** The same for JSON Schema. In ranges, since not every language's patterns know `\p{Cc}`. */
const PRINTABLE_IN_JSON_SCHEMA = '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]+$';

/** The id of a notification, or of a broadcast. */
export const ID = /^[A-Za-z0-9._~-]{1,128}$/;
export const ID_FORMAT = '1 to 128 of A-Z a-z 0-9 . _ ~ -';

/** 1 to `most` printable characters. */
export const printable = (most: number) =>
  z
    .string()
    .refine((text) => text !== '' && isAtMost(most, text) && PRINTABLE.test(text), {
      error: `1 to ${most} printable characters`,
    })
    .meta({ minLength: 1, maxLength: most, pattern: PRINTABLE_IN_JSON_SCHEMA });

/** Counts code points. There are never more of them than UTF-16 units (`length`), so a short text needs no count. */
const isAtMost = (most: number, text: string): boolean => text.length <= most || Array.from(text).length <= most;
