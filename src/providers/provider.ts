import type { z } from 'zod';
import type { Device, Notification, Platform } from '../notification/notification.ts';
import type { Trouble } from '../notification/outcome.ts';
import type { Report } from '../environment/files.ts';
import type { Environment } from '../environment/values.ts';
import type { DeviceKind } from '../notification/devices/device-kind.ts';

/** One push service. Its methods never throw: every failure is a Reply. */
export interface Provider {
  readonly platform: Platform;
  /** Checks the size of the alert and encodes it. All slow work is done here, before the limiter is asked. */
  prepare(push: Push): Prepared;
  /**
   * Waits for a free stream to the request's server and valid credentials. The wait has no bound, but ends if no connection
   * can be made.
   */
  reserve(encoded: Pick<Encoded, 'origin'>): Reserved | Promise<Reserved>;
  /** Sends one request. It is repeated only if the provider says that the credentials have expired, and only once. */
  send(encoded: Encoded, options?: SendOptions): Promise<Reply>;
  /**
   * Connects and signs in ahead of the first send, and stays connected until `close`. Sends nothing. A provider that learns its
   * servers only from the devices connects with the first `reserve` or `send`.
   */
  connect(): Promise<void>;
  /** For each server that was tried and is still in use: whether it can be reached. Sends nothing. */
  reach(): readonly Reach[];
  /** Ends all sends that wait or are under way, with the code `cancelled` or `aborted`. */
  abort(): void;
  /** Waits for the sends under way; later sends are answered with the code `closed`. */
  close(): Promise<void>;
}

/** One alert for one device. */
export interface Push {
  readonly notification: Notification;
  readonly device: Device;
  /** A UUID, the same for every attempt at this device, so that a provider or an app can see a repetition. */
  readonly pushId: string;
  /** Whether to deliver without sound, vibration or banner. */
  readonly silent: boolean;
}

/** What a provider's answer means for the device. */
export type Meaning =
  /** The provider accepted the push. */
  | 'accepted'
  /** The token is no longer valid: it is reported to the producer, and never tried again. */
  | 'gone'
  /** The token was never valid for this app. */
  | 'bad-token'
  /** The provider refuses the payload. */
  | 'rejected'
  /** Not now; a later try may succeed. */
  | 'later';

/** The answer to one send to one device. */
export interface Reply {
  readonly meaning: Meaning;
  /** The provider's own code (`Unregistered`, `QUOTA_EXCEEDED`), or a code of replies.ts (`timeout`, `connection-refused`). */
  readonly code: string;
  /** Whether the recipient may have been alerted. The slot is given back only for `no`. */
  readonly alerted: 'yes' | 'no' | 'maybe';
  /** Do not try again sooner than this, in milliseconds: Retry-After, or the shortest wait for this kind of reply. */
  readonly retryAfterMs?: number;
  /** It is not known whether the provider processed the push (a timeout, a reset): at most two more attempts. */
  readonly ambiguous?: boolean;
  /** The request certainly did not reach the provider. It costs no attempt. */
  readonly unsent?: boolean;
  /** What the answer proves about the provider as a whole. Absent if the answer is about this device alone. */
  readonly trouble?: Trouble;
  /** What many answers like this one, for different recipients, would prove about the provider. */
  readonly suspect?: Trouble;
  /**
   * The app's settings at the provider are wrong for devices like this one, but right for others: the try is no attempt, and no
   * breaker opens.
   */
  readonly setUp?: boolean;
  /**
   * The server takes no more pushes from this sender for now. The notification is not the cause, so the try is no attempt. Only
   * many such answers open a breaker (`suspect`).
   */
  readonly isLimit?: boolean;
  /** When the token became invalid, in epoch milliseconds. Only APNs says this. */
  readonly goneSince?: number;
  /** More text for a person to read; tokens are redacted. */
  readonly detail?: string;
}

/** What a kind of answer means: a Reply without the texts of one particular answer. */
export type ReplyRow = Pick<
  Reply,
  'meaning' | 'alerted' | 'retryAfterMs' | 'ambiguous' | 'unsent' | 'trouble' | 'suspect' | 'setUp' | 'isLimit'
>;

/** What each answer of a provider means, by its code or the HTTP status. */
export type ReplyTable = Readonly<Record<string, ReplyRow>>;

/** A push as a request to its provider, ready to be sent. */
export interface Encoded {
  readonly push: Push;
  /** The server to which the request is sent, for a provider with several: `https://fcm.googleapis.com`. */
  readonly origin?: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | number>>;
  /** The body: JSON, or encrypted bytes. */
  readonly body: string | Buffer;
}

/** The push as a request, or the reply if it was refused before any request (a payload over its limit). */
export type Prepared =
  { readonly kind: 'ready'; readonly encoded: Encoded } | { readonly kind: 'refused'; readonly reply: Reply };

/** A free stream on a connection, with valid credentials: a send with a permit does not wait. */
export interface Permit {
  /** Gives the stream back. Does nothing if the permit was used. */
  release(): void;
}

/** A permit, or the reply that says why there is none; in that case nothing was sent. */
export type Reserved =
  { readonly kind: 'permit'; readonly permit: Permit } | { readonly kind: 'none'; readonly reply: Reply };

/** How a push is sent. */
export interface SendOptions {
  /** The permit that the send uses up. Without a permit the send waits for a stream. */
  readonly permit?: Permit | undefined;
  /** If no connection has taken the push by this instant (`performance.now()`), it is not sent at all. */
  readonly sendBy?: number | undefined;
  /** Called with the HTTP status of each answer. */
  readonly onStatus?: ((status: number) => void) | undefined;
}

/** Whether a server of a provider can be reached. */
export interface Reach {
  /** Host and port: `api.push.apple.com:443`. */
  readonly host: string;
  /** For web push, whose devices name their servers: this server, as the name of its circuit breaker contains it. */
  readonly server?: string;
  /** True for the server of a sign-in: without the sign-in nothing can be sent. */
  readonly isSignIn?: true;
  /** Why the latest try failed. Absent if the server was reached. */
  readonly failure?: ReachFailure;
}

/** No connection is open, and the latest try to make one failed. */
export interface ReachFailure {
  /** The error code of the system or of TLS: `ENOTFOUND`, `ECONNREFUSED`, `CERT_HAS_EXPIRED`; or `HTTP 503`. */
  readonly cause: string;
  /** The error's message, without anything that is private. */
  readonly detail?: string;
  /** How long ago the first of the failed tries began, in milliseconds. No try has succeeded since. */
  readonly forMs: number;
}

/** Everything that other folders know about a provider (docs/providers.md). `Options`: what `create` takes. */
export interface ProviderDescriptor<P extends string, Options> {
  /** The name in notifications, labels, metrics and Redis keys: lower case letters and digits. */
  readonly platform: P;
  /** The name as people write it. */
  readonly name: string;
  readonly device: DeviceKind<P>;
  readonly settings: ProviderSettings<Options>;
  /** Opens no connection yet. Throws an InputError if an option is not usable; the error shows no secret. */
  readonly create: (options: Options) => Provider;
  readonly answers: AnswerTables;
  /** A dry run for `doctor`. Absent if the provider has none. */
  readonly dryRun?: DryRun<P>;
  /** For a platform whose devices name their servers: some of these servers, for `doctor`. `https://web.push.apple.com` */
  readonly usualServers?: (options: Options) => readonly string[];
}

/** A request that alerts nobody, and whose answer shows whether the service takes the credentials. */
export interface DryRun<P extends string> {
  /** A device that no app can have. */
  readonly device: { readonly platform: P; readonly token: string };
  /** Turns the encoded push into the dry run. */
  readonly request: (encoded: Encoded) => Encoded;
  /** Codes of answers, beside the code of an accepted push, which show that the credentials are good. */
  readonly goodCodes: readonly string[];
}

/** A provider's part of a worker's environment. */
interface ProviderSettings<Options> {
  /** The variables, in the README's order, with the README's texts. */
  readonly variables: z.ZodObject;
  /** Variables whose value an error must not repeat. */
  readonly secrets: readonly string[];
  /** The variable of the quota that all workers share, and the README's text for it; src/config reads it. */
  readonly quota: {
    readonly variable: string;
    readonly meaning: string;
    /** True if a rule may be for a single server. Only for a platform whose devices name their servers. */
    readonly hasServers?: true;
  };
  /**
   * The names in APPS_FILE of variables that do not begin with the platform's name. The other names follow from the variable:
   * `APNS_KEY_FILE` is `keyFile`. The value of a field that ends in `File` is the path of a file, which is watched.
   */
  readonly appFields?: Readonly<Record<string, string>>;
  /**
   * The options for `create`; undefined if the provider is off. `given` contains the variables that are well-formed. Every
   * variable that is missing, contradicts another or cannot be read is reported; the provider is not created then. For an app
   * of APPS_FILE, `given` contains the app's fields under the names of the variables.
   */
  readonly read: (given: Environment, report: Report, source: 'environment' | 'apps-file') => Options | undefined;
}

/** What each answer means. docs/provider-faults.md shows the same, and the contract suite provokes each row of `words`. */
export interface AnswerTables {
  readonly accepted: Reply;
  /** What an answer means, by the provider's code. */
  readonly words: ReplyTable;
  /** What an answer means by its HTTP status, for codes that are not in `words`, and for answers without a code. */
  readonly statuses: ReplyTable;
  /** What an answer means if its status is in no table. */
  readonly unknown: ReplyRow;
  /** What a failed sign-in means, by the codes of this project. */
  readonly signIn: ReplyTable;
}
