import type { JsonObject, Platform } from '../src/notification/notification.ts';
import type { ScriptedAnswer } from './answers.ts';
import type { SandboxJournal } from './journal.ts';
import type { Latency } from './loopback/timing.ts';
import type { SandboxSubscription } from './webpush/subscription.ts';

/** How a sandbox is started. Every option may be left out. */
export interface SandboxOptions {
  /** Where each provider listens, and APNs' management of channels. 0, the default, takes any free port. */
  readonly ports?: Readonly<Partial<Record<Platform | 'channels', number | undefined>>> | undefined;
  /** What requests are answered, in order: `setAnswers` changes it. Default: every valid request is accepted. */
  readonly answers?: readonly ScriptedAnswer[] | undefined;
  /**
   * How long answers take. Default: as at the real providers, a median of 40 ms and a 99th percentile of 250 ms. With
   * `NO_LATENCY` answers leave at once, handshakes have no delay, and idle connections stay open.
   */
  readonly latency?: Latency | undefined;
  /** Decides what latencies and shares draw: the same seed, the same numbers. Default: 1. */
  readonly seed?: number | undefined;
  /** How many of the latest journal entries are kept; `waitFor` cannot wait for more. Default: all. */
  readonly keep?: number | undefined;
  /** A folder for the key files, for the next sandbox too. Default: a temporary one, which `close` removes. */
  readonly dir?: string | undefined;
  /** The address to listen on. Default: 127.0.0.1. */
  readonly host?: string | undefined;
  /** The host name that workers use and the certificates have, such as a compose service's. Default: the address. */
  readonly name?: string | undefined;
}

/** One of the sandbox's providers. */
export interface SandboxServer {
  /** `https://127.0.0.1:41873` */
  readonly url: string;
  /** Closes every connection and refuses new ones, until `up`. */
  down(): Promise<void>;
  /** Listens again, on the same port. */
  up(): Promise<void>;
}

/** The sandbox's APNs. */
export interface SandboxApns extends SandboxServer {
  /** Where channels are made, listed and deleted, for `pushpacer channel`: `https://127.0.0.1:41874`. */
  readonly channelsUrl: string;
  /**
   * A pretended iPhone whose Live Activity listens to a channel of the sandbox's app.
   *
   * @throws RangeError if there is no such channel.
   */
  subscribe(channelId: string): SandboxPhone;
}

/** A pretended iPhone with a Live Activity. */
export interface SandboxPhone {
  /** The states that it has shown, the newest last. A state that is older than the one it shows is not shown. */
  readonly shown: readonly ShownState[];
  /** Offline, it gets nothing. Online again, it gets the push that the channel has kept, if the channel keeps one. */
  setOnline(isOnline: boolean): void;
}

/** A state of a Live Activity as a phone shows it. */
export interface ShownState {
  /** After `end` the phone shows nothing new. */
  readonly event: 'update' | 'end';
  /** The instant of the state, in seconds since 1970. */
  readonly timestamp: number;
  /** What the app shows. */
  readonly contentState: JsonObject;
  /** Whether it came with an alert. */
  readonly isAlert: boolean;
}

/** The sandbox's push service for browsers. */
export interface SandboxWebpush extends SandboxServer {
  /**
   * The subscription of a pretended browser, whose pushes the sandbox decrypts: a device is
   * `{ platform: 'webpush', ...sandbox.webpush.subscription('ana') }`. The same name has the same keys.
   *
   * @param name 1 to 256 of `A-Z a-z 0-9 _ -`
   */
  subscription(name: string): SandboxSubscription;
  /**
   * At most `max` pushes of a website (its VAPID key) in any window of `perMs` milliseconds, the rest is answered with 429 and
   * `Retry-After`: what Chrome's push service does with a website that people find disruptive. Undefined ends it.
   */
  limitSite(rule: { readonly max: number; readonly perMs: number } | undefined): void;
}

/**
 * Apple's and Google's push services, and one for browsers, on this machine, for tests: over TLS, with their checks and their
 * error answers. Nothing leaves the machine.
 */
export interface Sandbox extends AsyncDisposable {
  /** APNs. */
  readonly apns: SandboxApns;
  /** FCM. */
  readonly fcm: SandboxServer;
  /** Web push. */
  readonly webpush: SandboxWebpush;
  /** Every request that they got. */
  readonly journal: SandboxJournal;
  /** The certificate of the authority that signed the servers' certificates: the path of a PEM file. */
  readonly caFile: string;
  /**
   * The environment variables that point a worker at this sandbox: `APNS_ENDPOINT`, `FCM_ENDPOINT`, `WEBPUSH_ORIGINS`, keys
   * and certificates; and `APNS_CHANNELS_ENDPOINT` for `pushpacer channel`.
   */
  env(): Record<string, string>;
  /**
   * Replaces the script: what later requests are answered. The first entry that fits a request, and is not used up, decides;
   * where none fits, the request is accepted. `[]` ends the script. On a fault the old script stays.
   *
   * @throws InputError that names every fault by its path: `answers[0].status`.
   */
  setAnswers(answers: readonly ScriptedAnswer[]): void;
  /** What is left of the script: entries that are used up are gone, and `times` is what is still to come. */
  answers(): readonly ScriptedAnswer[];
  /** Stops all servers at once and removes a temporary folder. `await using` calls it by itself. */
  close(): Promise<void>;
}
