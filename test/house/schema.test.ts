import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { parseNotification } from '../../src/domain/notification.ts';

const GOOD = {
  id: 'msg-8841',
  recipientId: 'teacher-42',
  devices: [
    { platform: 'apns', token: 'a1b2c3' },
    { platform: 'fcm', token: 'f:registration-token' },
  ],
  alert: { title: 'Room 12', body: 'Field trip forms are due' },
  data: { threadId: '77' },
  sound: 'default',
  badge: 3,
  category: 'messages',
  priority: 'high',
  collapseId: 'thread-77',
  expiresAt: '2026-11-21T18:00:00Z',
  onThrottle: 'delay',
};

const VALID: readonly [what: string, change: object][] = [
  ['as documented', {}],
  ['the least', { data: undefined, sound: undefined, badge: undefined, category: undefined, priority: undefined }],
  ['epoch milliseconds', { expiresAt: 1_795_284_000_000 }],
  ['an offset', { expiresAt: '2026-11-21T19:00:00+01:00' }],
  ['a title alone', { alert: { title: 'Room 12' } }],
  ['any script', { recipientId: 'Übung 学校 🏫' }],
  ['a device of an app', { devices: [{ platform: 'fcm', token: 'a', app: 'teacher-2.b_c' }] }],
  ['256 characters', { recipientId: 'r'.repeat(256) }],
];

const INVALID: readonly [what: string, change: object][] = [
  ['no id', { id: undefined }],
  ['an id with a colon', { id: 'a:b' }],
  ['257 characters', { recipientId: 'r'.repeat(257) }],
  ['a line break', { recipientId: 'a\nb' }],
  ['no device', { devices: [] }],
  ['21 devices', { devices: Array.from({ length: 21 }, () => GOOD.devices[0]) }],
  ['another platform', { devices: [{ platform: 'sms', token: 'a1' }] }],
  ['an APNs token that is no hex', { devices: [{ platform: 'apns', token: 'xyz' }] }],
  ['a token with a space', { devices: [{ platform: 'fcm', token: 'a b' }] }],
  ['an app with a space', { devices: [{ platform: 'apns', token: 'a1', app: 'a b' }] }],
  ['an app without a name', { devices: [{ platform: 'apns', token: 'a1', app: '' }] }],
  ['a device with more', { devices: [{ platform: 'fcm', token: 'a', name: 'phone' }] }],
  ['an empty alert', { alert: {} }],
  ['an alert of empty texts', { alert: { title: '', body: '' } }],
  ['a number in data', { data: { threadId: 77 } }],
  ['a reserved key', { data: { 'google.id': '1' } }],
  ['a key that begins with google', { data: { googleId: '1' } }],
  ['a key that begins with gcm', { data: { gcm: '1' } }],
  ['the key aps', { data: { aps: '1' } }],
  ['half a badge', { badge: 0.5 }],
  ['a negative badge', { badge: -1 }],
  ['an empty sound', { sound: '' }],
  ['a category with a space', { category: 'a b' }],
  ['a priority of its own', { priority: 'urgent' }],
  ['a collapse id that is too long', { collapseId: 'c'.repeat(65) }],
  ['a date without a time', { expiresAt: '2026-11-21' }],
  ['the 31st of November', { expiresAt: '2026-11-31T18:00:00Z' }],
  ['an onThrottle of its own', { onThrottle: 'wait' }],
  ['one field more', { subject: 'hello' }],
];

/** As JSON carries it: a field that is undefined is not there. */
const documentOf = (change: object): unknown => JSON.parse(JSON.stringify({ ...GOOD, ...change }));

async function published() {
  return z.fromJSONSchema(
    JSON.parse(await readFile('docs/notification.schema.json', 'utf8')) as z.core.JSONSchema.JSONSchema,
  );
}

test.each(VALID)('both let pass: %s', async (_, change) => {
  const document = documentOf(change);
  expect(parseNotification(document)).toMatchObject({ ok: true });
  expect((await published()).safeParse(document)).toMatchObject({ success: true });
});

test.each(INVALID)('both refuse: %s', async (_, change) => {
  const document = documentOf(change);
  expect(parseNotification(document)).toMatchObject({ ok: false });
  expect((await published()).safeParse(document)).toMatchObject({ success: false });
});

test('every field is described, and its docstring says the same', async () => {
  const document = JSON.parse(await readFile('docs/notification.schema.json', 'utf8')) as unknown;
  const docstrings = (await readFile('src/domain/notification-types.ts', 'utf8')).replaceAll(
    /\s*\n\s*(\*(?!\/))?\s*/g,
    ' ',
  );
  const fields = fieldsOf(document);
  expect(fields.map(([field]) => field)).toEqual(
    expect.arrayContaining([...Object.keys(GOOD), 'title', 'platform', 'token']),
  );
  for (const [field, { description = 'nothing' }] of fields)
    expect(docstrings).toContain(`/** ${description} */ ${field}`);
});

/** All `properties` of a JSON Schema, however deep; those in `anyOf` only repeat some with a stricter check. */
function fieldsOf(schema: unknown): [field: string, schema: { readonly description?: string }][] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties = {} } = schema as { readonly properties?: Readonly<Record<string, object>> };
  const deeper = Object.entries(schema).filter(([key]) => key !== 'anyOf');
  return [...Object.entries(properties), ...deeper.flatMap(([, value]) => fieldsOf(value))];
}
