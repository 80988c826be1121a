import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { defineScript, readScript, type Call, type ScriptRedis } from '../../redis/scripts.ts';
import type { Released } from '../limiter.ts';
import type { AdmitReply, InspectReply, Numeric, SettingsReply } from './wire.ts';

/** The keys of one scope of a recipient; each is a sorted set. */
export interface ScopeKeys {
  /** Sent slots: an id was admitted, and has sent or is about to send. */
  readonly sent: string;
  /** Reserved slots in line, ahead of now or overdue. */
  readonly reserved: string;
}

/** The keys of a category. */
export interface CategoryKeys extends ScopeKeys {
  /** Slots that wait for the category's own limits: reserved in the category, and not yet in the recipient's overall limits. */
  readonly heldBack: string;
}

/** The keys of one recipient. They share a hash tag, so that a script may use them together on a cluster. */
export interface RecipientKeys extends ScopeKeys {
  /** The policy, the block and the quiet hours that an operator has set. */
  readonly settings: string;
  /** A hash: what waits under one key (a collapse id, a digest), and what ends without being sent. */
  readonly waiting: string;
}

/** Ids that are put into keys as they are: visible ASCII without braces (they end a hash tag) and `#` (it begins a digest). */
const READABLE = /^[!-"$-z|~]{1,128}$/;

/**
 * `('pushpacer', 'teacher-42')` → `pushpacer:{teacher-42}` for the sent slots, `…:reserved` and `…:settings`. Most recipients
 * have only the first key, so its name is short: Redis stores names of up to 30 characters in 32 bytes. Braces in the prefix
 * are removed: as the hash tag, the prefix would keep all recipients on one node of a cluster.
 */
export function recipientKeys(prefix: string, recipientId: string): RecipientKeys {
  const stem = `${prefix.replaceAll(/[{}]/g, '')}:{${readable(recipientId)}}`;
  return { settings: `${stem}:settings`, sent: stem, reserved: `${stem}:reserved`, waiting: `${stem}:waiting` };
}

/** `(…, 'messages')` → `pushpacer:{teacher-42}:sent:messages`, and `reserved:messages` and `held:messages` likewise. */
export function categoryKeys({ sent: stem }: RecipientKeys, category: string): CategoryKeys {
  const name = readable(category);
  return { sent: `${stem}:sent:${name}`, reserved: `${stem}:reserved:${name}`, heldBack: `${stem}:held:${name}` };
}

/** The settings, and all sets of the overall scope and of every category. */
export function allKeys(
  prefix: string,
  recipientId: string,
  categories: readonly (readonly [name: string, policy: unknown])[],
): string[] {
  const keys = recipientKeys(prefix, recipientId);
  const ofCategories = categories.flatMap(([category]) => {
    const { sent, reserved, heldBack } = categoryKeys(keys, category);
    return [sent, reserved, heldBack];
  });
  return [keys.settings, keys.sent, keys.reserved, ...ofCategories];
}

/** A recipient or category as a part of a key: `teacher-42` → itself; `{a}\r\n` → `#` and its digest. */
function readable(text: string): string {
  return READABLE.test(text) ? text : `#${digestOf(text)}`;
}

/** Hashes UTF-16 code units, since in UTF-8 all lone surrogates would become the same character. */
function digestOf(text: string): string {
  return hash('sha256', Buffer.from(text, 'utf16le'), 'base64url');
}

/** Stored entries that are not ids begin with a space: digests of ids, and the marks of admit.lua. */
const NAMELESS = ' ';

/**
 * An id as it is stored: `msg-8841#r1/0` → itself; an id of more than 160 characters, or with others than visible ASCII → a
 * space and its digest.
 */
export function entryOf(id: string): string {
  return /^[!-~]{1,160}$/.test(id) ? id : NAMELESS + digestOf(id);
}

/** The id of a stored entry; undefined if the entry is only a digest. */
export function idOf(entry: string): string | undefined {
  return entry.startsWith(NAMELESS) ? undefined : entry;
}

/** The notification of an ask, as the scripts name it: the id of its job. `msg-8841#r1/0` → `msg-8841#r1`. */
export function jobIdIn(askId: string): string {
  return /^(.*)\/\d+$/s.exec(askId)?.[1] ?? askId;
}

/** The fields of one notification in the hash of waiting.lua. Each name ends with the notification's `who`. */
export function waitingFields(jobId: string, enqueuedAt: number): Readonly<Record<'end' | 'holder' | 'part', string>> {
  const who = `${/^(.+?)#[rd]\d/s.exec(jobId)?.[1] ?? jobId}@${enqueuedAt}`;
  return { end: `end:${who}`, holder: `holder:${who}`, part: `part:${who}` };
}

/** The field in the hash of waiting.lua for the order note of a reservation. `entry`: the id as it is stored. */
export function orderField(entry: string): string {
  return `order:${entry}`;
}

/**
 * An id as it is stored among the sent slots: a signed 32-bit hash of `entryOf`'s text, in decimal digits. Redis stores such an
 * integer in 6 bytes, a UUID in 39. Two ids have the same hash with a chance of 1 in 4 billion. Ids of visible ASCII that have
 * the same length and differ only within four neighbouring characters, as counters do, never have the same hash.
 */
export function memberOf(entry: string): string {
  return String(crc32(entry) | 0);
}

/** The part of ioredis that the limiter uses; `Redis` and `Cluster` both have it. */
export interface LimiterRedis extends ScriptRedis {
  /** Removes keys. */
  unlink(...keys: string[]): Promise<number>;
  /** Removes fields of a hash. */
  hdel(key: string, ...fields: string[]): Promise<number>;
  /** Reads these fields of a hash. */
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>;
  /** Reads some fields and values of a hash. */
  hscan(key: string, cursor: string, count: 'COUNT', most: number): Promise<[cursor: string, fields: string[]]>;
}

/** The scripts as commands of the client. Some are defined once for each number of scopes, because the number of keys is fixed. */
export interface Scripts {
  /** For one scope, and for two. */
  readonly admit: readonly [Call<AdmitReply>, Call<AdmitReply>];
  /** For one to four sets, each with the hash of waiting.lua. */
  readonly release: readonly [Call<ReleaseReply>, ...Call<ReleaseReply>[]];
  readonly move: Call<readonly Numeric[]>;
  readonly settings: Call<SettingsReply>;
}

/** Defines the scripts on the client. `scopes`: one, plus one for each category. */
export function defineScripts(redis: LimiterRedis, scopes: number): Scripts {
  return {
    admit: [define(redis, 'admit', 4), define(redis, 'admit', 7)],
    release: [define(redis, 'release', 2), ...[3, 4, 5].map((keys) => define<ReleaseReply>(redis, 'release', keys))],
    move: define(redis, 'move', 3 * scopes + 1),
    settings: define(redis, 'settings', 1),
  };
}

/** The script that reads everything stored about a recipient, for this many scopes. */
export function defineInspect(redis: ScriptRedis, scopes: number): Call<InspectReply> {
  return define(redis, 'inspect', 3 * scopes);
}

function define<R>(redis: ScriptRedis, script: string, numberOfKeys: number): Call<R> {
  const lua = readScript(`${script}.lua`, import.meta.url);
  return defineScript(redis, `pushpacer:${script}:${numberOfKeys}`, lua, numberOfKeys);
}

export type ReleaseReply = readonly [
  ...released: [hadSlot: Numeric, leader: string, slot: Numeric, count: Numeric, own: Numeric],
  othersWait: Numeric,
];

export function readReleased([hadSlot, leader, slot, count, own, othersWait]: ReleaseReply): Released {
  const at = Number(slot);
  const id = idOf(leader);
  return {
    hadSlot: Number(hadSlot) === 1,
    ...(Number(othersWait) === 1 && { othersWait: true }),
    ...(at > 0 && { leader: { at, ...(id !== undefined && { id }) } }),
    ...(Number(count) > 0 && { digest: { count: Number(count), own: Number(own) === 1 } }),
  };
}
