import type { z } from 'zod';
import type { Report } from '../environment/files.ts';
import type { Environment } from '../environment/values.ts';
import type { DeviceKind } from './device-kind.ts';
import type { Provider, Reply } from './provider.ts';
import type { ReplyRow, ReplyTable } from './replies.ts';

/** Everything that the rest has to know of a provider (docs/providers.md). `Options` is what it is created with. */
export interface ProviderDescriptor<P extends string, Options> {
  /** In notifications, labels, metrics and Redis keys: lower case letters and digits. */
  readonly platform: P;
  /** As people write it. */
  readonly name: string;
  readonly device: DeviceKind<P>;
  readonly settings: ProviderSettings<Options>;
  /** Opens no connection yet. Throws an InputError where an option does not fit; it tells no secret. */
  readonly create: (options: Options) => Provider;
  readonly answers: AnswerTables;
}

/** A provider's part of a worker's environment. */
export interface ProviderSettings<Options> {
  /** What each variable may hold, what it becomes, and what the README says of it, in the README's order. */
  readonly variables: z.ZodObject;
  /** Those whose value an error must not repeat. */
  readonly secrets: readonly string[];
  /** The variable of the quota that all workers share, and what the README says of it; config reads it. */
  readonly quota: { readonly variable: string; readonly meaning: string };
  /**
   * What `create` takes; undefined where the provider is off. `given` holds the variables that are well-formed. What is
   * missing, contradicts another or cannot be read is reported, every fault of it; nothing is created then.
   */
  readonly read: (given: Environment, report: Report) => Options | undefined;
}

/** What each answer means; docs/provider-faults.md shows the same, and the contract suite brings about each row of `words`. */
export interface AnswerTables {
  readonly accepted: Reply;
  /** By the provider's word. */
  readonly words: ReplyTable;
  /** By HTTP status, for words that are new and answers without one. */
  readonly statuses: ReplyTable;
  /** For a status that is in no table. */
  readonly unknown: ReplyRow;
  /** What it means where the sign-in fails, by our own words. */
  readonly signIn: ReplyTable;
}
