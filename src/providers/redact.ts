import type { Push } from './provider.ts';

const MAX_LENGTH = 300;
/** Shorter values are left alone: they tell nothing, and taking them out would make a message unreadable. */
const MIN_SECRET_LENGTH = 4;
/** Long runs that look like a token, a key or a JWT, whoever they belong to. */
const TOKEN_LIKE = /[A-Za-z0-9_.~+/:=-]{60,}|[0-9a-fA-F]{32,}/g;

/** A client's or server's words without the device token and without anything that was written to the recipient. */
export function redact(text: string, { notification, device }: Pick<Push, 'notification' | 'device'>): string {
  const { alert, data = {} } = notification;
  const secrets = [device.token, alert.title, alert.body, ...Object.values(data)]
    .filter((secret) => secret !== undefined && secret.length >= MIN_SECRET_LENGTH)
    .sort((a = '', b = '') => b.length - a.length);
  const clean = secrets.reduce<string>((words, secret = '') => words.replaceAll(secret, '[redacted]'), text);
  return clean.replace(TOKEN_LIKE, '[redacted]').slice(0, MAX_LENGTH);
}
