const MAX_LENGTH = 300;
/** Shorter values are left alone: they tell nothing, and taking them out would make a message unreadable. */
const MIN_SECRET_LENGTH = 4;
/** Long runs that look like a token, a key or a JWT, whoever they belong to. */
const TOKEN_LIKE = /[A-Za-z0-9_.~+/:=-]{60,}|[0-9a-fA-F]{32,}/g;

/**
 * Somebody's words about a notification (a client's, a server's, an unforeseen error's) without its tokens and without
 * anything that was written to the recipient. The notification may be malformed: whatever text lies in the private fields
 * is taken out.
 */
export function redact(text: string, notification: unknown): string {
  const secrets = PRIVATE_FIELDS.flatMap((field) => textsIn(fieldOf(notification, field)))
    .filter((secret) => secret.length >= MIN_SECRET_LENGTH)
    .sort((a, b) => b.length - a.length);
  const clean = secrets.reduce((words, secret) => words.replaceAll(secret, '[redacted]'), text);
  return clean.replace(TOKEN_LIKE, '[redacted]').slice(0, MAX_LENGTH);
}

const PRIVATE_FIELDS = ['devices', 'alert', 'data'];
/** Words of the schema that stand in private fields too. */
const PUBLIC_WORDS = new Set(['apns', 'fcm']);

function fieldOf(value: unknown, field: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[field] : undefined;
}

/** Every text in a value, however deep. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return PUBLIC_WORDS.has(value) ? [] : [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
