import type { z } from 'zod';
import type { Report } from '../environment/files.ts';
import type { Environment } from '../environment/values.ts';
import type { DeviceKind } from './device-kind.ts';
import type { Provider, Reply } from './provider.ts';
import type { ReplyRow, ReplyTable } from './replies.ts';

/** Everything that other folders have to know of a provider (docs/providers.md). `Options`: what `create` takes. */
export interface ProviderDescriptor<P extends string, Options> {
  /** In notifications, labels, metrics and Redis keys: lower case letters and digits. */
  readonly platform: P;
  /** As people write it. */
  readonly name: string;
  readonly device: DeviceKind<P>;
  readonly settings: ProviderSettings<Options>;
  /** Opens no connection yet. Throws an InputError if an option is not usable; the error shows no secret. */
  readonly create: (options: Options) => Provider;
  readonly answers: AnswerTables;
}

/** A provider's part of a worker's environment. */
export interface ProviderSettings<Options> {
  /** The variables in the README's order: the values that are allowed, what they become, and the README's text. */
  readonly variables: z.ZodObject;
  /** Variables whose value an error must not repeat. */
  readonly secrets: readonly string[];
  /** The variable of the quota that all workers share, and the README's text for it; src/config reads it. */
  readonly quota: { readonly variable: string; readonly meaning: string };
  /**
   * The names in APPS_FILE of variables that do not begin with the platform's name. The others follow from the variable:
   * `APNS_KEY_FILE` is `keyFile`. The value of a field that ends in `File` is the path of a file, which is watched.
   */
  readonly appFields?: Readonly<Record<string, string>>;
  /**
   * The options for `create`; undefined if the provider is off. `given` holds the variables that are well-formed. Every
   * variable that is missing, contradicts another or cannot be read is reported; the provider is not created then. For an app
   * of APPS_FILE, `given` holds its fields under the names of the variables.
   */
  readonly read: (given: Environment, report: Report, source: 'environment' | 'apps-file') => Options | undefined;
}

/** What each answer means. docs/provider-faults.md shows the same, and the contract suite provokes each row of `words`. */
export interface AnswerTables {
  readonly accepted: Reply;
  /** By the provider's code. */
  readonly words: ReplyTable;
  /** By HTTP status, for codes that are not in `words`, and for answers without a code. */
  readonly statuses: ReplyTable;
  /** For a status that is in no table. */
  readonly unknown: ReplyRow;
  /** What a failed sign-in means, by the codes of this project. */
  readonly signIn: ReplyTable;
}
