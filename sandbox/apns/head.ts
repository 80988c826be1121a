import type { KeyObject } from 'node:crypto';
import { decodeProtectedHeader, jwtVerify } from 'jose';
import type { JournalEntry } from '../journal.ts';
import type { ApnsReason } from './reasons.ts';

/** A request's head. Header names are in lower case; a name has several values if the client sent it several times. */
export interface ApnsHead {
  readonly method: string;
  readonly path: string;
  readonly headers: ReadonlyMap<string, readonly string[]>;
}

/** Reads node:http2's `rawHeaders`, because only they keep headers that a client sent twice. */
export function readHead(rawHeaders: readonly string[]): ApnsHead {
  const headers = new Map<string, string[]>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? '';
    headers.set(name, [...(headers.get(name) ?? []), rawHeaders[index + 1] ?? '']);
  }
  return { method: headers.get(':method')?.[0] ?? '', path: headers.get(':path')?.[0] ?? '', headers };
}

export function header(head: ApnsHead, name: string): string | undefined {
  return head.headers.get(name)?.[0];
}

/** The token in the path, in lower case; empty where there is none. */
function deviceToken({ path }: ApnsHead): string {
  return DEVICE_PATH.exec(path)?.[1]?.toLowerCase() ?? '';
}

/** Whether the request is for a channel. */
export function isBroadcast({ path }: ApnsHead): boolean {
  return path.startsWith('/4/');
}

/** The header with the id of the request. */
export function idHeader(head: ApnsHead): 'apns-id' | 'apns-request-id' {
  return isBroadcast(head) ? 'apns-request-id' : 'apns-id';
}

/** The id where one was sent that is a UUID. */
export function messageId(head: ApnsHead): string | undefined {
  const id = header(head, idHeader(head));
  return id !== undefined && UUID.test(id) ? id : undefined;
}

/** The journal's fields from the headers, valid or not. */
export function readHeaders(
  head: ApnsHead,
): Pick<JournalEntry, 'token' | 'channel' | 'topic' | 'collapseId' | 'priority' | 'expiration' | 'pushType'> {
  const channel = isBroadcast(head) ? (header(head, 'apns-channel-id') ?? '') : undefined;
  const collapseId = header(head, 'apns-collapse-id');
  const expiration = header(head, 'apns-expiration');
  return {
    token: channel?.toLowerCase() ?? deviceToken(head),
    ...(channel !== undefined && { channel }),
    topic: isBroadcast(head) ? bundleId(head) : header(head, 'apns-topic'),
    collapseId: collapseId && Buffer.from(collapseId, 'latin1').toString('utf8'),
    priority: header(head, 'apns-priority'),
    expiration: expiration === undefined ? undefined : Number(expiration),
    pushType: header(head, 'apns-push-type'),
  };
}

export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const BROADCAST_PATH = /^\/4\/broadcasts\/apps\/([^/?]+)$/;
const DEVICE_PATH = /^\/3\/device(?:\/([^/?]*))?$/;
const PUSH_TYPE =
  /^(alert|background|complication|controls|fileprovider|liveactivity|location|mdm|pushtotalk|voip|widgets)$/;
/** The topic of an app's Live Activities is its bundle id with this behind it. */
const LIVE_ACTIVITY_TOPIC = /\.push-type\.liveactivity$/;
/** The largest collapse id, in bytes. */
const MAX_COLLAPSE_ID_BYTES = 64;

type Rule = readonly [ApnsReason, (head: ApnsHead) => boolean];
type HeaderRule = readonly [ApnsReason, (head: ApnsHead, topic: string | undefined) => boolean];

/** Checked before the credentials; the first broken rule decides the answer. */
const ROUTE_RULES: readonly Rule[] = [
  ['BadPath', ({ path }) => !DEVICE_PATH.test(path)],
  ['MethodNotAllowed', ({ method }) => method !== 'POST'],
  ['MissingDeviceToken', (head) => deviceToken(head) === ''],
  ['DuplicateHeaders', ({ headers }) => [...headers.values()].some(({ length }) => length > 1)],
];

/** The app of a broadcast; undefined for another path. */
export function bundleId({ path }: ApnsHead): string | undefined {
  return BROADCAST_PATH.exec(path)?.[1];
}

/** Checked before the credentials, for a push to a channel. */
const BROADCAST_ROUTE_RULES: readonly Rule[] = [
  ['BadPath', (head) => bundleId(head) === undefined],
  ...ROUTE_RULES.filter(([reason]) => reason === 'MethodNotAllowed' || reason === 'DuplicateHeaders'),
];

/**
 * Checked after the credentials, for a push to a channel
 * (developer.apple.com/documentation/usernotifications/sending-broadcast-push-notification-requests-to-apns). The expiration and
 * the priority are required.
 */
const BROADCAST_RULES: readonly HeaderRule[] = [
  ['TopicDisallowed', (head) => LIVE_ACTIVITY_TOPIC.test(bundleId(head) ?? '')],
  ['TopicMismatch', (head, topic) => bundleId(head) !== topic],
  ['MissingChannelId', (head) => !header(head, 'apns-channel-id')],
  ['MissingPushType', (head) => !header(head, 'apns-push-type')],
  ['InvalidPushType', (head) => header(head, 'apns-push-type')?.toLowerCase() !== 'liveactivity'],
  ['BadMessageId', (head) => !matches(UUID, header(head, 'apns-request-id'))],
  ['BadExpirationDate', (head) => !/^\d{1,15}$/.test(header(head, 'apns-expiration') ?? '')],
  ['BadPriority', (head) => !/^(10|5|1)$/.test(header(head, 'apns-priority') ?? '')],
];

/** Checked after the credentials. */
const HEADER_RULES: readonly HeaderRule[] = [
  // Nothing but zeros is a token that no device has: `pushpacer doctor` sends to it.
  ['BadDeviceToken', (head) => !/^(?!0+$)([0-9a-f]{2}){1,256}$/.test(deviceToken(head))],
  ['MissingTopic', (head) => !header(head, 'apns-topic')],
  ['BadTopic', (head) => !matches(/^[A-Za-z0-9.-]+$/, header(head, 'apns-topic'))],
  ['TopicDisallowed', (head, topic) => !`${header(head, 'apns-topic') ?? ''}.`.startsWith(`${topic ?? ''}.`)],
  ['InvalidPushType', (head) => !PUSH_TYPE.test(header(head, 'apns-push-type') ?? '')],
  // The topic and the push type must fit together.
  [
    'BadTopic',
    (head) =>
      LIVE_ACTIVITY_TOPIC.test(header(head, 'apns-topic') ?? '') !==
      (header(head, 'apns-push-type') === 'liveactivity'),
  ],
  ['BadMessageId', (head) => !matches(UUID, header(head, 'apns-id'))],
  ['BadExpirationDate', (head) => !matches(/^\d{1,15}$/, header(head, 'apns-expiration'))],
  ['BadPriority', (head) => !matches(/^(10|5|1)$/, header(head, 'apns-priority'))],
  // APNs' documentation forbids priority 10 for a background notification.
  ['BadPriority', (head) => header(head, 'apns-push-type') === 'background' && header(head, 'apns-priority') === '10'],
  // Node gives a header's value with one character for each byte, so `length` is the number of bytes.
  ['BadCollapseId', (head) => (header(head, 'apns-collapse-id')?.length ?? 0) > MAX_COLLAPSE_ID_BYTES],
];

export function routeFault(head: ApnsHead): ApnsReason | undefined {
  const rules = isBroadcast(head) ? BROADCAST_ROUTE_RULES : ROUTE_RULES;
  return rules.find(([, isBroken]) => isBroken(head))?.[0];
}

/** What is wrong with the headers, for an app whose topic is `topic`; its parts (`.voip`, `.watchkitapp`) have topics below it. */
export function headerFault(head: ApnsHead, topic: string | undefined): ApnsReason | undefined {
  const rules = isBroadcast(head) ? BROADCAST_RULES : HEADER_RULES;
  return rules.find(([, isBroken]) => isBroken(head, topic))?.[0];
}

/** An absent header matches: it is optional. */
function matches(pattern: RegExp, value: string | undefined): boolean {
  return value === undefined || pattern.test(value);
}

/** A key whose tokens are accepted. */
export interface ApnsSigner {
  readonly publicKey: KeyObject;
  readonly keyId: string;
  readonly teamId: string;
}

export type TokenVerdict =
  | { readonly ok: true; readonly jwt: string; readonly keyId: string }
  | { readonly ok: false; readonly reason: ApnsReason };

/** APNs refuses a token from this age on. */
const MAX_AGE_MS = 3_600_000;
/** How far the clock of a token's maker may be ahead of this machine's. */
const MAX_SKEW_MS = 60_000;
/** How many checked tokens to remember; a provider needs one at a time. */
const MAX_REMEMBERED = 1_000;

/** A token whose signature, kid and iss were found right. */
interface CheckedToken {
  readonly keyId: string;
  readonly issuedAt: number;
  isExpired: boolean;
}

/** Checks provider tokens: ES256 JWTs with `kid` in the header and the claims `iss` and `iat`. */
export class TokenJudge {
  /** By key id. */
  readonly #signers = new Map<string, ApnsSigner>();
  readonly #revoked = new Set<string>();
  readonly #now: () => number;
  /** Remembers the checks, because verifying a signature costs more than the rest of a request. */
  readonly #checked = new Map<string, Promise<CheckedToken | undefined>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Tokens of this key are accepted from now on, beside those of the keys before. */
  add(signer: ApnsSigner): void {
    this.#signers.set(signer.keyId, signer);
  }

  /** From now on the key is revoked, or good again; without an id, all keys. */
  setRevoked(isRevoked: boolean, keyId?: string): void {
    for (const id of keyId === undefined ? this.#signers.keys() : [keyId]) {
      if (isRevoked) this.#revoked.add(id);
      else this.#revoked.delete(id);
    }
  }

  /** Every token that was seen so far counts as older than an hour. */
  async expireSeen(): Promise<void> {
    for (const token of await Promise.all(this.#checked.values())) if (token) token.isExpired = true;
  }

  async judge(authorization: string | undefined): Promise<TokenVerdict> {
    const [scheme, jwt] = (authorization ?? '').split(/ +/);
    if (!scheme || !jwt) return { ok: false, reason: 'MissingProviderToken' };
    if (scheme.toLowerCase() !== 'bearer') return { ok: false, reason: 'InvalidProviderToken' };
    const token = await this.#check(jwt);
    if (!token || this.#revoked.has(token.keyId)) return { ok: false, reason: 'InvalidProviderToken' };
    if (token.issuedAt > this.#now() + MAX_SKEW_MS) return { ok: false, reason: 'InvalidProviderToken' };
    const isExpired = token.isExpired || this.#now() - token.issuedAt >= MAX_AGE_MS;
    return isExpired ? { ok: false, reason: 'ExpiredProviderToken' } : { ok: true, jwt, keyId: token.keyId };
  }

  #check(jwt: string): Promise<CheckedToken | undefined> {
    const known = this.#checked.get(jwt);
    if (known) return known;
    const [oldest] = this.#checked.keys();
    if (oldest !== undefined && this.#checked.size >= MAX_REMEMBERED) this.#checked.delete(oldest);
    const checking = this.#verify(jwt);
    this.#checked.set(jwt, checking);
    return checking;
  }

  async #verify(jwt: string): Promise<CheckedToken | undefined> {
    try {
      const signer = this.#signers.get(decodeProtectedHeader(jwt).kid ?? '');
      if (signer === undefined) return undefined;
      const { publicKey, keyId, teamId } = signer;
      const { payload } = await jwtVerify(jwt, publicKey, { algorithms: ['ES256'], issuer: teamId });
      if (payload.iat === undefined) return undefined;
      return { keyId, issuedAt: payload.iat * 1_000, isExpired: false };
    } catch {
      return undefined;
    }
  }
}
