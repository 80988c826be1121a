import { isObject } from './json.ts';

/**
 * The formats of what Redis holds, and the newest of each that this version reads. What is stored says its format in a field
 * `format`: an integer of 2 or more. Without it the format is 1, which is never written, so that older versions read it too.
 *
 * A format is raised where an older version would misread what is stored, and in this order (CONTRIBUTING.md, "Change what Redis
 * holds"): one release reads the new format, the next one writes it. The number of the limiter's is in format.lua too.
 */
export const FORMATS = {
  /** The data of a job: a notification, or what is to be canceled. */
  'job data': 1,
  /** What a job remembers between two passes. */
  'job progress': 1,
  /** The data of a dead letter. */
  'dead letter': 1,
  /** What the limiter holds about one recipient: the field is in the hash of its settings. */
  'limiter state': 1,
} as const satisfies Readonly<Record<string, number>>;

type Stored = keyof typeof FORMATS;

/** Something stored that a newer version wrote, so that this one cannot read it. */
export interface Newer {
  /** What it is. */
  readonly what: Stored;
  /** Its format. */
  readonly format: number;
}

/** Undefined if this version can read the value, or if it has no usable format: then whoever reads it finds the fault. */
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

/** A newer version of pushpacer wrote what this one was to read or to change. Nothing was done. Use that version, or a later one. */
export class NewerFormatError extends Error {
  /** To recognise it without the class, such as across two copies of the package. */
  override readonly name = 'NewerFormatError';
  /** What is stored, and its format. */
  readonly newer: Newer;

  /** `newer`: what is stored, and its format. */
  constructor(newer: Newer) {
    super(`a newer version of pushpacer wrote this: ${newerText(newer)}; use the newer version`);
    this.newer = newer;
  }
}

/** The error with which a script refuses the limiter state of a newer version: `NEWERFORMAT 2`. */
const REFUSAL = /\bNEWERFORMAT (\d+)\b/;

/** The same as a NewerFormatError; undefined for every other error. */
export function newerFormatOf(error: unknown): NewerFormatError | undefined {
  const format = error instanceof Error ? REFUSAL.exec(error.message)?.[1] : undefined;
  return format === undefined ? undefined : new NewerFormatError({ what: 'limiter state', format: Number(format) });
}
