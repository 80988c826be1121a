import { randomBytes } from 'node:crypto';
import { isObject, type JsonObject } from '../../src/domain/json.ts';
import { ignoredByLiveActivity } from '../aps.ts';
import type { SandboxPhone, ShownState } from '../interface.ts';

/**
 * APNs' broadcast channels, and the phones that subscribed to them
 * (developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns, and
 * …/sending-broadcast-push-notification-requests-to-apns).
 */

/** Whether a channel keeps the newest push for phones that are offline: 0 for none, 1 for the newest. */
export type StoragePolicy = 0 | 1;

/** How many channels an app may have. */
export const MOST_CHANNELS = 10_000;
/** How long the newest push is kept at most. */
const KEPT_MS = 8 * 3_600_000;

interface Channel {
  readonly policy: StoragePolicy;
  readonly phones: Phone[];
  /** What phones get that come online. */
  kept?: { readonly aps: JsonObject; readonly until: number };
}

/** `deleted`: there was such a channel. `unknown`: there never was. */
export type Missing = 'deleted' | 'unknown';

/** The channels of one app, by its bundle id. */
export class Channels {
  readonly #channels = new Map<string, Channel>();
  readonly #deleted = new Set<string>();
  readonly #now: () => number;
  readonly #most: number;

  /** @param most how many channels the app may have */
  constructor(now: () => number, most: number) {
    this.#now = now;
    this.#most = most;
  }

  get ids(): string[] {
    return [...this.#channels.keys()];
  }

  /**
   * The new channel's id: 24 characters of base64, as APNs draws them, or the given one. Undefined: the app has as many as it
   * may have.
   */
  create(policy: StoragePolicy, id = randomBytes(16).toString('base64')): string | undefined {
    if (this.#channels.size >= this.#most) return undefined;
    this.#channels.set(id, { policy, phones: [] });
    return id;
  }

  policyOf(id: string): StoragePolicy | Missing {
    return this.#channels.get(id)?.policy ?? (this.#deleted.has(id) ? 'deleted' : 'unknown');
  }

  /** False: there is no such channel. The phones keep what they show. */
  delete(id: string): boolean {
    if (!this.#channels.delete(id)) return false;
    this.#deleted.add(id);
    return true;
  }

  /** @throws RangeError if there is no such channel: then the Live Activity of a real phone would not start. */
  subscribe(id: string): SandboxPhone {
    const channel = this.#channels.get(id);
    if (channel === undefined) throw new RangeError(`expected a channel that there is, found ${JSON.stringify(id)}`);
    const phone = new Phone(() => {
      if (channel.kept !== undefined && channel.kept.until > this.#now()) phone.take(channel.kept.aps);
    });
    channel.phones.push(phone);
    return phone;
  }

  /** Hands a push to the phones that are online, and keeps it for the others if it may be kept. */
  publish(id: string, payload: unknown, expirationS: number): void {
    const channel = this.#channels.get(id);
    const aps = isObject(payload) && isObject(payload['aps']) ? (payload['aps'] as JsonObject) : undefined;
    if (channel === undefined || aps === undefined) return;
    const until = Math.min(expirationS * 1_000, this.#now() + KEPT_MS);
    if (channel.policy === 1 && expirationS > 0) channel.kept = { aps, until };
    for (const phone of channel.phones) phone.take(aps);
  }
}

/** A pretended iPhone with a Live Activity that listens to a channel. */
class Phone implements SandboxPhone {
  readonly #shown: ShownState[] = [];
  readonly #fetch: () => void;
  #isOnline = true;

  /** @param fetch takes what APNs has kept */
  constructor(fetch: () => void) {
    this.#fetch = fetch;
  }

  get shown(): readonly ShownState[] {
    return this.#shown;
  }

  setOnline(isOnline: boolean): void {
    this.#isOnline = isOnline;
    if (isOnline) this.#fetch();
  }

  /**
   * Shows the state, unless the phone is offline, has ended the activity, or shows a newer state; Apple's `timestamp` decides
   * which is newer. A push without what its event needs is ignored, and so is one that was shown already.
   */
  take(aps: JsonObject): void {
    const latest = this.#shown.at(-1);
    const { event, timestamp, 'content-state': contentState, alert } = aps;
    if (!this.#isOnline || latest?.event === 'end' || ignoredByLiveActivity({ aps }).length > 0) return;
    if ((event !== 'update' && event !== 'end') || typeof timestamp !== 'number') return;
    if (latest !== undefined && timestamp < latest.timestamp) return;
    const state: ShownState = {
      event,
      timestamp,
      contentState: contentState as JsonObject,
      isAlert: alert !== undefined,
    };
    if (JSON.stringify(state) !== JSON.stringify(latest)) this.#shown.push(state);
  }
}
