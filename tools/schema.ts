import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { notificationSchema, RESERVED_DATA_KEYS } from '../src/domain/notification.ts';

const FILE = new URL('../docs/notification.schema.json', import.meta.url);

/** No control characters or line breaks. In ranges, since not every language's patterns know `\p{Cc}`. */
const PRINTABLE = '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]+$';
/** A key's pattern: `google*` stands for all that begin so. */
const keyPattern = (key: string) => (key.endsWith('*') ? key.slice(0, -1) : `${key}$`);
const notEmpty = (field: string) => ({
  type: 'object',
  required: [field],
  properties: { [field]: { type: 'string', minLength: 1 } },
});

/** What the checks that are code say, as far as JSON Schema can, and what each field is for. */
const FIELDS: Readonly<Record<string, object>> = {
  recipientId: { pattern: PRINTABLE },
  devices: { description: 'Where it goes: the push tokens of the recipient.' },
  alert: {
    description: 'What is shown: a title, a body or both, and one of them not empty.',
    anyOf: [notEmpty('title'), notEmpty('body')],
  },
  data: {
    description: 'Handed to the app as it is. The providers reserve some keys.',
    propertyNames: { type: 'string', pattern: `^(?!${RESERVED_DATA_KEYS.map(keyPattern).join('|')})` },
  },
  sound: { pattern: PRINTABLE, description: 'The name of a sound of the app, or default.' },
  badge: { description: "The number on the app's icon." },
  category: { description: 'What kind of notification it is. Limits can be set per category.' },
  priority: { description: 'A high one is taken from the queue first, and wakes a sleeping device.' },
  collapseId: { pattern: PRINTABLE, description: 'A newer one takes the place of an older one. At most 64 bytes.' },
  expiresAt: { description: 'Not delivered after this instant: RFC 3339, or epoch milliseconds.' },
  onThrottle: {
    description: 'What becomes of it when the limits say not now: wait, be dropped, or be delivered without a sound.',
  },
};

/** The JSON Schema of what a producer writes, as the text of its file. */
function schemaText(): string {
  const { $schema, properties = {}, ...rest } = z.toJSONSchema(notificationSchema, { io: 'input' });
  const unknown = Object.keys(FIELDS).filter((field) => !(field in properties));
  if (unknown.length > 0) throw new Error(`fields that the schema no longer has: ${unknown.join(', ')}`);
  const described = Object.entries(properties).map(([field, schema]) => [
    field,
    { ...(schema as object), ...FIELDS[field] },
  ]);
  const schema = {
    $schema,
    title: 'Notification',
    description:
      'The data of a job named push: one message to one recipient, for one or more devices. Made from src/domain/notification.ts by npm run schema.',
    ...rest,
    properties: Object.fromEntries(described) as object,
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
const text = schemaText();
if (!values.check) {
  await writeFile(FILE, text);
} else if ((await readFile(FILE, 'utf8').catch(() => '')) !== text) {
  process.stderr.write('docs/notification.schema.json is not what npm run schema writes\n');
  process.exitCode = 1;
}
