// What is posted, and its signature, as https://www.standardwebhooks.com says.
import { createHash, createHmac } from 'node:crypto';

export interface Webhook {
  /** The same for every copy of one outcome, so that the receiver can drop the second one. */
  readonly id: string;
  /** JSON: `{ type: 'notification.delivered', timestamp, data }`. */
  readonly body: string;
}

const NUMBERS = new Set(['generation', 'enqueuedAt', 'sentAt', 'waitMs']);

/** @param entryId the stream's, which begins with the time in epoch milliseconds */
export function webhookOf(entryId: string, fields: Readonly<Record<string, string>>): Webhook {
  const { id = '', generation = '', outcome = '', devices = '{}', ...others } = fields;
  const data = { id, outcome, generation, ...others };
  const entries = Object.entries(data).map(([name, text]): [string, string | number] => [
    name,
    NUMBERS.has(name) ? Number(text) : text,
  ]);
  const body = {
    type: `notification.${outcome}`,
    timestamp: new Date(Number.parseInt(entryId, 10)).toISOString(),
    data: { ...Object.fromEntries(entries), devices: JSON.parse(devices) as unknown },
  };
  const hash = createHash('sha256').update(JSON.stringify([id, generation, outcome]));
  return { id: `msg_${hash.digest('base64url').slice(0, 27)}`, body: JSON.stringify(body) };
}

/** The headers of one try. Receivers refuse an old timestamp, so each try has its own. */
export function headersOf({ id, body }: Webhook, key: string, now: Date): Record<string, string> {
  const timestamp = Math.floor(now.getTime() / 1_000);
  const signature = createHmac('sha256', Buffer.from(key, 'base64'))
    .update(`${id}.${timestamp}.${body}`)
    .digest('base64');
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  };
}

/** `whsec_…` → its base64; undefined unless it holds 24 to 64 bytes. */
export function secretOf(secret: string): string | undefined {
  const [, key = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? [];
  const { length } = Buffer.from(key, 'base64');
  return length >= 24 && length <= 64 ? key : undefined;
}
