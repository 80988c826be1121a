import { pushId } from '../src/notification/device.ts';
import { printable } from '../src/domain/faults.ts';
import type { Platform } from '../src/notification/notification.ts';

/** One request as a provider saw it. It names no recipient: a request does not say who that is. */
export interface JournalEntry {
  /** The provider that was asked. */
  readonly platform: Platform;
  /** The device: its token or installation id, of web push the endpoint. Empty if there was none. APNs tokens are in lower case. */
  readonly token: string;
  /** FCM: the token of the Live Activity, beside that of the device. */
  readonly liveActivityToken?: string | undefined;
  /** APNs: the channel to which it was sent; `token` is the same in lower case. Absent for a device. */
  readonly channel?: string | undefined;
  /** When the request's headers arrived: epoch milliseconds with a fraction, on a clock that is never set. */
  readonly at: number;
  /** Whether the device was alerted; the answer may have said otherwise. */
  readonly accepted: boolean;
  /** The HTTP status that was answered; absent where no answer was given. */
  readonly status?: number | undefined;
  /** The provider's word for a refusal, where its answer had one; `hang` or `reset` if there was no answer. */
  readonly reason?: string | undefined;
  /** APNs: the `apns-id` that was sent or made; of a push to a channel the `apns-request-id`. */
  readonly apnsId?: string | undefined;
  /** FCM: the message's name; answered where the message was accepted. */
  readonly messageName?: string | undefined;
  /** FCM: `android.notification.tag`; web push: `tag` of the message. Alerts with the same one replace each other on the device. */
  readonly tag?: string | undefined;
  /** What the producer gave as `collapseId`; on APNs the `apns-id` where it gave none. Web push: its hash, the `topic`. */
  readonly collapseId?: string | undefined;
  /** As the client wrote it: `10` or `5` on APNs, `high` or `normal` on FCM (none with `android_v2`), `high`, `normal` or `low` for web push. */
  readonly priority?: string | undefined;
  /** Epoch seconds after which the provider drops the alert; 0 for one try only. The ttl of FCM and web push is counted from `at`. */
  readonly expiration?: number | undefined;
  /** APNs: the `apns-push-type`. */
  readonly pushType?: string | undefined;
  /** APNs: the `apns-topic`, which names the app; of a push to a channel the bundle id in the path. */
  readonly topic?: string | undefined;
  /** APNs: the key that signed the request's provider token, where that was valid. */
  readonly keyId?: string | undefined;
  /** APNs: the team of that key. */
  readonly teamId?: string | undefined;
  /** FCM: the project that was asked. */
  readonly projectId?: string | undefined;
  /** The alert's title. */
  readonly title?: string | undefined;
  /** The alert's text. */
  readonly body?: string | undefined;
  /** What the app gets beside the alert. */
  readonly data: Readonly<Record<string, string>>;
  /**
   * What an Apple device would ignore, because Apple does not know the key or its value has another type than documented:
   * `aps.relevance-score: expected a number from 0 to 1`. APNs and FCM accept it all the same. Web push: why Safari does not take
   * the message for a declarative one, although it is marked so. Absent if there is nothing.
   */
  readonly ignored?: readonly string[] | undefined;
  /**
   * Web push: who shows it in a browser that knows declarative push messages, as Safari does. `browser`: it is one, and needs no
   * service worker. `service-worker`: it is none, or `ignored` says why it is not taken for one.
   */
  readonly shownBy?: 'browser' | 'service-worker' | undefined;
  /** APNs' whole payload, FCM's whole message, web push's decrypted message; undefined where it could not be read. */
  readonly payload?: unknown;
}

const MAX_TEXT = 60;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * `fcm  dGVz… refused 404 UNREGISTERED "Room 12" push id 5f1c7a0e`: enough to follow, without the whole token and the alert's text.
 * A request does not have the notification's id. The push id comes from it, so that retries of one notification at one device have the
 * same: the beginning of APNs' `apns-id` or FCM's `tag`.
 */
function entryText(entry: JournalEntry): string {
  const { platform, token, title, apnsId, tag, collapseId } = entry;
  const pushId = [apnsId, tag].find((id) => id !== undefined && UUID.test(id));
  const parts = [
    platform.padEnd(4),
    tokenStart(token),
    outcomeText(entry),
    ...(title === undefined ? [] : [quoted(title)]),
    ...(pushId === undefined ? [] : [`push id ${pushId.slice(0, 8).toLowerCase()}`]),
    ...(collapseId === undefined || collapseId === pushId ? [] : [`collapse id ${quoted(collapseId)}`]),
  ];
  return parts.join(' ');
}

/** The text behind the time of day on this machine: `14:02:11.482 fcm  dGVz… accepted "Room 12" push id 5f1c7a0e`. */
export function entryLine(entry: JournalEntry): string {
  const at = new Date(entry.at);
  const [hours, minutes, seconds] = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => pad(part, 2));
  return `${hours}:${minutes}:${seconds}.${pad(at.getMilliseconds(), 3)} ${entryText(entry)}`;
}

function pad(value: number, digits: number): string {
  return String(value).padStart(digits, '0');
}

/** The beginning of a token, never all of it: `dGVz…`. All endpoints begin alike, so of one that of its last part. */
export function tokenStart(token: string): string {
  if (token === '') return '(no token)';
  const own = token.startsWith('https://') ? token.slice(token.lastIndexOf('/') + 1) : token;
  return `${printable(own.slice(0, Math.min(4, own.length / 2)))}…`;
}

/** `accepted`, `refused 503 ServiceUnavailable`, `no answer (reset)`, `accepted, but answered 503 UNAVAILABLE`. */
function outcomeText({ accepted, status, reason }: JournalEntry): string {
  if (accepted && status !== undefined && status < 300) return 'accepted';
  const words = [status, reason].filter((word) => word !== undefined).join(' ');
  if (status === undefined) return `${accepted ? 'accepted, but ' : ''}no answer (${reason ?? ''})`;
  return accepted ? `accepted, but answered ${words}` : `refused ${words}`;
}

function quoted(text: string): string {
  const short = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text;
  return `"${printable(short)}"`;
}

/** What to wait for in a journal. */
export interface WaitOptions {
  /** Which entries count. Default: those of alerts that were accepted. */
  readonly where?: ((entry: JournalEntry) => boolean) | undefined;
  /** How long to wait, in milliseconds. Default: 10,000. */
  readonly timeoutMs?: number | undefined;
}

/** What the providers received, for reading. */
export interface SandboxJournal {
  /** Every request for an alert, the refused ones too, in the order of their answers. */
  readonly all: readonly JournalEntry[];
  /** Every alert that a device got, in the order of the answers. */
  readonly accepted: readonly JournalEntry[];
  /**
   * The requests for one notification, by its id. An alert to FCM that has a collapse id is not found: such a request has
   * nothing that comes from the notification's id. Look for its token or its collapse id in `all`.
   */
  of(notificationId: string): readonly JournalEntry[];
  /**
   * Resolves with the entries that count as soon as there are `count` of them or more, counted from the start or the last
   * `clear`. Rejects with an Error that says what came instead, if they have not come within the timeout.
   */
  waitFor(count: number, options?: WaitOptions): Promise<readonly JournalEntry[]>;
  /** Calls the listener for every later entry; the returned function removes it. */
  on(listener: (entry: JournalEntry) => void): () => void;
  /** Forgets every entry. */
  clear(): void;
}

export interface JournalOptions {
  /** How many entries to keep, the latest; all of them where left out. */
  readonly keep?: number | undefined;
}

const WAIT_MS = 10_000;

/** Everything that the loopback providers received, in the order of their answers. */
export class Journal implements SandboxJournal {
  readonly #keep: number;
  readonly #listeners = new Set<(entry: JournalEntry) => void>();
  #all: JournalEntry[] = [];
  #accepted: JournalEntry[] = [];
  #dropped = 0;

  constructor({ keep = Infinity }: JournalOptions = {}) {
    this.#keep = keep;
  }

  /** Every request for an alert, refused ones too; without FCM's dry runs. */
  get all(): readonly JournalEntry[] {
    return this.#all;
  }

  /** Every alert that a device got. */
  get accepted(): readonly JournalEntry[] {
    return this.#accepted;
  }

  /** How many older entries were left out of `all`, because only the latest are kept. */
  get dropped(): number {
    return this.#dropped;
  }

  record(entry: JournalEntry): void {
    this.#dropped += this.#append(this.#all, entry);
    if (entry.accepted) this.#append(this.#accepted, entry);
    for (const listener of this.#listeners) listener(entry);
  }

  of(notificationId: string): readonly JournalEntry[] {
    return entriesOf(notificationId, this.#all);
  }

  async waitFor(count: number, { where = isAccepted, timeoutMs = WAIT_MS }: WaitOptions = {}) {
    if (count > this.#keep) throw new RangeError(`count: expected at most ${this.#keep}, found ${count}`);
    const { promise, resolve, reject } = Promise.withResolvers<readonly JournalEntry[]>();
    const look = (): void => {
      const found = this.#all.filter(where);
      if (found.length >= count) resolve(found);
    };
    const stop = this.on(look);
    const timer = setTimeout(() => reject(new Error(shortfall(count, where, timeoutMs, this.#all))), timeoutMs);
    look();
    return promise.finally(() => {
      clearTimeout(timer);
      stop();
    });
  }

  on(listener: (entry: JournalEntry) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  clear(): void {
    this.#all = [];
    this.#accepted = [];
    this.#dropped = 0;
  }

  /** How many entries it took away. */
  #append(entries: JournalEntry[], entry: JournalEntry): number {
    entries.push(entry);
    if (entries.length <= this.#keep) return 0;
    entries.shift();
    return 1;
  }
}

const isAccepted = ({ accepted }: JournalEntry): boolean => accepted;

/** The requests for a notification: each of its devices has a push id that comes from the notification's id. */
function entriesOf(notificationId: string, entries: readonly JournalEntry[]): JournalEntry[] {
  const pushIds = new Set(Array.from({ length: MAX_DEVICES }, (_, index) => pushId(notificationId, index)));
  return entries.filter(({ apnsId, tag }) =>
    [apnsId?.toLowerCase(), tag].some((id) => id !== undefined && pushIds.has(id)),
  );
}

const MAX_DEVICES = 20;
const SHOWN = 5;

/** `expected 2 within 10000 ms, found 1; the latest requests: …` */
function shortfall(
  count: number,
  where: (entry: JournalEntry) => boolean,
  timeoutMs: number,
  entries: readonly JournalEntry[],
): string {
  const what = where === isAccepted ? 'accepted alerts' : 'such requests';
  const found = `expected ${count} ${what} within ${timeoutMs} ms, found ${entries.filter(where).length}`;
  if (entries.length === 0) return `${found}: no request came at all`;
  return [`${found}; the latest of ${entries.length} requests:`, ...entries.slice(-SHOWN).map(entryText)].join('\n  ');
}

/** Epoch milliseconds with a fraction, counted from this process's start, so that setting the system's clock moves no entry. */
export function arrivalInstant(): number {
  return performance.timeOrigin + performance.now();
}

/** What a device shows of a request: an alert; one without sound, vibration and banner; nothing loud, because it has no alert. */
export type Shown = 'alert' | 'silent' | 'nothing';

/** By what arrived at the provider. */
export function shownOf(entry: JournalEntry): Shown {
  return SHOWN_OF[entry.platform](entry);
}

const SHOWN_OF: Readonly<Record<Platform, (entry: JournalEntry) => Shown>> = {
  apns({ pushType, payload }) {
    if (pushType === 'background') return 'nothing';
    if (pushType === 'liveactivity') return field(payload, 'aps', 'alert') === undefined ? 'nothing' : 'alert';
    return field(payload, 'aps', 'interruption-level') === 'passive' ? 'silent' : 'alert';
  },
  fcm({ payload, liveActivityToken }) {
    if (liveActivityToken !== undefined)
      return field(payload, 'apns', 'payload', 'aps', 'alert') === undefined ? 'nothing' : 'alert';
    const ofAndroid =
      field(payload, 'android', 'notification') ?? field(payload, 'android_v2', 'remote_notification', 'notification');
    if (field(payload, 'notification') === undefined && ofAndroid === undefined) return 'nothing';
    return field(ofAndroid, 'notification_priority') === 'PRIORITY_LOW' ? 'silent' : 'alert';
  },
  webpush: ({ payload }) => (field(payload, 'silent') === true ? 'silent' : 'alert'), // a browser shows every push
};

/** What is at the end of a path; undefined if it leads nowhere. */
function field(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce(
    (inner, name) =>
      typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>)[name] : undefined,
    value,
  );
}
