import { hash } from 'node:crypto';

/** The two sorted sets of one recipient; one hash tag, so that a script may touch both on a cluster. */
export interface RecipientKeys {
  /** Slots that were used, or will be within a moment. */
  readonly sent: string;
  /** Slots that lie ahead, or are overdue. */
  readonly reserved: string;
}

/** Visible ASCII but braces (they end a hash tag) and `#` (it opens the digest); longer ids would only cost memory. */
const READABLE_ID = /^[!-~]{1,128}$/;
const NEEDS_DIGEST = /[{}#]/;

/**
 * `('pushpacer', 'teacher-42')` → `pushpacer:limiter:{teacher-42}:sent` and `pushpacer:limiter:{teacher-42}:reserved`.
 * Braces of the prefix are left out: the hash tag has to be the recipient, or a cluster would keep all of them on one node.
 */
export function recipientKeys(prefix: string, recipientId: string): RecipientKeys {
  const stem = `${prefix.replaceAll(/[{}]/g, '')}:limiter:{${encodeRecipientId(recipientId)}}`;
  return { sent: `${stem}:sent`, reserved: `${stem}:reserved` };
}

/** `teacher-42` → itself; `{a}\r\n` → `#` and a SHA-256 of its UTF-16 code units, so that half a character counts too. */
function encodeRecipientId(recipientId: string): string {
  if (READABLE_ID.test(recipientId) && !NEEDS_DIGEST.test(recipientId)) return recipientId;
  return `#${hash('sha256', Buffer.from(recipientId, 'utf16le'), 'base64url')}`;
}

/**
 * `msg-8841` → an integer below 2^53 in decimal digits: the entry that stands for an id. Redis keeps integers in its
 * compact encoding, at a third of a UUID's memory. Two of 100,000 ids of one recipient share one with a chance of 1 in 1.8 million.
 */
export function memberOf(id: string): string {
  const digest = hash('sha1', Buffer.from(id, 'utf16le'), 'buffer');
  return String(digest.readUInt32BE(0) * 2 ** 21 + (digest.readUInt32BE(4) >>> 11));
}
