import type { Refuse } from '../loopback/answers.ts';

/** A provider's own words for its refusals, as a script names them. */
export interface ProviderWords {
  /** As people write the provider. */
  readonly name: string;
  /** Every word with its status. No two providers have the same one. */
  readonly reasons: Readonly<Record<string, number>>;
  /** The word for a status that stands alone. */
  readonly usual: Readonly<Record<number, string>>;
  /** The refusal with one of the words. `field`: what FCM calls invalid. `nowMs`: since when APNs calls a token gone. */
  readonly refusal: (reason: string, field: string | undefined, nowMs: number) => Refuse;
}
