import type { IncomingHttpHeaders } from 'node:http2';
import type { JournalEntry } from '../journal.ts';
import type { WebpushReason } from './reasons.ts';
import { ENDPOINT_PATH } from './subscription.ts';

/** The name of the subscription in a request's path; empty where there is none. */
export function subscriptionName(headers: IncomingHttpHeaders): string {
  return ENDPOINT_PATH.exec(headers[':path'] ?? '')?.[1] ?? '';
}

type Rule = readonly [WebpushReason, (headers: IncomingHttpHeaders) => boolean];

/** Checked before the credentials; the first broken rule decides the answer. */
const ROUTE_RULES: readonly Rule[] = [
  ['UnknownSubscription', (headers) => subscriptionName(headers) === ''],
  ['BadMethod', (headers) => headers[':method'] !== 'POST'],
];

/** Checked after the credentials: RFC 8030, sections 5.2 to 5.4, and RFC 8291, section 4. */
const HEADER_RULES: readonly Rule[] = [
  ['BadTtl', ({ ttl }) => !/^\d{1,10}$/.test(textOf(ttl) ?? '')],
  ['BadUrgency', ({ urgency }) => urgency !== undefined && !/^(very-low|low|normal|high)$/.test(textOf(urgency) ?? '')],
  ['BadWebPushTopic', ({ topic }) => topic !== undefined && !/^[A-Za-z0-9_-]{1,32}$/.test(textOf(topic) ?? '')],
  ['BadEncryption', (headers) => headers['content-encoding'] !== 'aes128gcm'],
];

export function routeFault(headers: IncomingHttpHeaders): WebpushReason | undefined {
  return ROUTE_RULES.find(([, isBroken]) => isBroken(headers))?.[0];
}

export function headerFault(headers: IncomingHttpHeaders): WebpushReason | undefined {
  return HEADER_RULES.find(([, isBroken]) => isBroken(headers))?.[0];
}

/** The journal's fields from the headers, valid or not. @param at epoch milliseconds, from which `ttl` counts */
export function readHeaders(
  headers: IncomingHttpHeaders,
  at: number,
): Pick<JournalEntry, 'token' | 'collapseId' | 'priority' | 'expiration'> {
  const seconds = Number(textOf(headers['ttl']) ?? NaN);
  return {
    token: subscriptionName(headers) === '' ? '' : `https://${headers[':authority'] ?? ''}${headers[':path'] ?? ''}`,
    collapseId: textOf(headers['topic']),
    priority: textOf(headers['urgency']),
    expiration: Number.isNaN(seconds) ? undefined : at / 1_000 + seconds,
  };
}

function textOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(', ') : header;
}
