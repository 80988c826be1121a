import type { z } from 'zod';
import { ignoredByDevice, ignoredByLiveActivity } from '../aps.ts';
import type { JournalEntry } from '../journal.ts';
import type { FieldViolation, Refuse } from '../loopback/answers.ts';
import { isRecord } from '../loopback/exchange.ts';
import { malformed } from './errors.ts';
import { ttlSeconds } from './rules.ts';
import { requestSchema, type FcmRequest } from './schema.ts';

/** Maps whose keys the sender chooses. Every other key is a field of the API, in camel case or snake case. */
const OWN_KEYS = new Set(['data', 'headers', 'payload']);

export type ReadFcmRequest =
  { readonly ok: true; readonly request: FcmRequest } | { readonly ok: false; readonly refusal: Refuse };

/** The body of `messages:send`, or the refusal of a body with other fields than the API has. */
export function readFcmRequest(json: Readonly<Record<string, unknown>> | undefined): ReadFcmRequest {
  if (!json) return { ok: false, refusal: malformed([]) };
  const input = inCamelCase(json);
  const result = requestSchema.safeParse(input);
  if (result.success) return { ok: true, request: result.data };
  return { ok: false, refusal: malformed(result.error.issues.flatMap((issue) => violationsOf(issue, input))) };
}

/** `collapse_key` → `collapseKey`, at every depth where keys are the API's own. */
function inCamelCase(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inCamelCase);
  if (!isRecord(value)) return value;
  const entries = Object.entries(value).map(([key, inner]) => {
    const name = key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    return [name, OWN_KEYS.has(name) ? inner : inCamelCase(inner)];
  });
  return Object.fromEntries(entries);
}

/** In the words of Google's front end. A value is not repeated, because it may be a text of the alert. */
function violationsOf(issue: z.core.$ZodIssue, input: unknown): FieldViolation[] {
  const field = fieldName(issue.path, input);
  if (issue.code === 'unrecognized_keys') {
    const where = field === '' ? '' : ` at '${field}'`;
    return issue.keys.map((key) => ({
      field,
      description: `Invalid JSON payload received. Unknown name "${key}"${where}: Cannot find field.`,
    }));
  }
  return [{ field, description: `Invalid value at '${field}'` }];
}

/** `message.data[1].value`: protocol buffers count the entries of a map. */
function fieldName(path: readonly PropertyKey[], input: unknown): string {
  const key = path.at(-1);
  if (path.at(-2) !== 'data' || key === undefined) return path.join('.');
  const map = path.slice(0, -1).reduce<unknown>((value, name) => (value as Record<PropertyKey, unknown>)[name], input);
  return `${path.slice(0, -1).join('.')}[${Object.keys(map as object).indexOf(String(key))}].value`;
}

type Told = Pick<
  JournalEntry,
  'token' | 'tag' | 'collapseId' | 'priority' | 'expiration' | 'title' | 'body' | 'data' | 'ignored'
>;

/** What the journal tells of a body that is no message. */
export const UNREADABLE: Told = { token: '', data: {} };

/** What the journal tells of a message that arrived at `at`, epoch milliseconds. */
export function readMessage({ message }: FcmRequest, at: number): Told {
  const { android = {}, notification = {} } = message;
  const ttl = ttlSeconds(android.ttl);
  const { payload, liveActivityToken } = message.apns ?? {};
  const ignoredBy = liveActivityToken === undefined ? ignoredByDevice : ignoredByLiveActivity;
  const ignored = payload === undefined ? [] : ignoredBy(payload);
  return {
    token: message.token ?? '',
    tag: android.notification?.tag,
    collapseId: android.collapseKey,
    priority: android.priority?.toLowerCase(),
    expiration: typeof ttl === 'number' ? at / 1_000 + ttl : undefined,
    title: android.notification?.title ?? notification.title,
    body: android.notification?.body ?? notification.body,
    data: { ...message.data, ...android.data },
    ...(ignored.length > 0 && { ignored }),
  };
}
