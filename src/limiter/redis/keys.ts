import { hash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** The sorted sets of one scope of a recipient. */
export interface ScopeKeys {
  /** Slots that were used, or will be within a moment. */
  readonly sent: string;
  /** Slots that lie ahead, or are overdue, of those that stand in line. */
  readonly reserved: string;
}

/** Those of a category. */
export interface CategoryKeys extends ScopeKeys {
  /** Slots of those that the category holds back: they stand in no line yet. */
  readonly held: string;
}

/** All keys of one recipient; one hash tag, so that a script may touch them together on a cluster. */
export interface RecipientKeys extends ScopeKeys {
  /** What an operator has set: a policy, a block. */
  readonly settings: string;
}

/** Visible ASCII but braces (they end a hash tag) and `#` (it opens the digest); longer ids would only cost memory. */
const READABLE = /^[!-"$-z|~]{1,128}$/;

/**
 * `('pushpacer', 'teacher-42')` → `pushpacer:{teacher-42}` for what was sent, `…:reserved` and `…:settings`: most recipients
 * have the first alone, and Redis keeps names of up to 30 characters in 32 bytes. Braces of the prefix
 * are left out: the hash tag has to be the recipient, or a cluster would keep all of them on one node.
 */
export function recipientKeys(prefix: string, recipientId: string): RecipientKeys {
  const stem = `${prefix.replaceAll(/[{}]/g, '')}:{${readable(recipientId)}}`;
  return { settings: `${stem}:settings`, sent: stem, reserved: `${stem}:reserved` };
}

/** `(…, 'messages')` → `pushpacer:{teacher-42}:sent:messages`, and `reserved:messages` and `held:messages` likewise. */
export function categoryKeys({ sent: stem }: RecipientKeys, category: string): CategoryKeys {
  const name = readable(category);
  return { sent: `${stem}:sent:${name}`, reserved: `${stem}:reserved:${name}`, held: `${stem}:held:${name}` };
}

/** `teacher-42` → itself; `{a}\r\n` → `#` and its digest. So recipients and categories stand in keys. */
function readable(text: string): string {
  return READABLE.test(text) ? text : `#${digestOf(text)}`;
}

/** Of its UTF-16 code units, so that half a character counts too. */
function digestOf(text: string): string {
  return hash('sha256', Buffer.from(text, 'utf16le'), 'base64url');
}

/** What no id that stands for itself begins with: digests of ids, and the marks of admit.lua. */
const NAMELESS = ' ';

/** `msg-8841#r1/0` → itself; ids that are longer than 160 characters or not of visible ASCII → a space and their digest. */
export function entryOf(id: string): string {
  return /^[!-~]{1,160}$/.test(id) ? id : NAMELESS + digestOf(id);
}

/** The id that an entry is, unless it only stands for one. */
export function idOf(entry: string): string | undefined {
  return entry.startsWith(NAMELESS) ? undefined : entry;
}

/**
 * `msg-8841`, as `entryOf` writes it → a signed 32-bit integer in decimal digits, which stands for it among the sent. Redis keeps such
 * integers in 6 bytes, a UUID in 39. Two ids of one recipient within its windows share one with a chance of 1 in 4 billion, and
 * never where they are of one length and differ in no more than four neighbouring characters (of visible ASCII), such as a counter's.
 */
export function memberOf(entry: string): string {
  return String(crc32(entry) | 0);
}
