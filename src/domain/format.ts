import { isObject } from './json.ts';

/**
 * For each kind of data in Redis: the newest format that this version reads. Data has its format in the field `format`, an
 * integer of 2 or more. Data without the field has format 1, so that older versions can read it too.
 *
 * A format is raised if an older version would misread the data. One release reads the new format, the next release writes it
 * (CONTRIBUTING.md, "Change what Redis holds"). The number for the limiter is in format.lua too.
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

/** Data in Redis that a newer version wrote, and that this version cannot read. */
export interface Newer {
  /** The kind of data: one of the names in `FORMATS`. */
  readonly what: Stored;
  /** The format of the data. */
  readonly format: number;
}

/** The data's format if this version cannot read it; otherwise undefined, also for a bad `format`, which the reader reports. */
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

/** A newer version of pushpacer wrote data that this version cannot read. Nothing was done. Use the newer version. */
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
