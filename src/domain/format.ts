import { isObject } from './json.ts';

/**
 * The formats of what Redis holds, and the newest one of each that this version reads. What is stored has its format in a field
 * `format`: an integer of 2 or more. Without the field the format is 1; it is never written, so that older versions read it
 * too.
 *
 * A format is raised if an older version would misread what is stored, and in this order (CONTRIBUTING.md, "Change what Redis
 * holds"): one release reads the new format, the next one writes it. The number for the limiter is in format.lua too.
 */
export const FORMATS = {
  /** The data of a job: a notification, or what is to be canceled. */
  'job data': 1,
  /** What a job remembers between two passes. */
  'job progress': 1,
  /** The data of a dead letter. */
  'dead letter': 1,
  /** What the limiter stores about one recipient: the field is in the hash of the recipient's settings. */
  'limiter state': 1,
} as const satisfies Readonly<Record<string, number>>;

type Stored = keyof typeof FORMATS;

/** Something stored that a newer version wrote, so that this version cannot read it. */
export interface Newer {
  /** What it is: one of the names in `FORMATS`. */
  readonly what: Stored;
  /** Its format. */
  readonly format: number;
}

/**
 * Undefined if this version can read the value, or if the value has no usable format: then the code that reads it finds the
 * fault.
 */
export function newerThanKnown(what: Stored, value: unknown): Newer | undefined {
  if (!isObject(value)) return undefined;
  const { format } = value;
  const isNewer = typeof format === 'number' && Number.isSafeInteger(format) && format > FORMATS[what];
  return isNewer ? { what, format } : undefined;
}

/** `job data in format 2; this version reads format 1` */
export function newerText({ what, format }: Newer): string {
  const known: number = FORMATS[what];
  return `${what} in format ${format}; this version reads ${known === 1 ? 'format 1' : `formats 1 to ${known}`}`;
}

/**
 * A newer version of pushpacer wrote what this version was to read or change. Nothing was done. Use that version, or a later
 * one.
 */
export class NewerFormatError extends Error {
  /** To recognise it without the class, such as across two copies of the package. */
  override readonly name = 'NewerFormatError';
  /** What is stored, and in which format. */
  readonly newer: Newer;

  /** `newer`: what is stored, and in which format. */
  constructor(newer: Newer) {
    super(`a newer version of pushpacer wrote this: ${newerText(newer)}; use the newer version`);
    this.newer = newer;
  }
}

/** The error with which a script refuses the limiter state of a newer version: `NEWERFORMAT 2`. */
const REFUSAL = /\bNEWERFORMAT (\d+)\b/;

/** The NewerFormatError for the error of a script; undefined for every other error. */
export function newerFormatOf(error: unknown): NewerFormatError | undefined {
  const format = error instanceof Error ? REFUSAL.exec(error.message)?.[1] : undefined;
  return format === undefined ? undefined : new NewerFormatError({ what: 'limiter state', format: Number(format) });
}
