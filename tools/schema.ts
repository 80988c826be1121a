import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import ts from 'typescript';
import { z } from 'zod';
import {
  alertSchema,
  digestSchema,
  liveActivitySchema,
  notificationSchema,
  RESERVED_DATA_KEYS,
} from '../src/notification/schema.ts';
import {
  MUST_SHOW,
  NOT_IN_BACKGROUND,
  NOT_IN_DATA_ONLY,
  LIVE_ACTIVITY_FIELDS,
  LIVE_ACTIVITY_PLATFORMS,
  NOT_IN_LIVE_ACTIVITY,
  ONLY_WITH_START,
} from '../src/notification/rules.ts';
import { apnsFieldsSchema, apnsSoundSchema, channelSchema } from '../src/notification/devices/apns/fields.ts';
import { DEVICE_KINDS } from '../src/notification/devices/devices.ts';
import { androidFieldsSchema, fcmFieldsSchema } from '../src/notification/devices/fcm/fields.ts';
import { webpushActionSchema, webpushFieldsSchema } from '../src/notification/devices/webpush/fields.ts';

/** A key's pattern: `google*` stands for all that begin so. */
const keyPattern = (key: string) => (key.endsWith('*') ? key.slice(0, -1) : `${key}$`);
const notEmpty = (field: string) => ({
  type: 'object',
  required: [field],
  properties: { [field]: { type: 'string', minLength: 1 } },
});

/** What the checks that are code say, as far as JSON Schema can. */
const FIELDS: Readonly<Record<string, object>> = {
  alert: {
    dependentRequired: {
      titleLocArgs: ['titleLocKey'],
      subtitleLocArgs: ['subtitleLocKey'],
      bodyLocArgs: ['bodyLocKey'],
    },
    anyOf: ['title', 'body', 'titleLocKey', 'bodyLocKey'].map(notEmpty),
  },
  digest: { anyOf: ['title', 'body'].map(notEmpty) },
  data: { propertyNames: { type: 'string', pattern: `^(?!${RESERVED_DATA_KEYS.map(keyPattern).join('|')})` } },
};

/** Nothing at any of these paths: `apns.sound` in the object `apns`. */
function withoutAny(paths: readonly string[]): object {
  const here = paths.filter((path) => !path.includes('.')).map((field) => [field, false] as const);
  const deeper = Map.groupBy(
    paths.filter((path) => path.includes('.')),
    (path) => path.slice(0, path.indexOf('.')),
  );
  const inner = [...deeper].map(
    ([field, all]) => [field, withoutAny(all.map((path) => path.slice(field.length + 1)))] as const,
  );
  return { properties: Object.fromEntries([...inner, ...here]) as object };
}

const ofType = (pushType: string) => ({ properties: { pushType: { const: pushType } }, required: ['pushType'] });
const inLiveActivity = (schema: object) => ({ properties: { liveActivity: schema } });
const notSilenced = {
  properties: { onThrottle: { not: { const: 'silence' } }, onQuiet: { not: { const: 'silence' } } },
};

/** A push to a Live Activity: what each event needs, and that to silence one is to leave out its alert. */
const LIVE_ACTIVITY = {
  required: ['liveActivity'],
  allOf: [
    withoutAny(NOT_IN_LIVE_ACTIVITY),
    { properties: { devices: { items: { properties: { platform: { enum: LIVE_ACTIVITY_PLATFORMS } } } } } },
    { properties: { onThrottle: { not: { const: 'digest' } }, apns: { properties: { priority: { enum: [5, 10] } } } } },
    {
      if: inLiveActivity({ properties: { event: { const: 'start' } }, required: ['event'] }),
      then: { allOf: [inLiveActivity({ required: ONLY_WITH_START }), notSilenced], required: ['alert'] },
      else: inLiveActivity(withoutAny(ONLY_WITH_START)),
    },
    { if: { required: ['alert'] }, else: { allOf: [withoutAny(['sound']), notSilenced] } },
  ],
};

/** A retraction changes what is shown, so it may go to browsers too. */
const IS_RETRACTION = {
  properties: {
    data: {
      properties: {
        pushpacer: { type: 'object', properties: { retract: { type: 'array' } }, required: ['retract'] },
      },
      required: ['pushpacer'],
    },
  },
  required: ['data'],
};

/** A background push shows nothing, a Live Activity may; everything else has an alert. */
const BY_PUSH_TYPE = {
  if: ofType('background'),
  then: {
    allOf: [
      withoutAny([...NOT_IN_BACKGROUND, 'liveActivity']),
      {
        if: IS_RETRACTION,
        else: { properties: { devices: { items: { properties: { platform: { not: { enum: MUST_SHOW } } } } } } },
      },
      { properties: { onThrottle: { not: { const: 'silence' } }, apns: { properties: { priority: { const: 5 } } } } },
    ],
  },
  else: {
    if: ofType('liveactivity'),
    then: LIVE_ACTIVITY,
    else: { required: ['alert'], ...withoutAny(['liveActivity']) },
  },
};

/** The fields of devices that only Live Activities have, and need. */
const BY_ACTIVITY_TOKEN = [...LIVE_ACTIVITY_FIELDS].map(([platform, field]) => ({
  if: ofType('liveactivity'),
  then: {
    properties: {
      devices: { items: { if: { properties: { platform: { const: platform } } }, then: { required: [field] } } },
    },
  },
  else: { properties: { devices: { items: { properties: { [field]: false } } } } },
}));

/** Devices, or a channel in their place. That the recipient is the channel cannot be said here. */
const BY_TARGET = {
  if: { required: ['channel'] },
  then: {
    ...ofType('liveactivity'),
    allOf: [withoutAny(['devices']), inLiveActivity({ properties: { event: { enum: ['update', 'end'] } } })],
  },
  else: { required: ['devices'] },
};

const throttled = (by: string) => ({ properties: { onThrottle: { const: by } }, required: ['onThrottle'] });
/** With whom it waits. */
const BY_THROTTLE = [
  { if: throttled('latest'), then: { required: ['collapseId'] } },
  ...['latest', 'digest'].map((by) => ({
    if: throttled(by),
    then: { properties: { onQuiet: { const: 'delay' } } },
  })),
  { if: throttled('digest'), then: { required: ['digest'] }, else: { not: { required: ['digest'] } } },
];

/** What the app draws itself. */
const BY_DATA_ONLY = {
  if: {
    properties: { android: { properties: { dataOnly: { const: true } }, required: ['dataOnly'] } },
    required: ['android'],
  },
  then: { allOf: [withoutAny(NOT_IN_DATA_ONLY), { anyOf: [{ required: ['data'] }, { required: ['fcm'] }] }] },
};

/** A declarative push needs what a click opens. */
const BY_DECLARATIVE = {
  properties: {
    webpush: {
      if: { properties: { declarative: { const: true } }, required: ['declarative'] },
      then: { required: ['navigate'] },
      else: { properties: { navigate: false } },
    },
  },
};

/** `apns` → `ApnsDevice` */
const interfaceOf = ({ shape }: (typeof DEVICE_KINDS)[number]['schema']) =>
  `${shape.platform.value.replace(/^./, (letter) => letter.toUpperCase())}Device`;

/** The JSON Schema of what a producer writes, as the text of its file. */
function schemaText(types: string): string {
  describeFields(types, {
    NotificationInput: notificationSchema,
    Channel: channelSchema,
    Alert: alertSchema,
    DigestFields: digestSchema,
    LiveActivityFields: liveActivitySchema,
    ApnsFields: apnsFieldsSchema,
    ApnsSound: apnsSoundSchema,
    AndroidFields: androidFieldsSchema,
    FcmFields: fcmFieldsSchema,
    WebpushAction: webpushActionSchema,
    WebpushFields: webpushFieldsSchema,
    ...Object.fromEntries(DEVICE_KINDS.map(({ schema }) => [interfaceOf(schema), schema])),
  });
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
      'The data of a job named push: one message to one recipient, for one or more devices, or for a channel. Made from src/notification/schema.ts by npm run schema.',
    ...rest,
    properties: Object.fromEntries(described) as object,
    ...BY_PUSH_TYPE,
    allOf: [BY_TARGET, ...BY_THROTTLE, BY_DATA_ONLY, ...BY_ACTIVITY_TOKEN, BY_DECLARATIVE],
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

/** Gives the fields of these schemas, by the names of their interfaces, the interfaces' docstrings as descriptions. */
function describeFields(text: string, schemas: Readonly<Record<string, z.ZodObject>>): void {
  const file = ts.createSourceFile('types.ts', text, ts.ScriptTarget.Latest);
  for (const [name, schema] of Object.entries(schemas)) {
    const found = file.statements.filter(ts.isInterfaceDeclaration).find((each) => each.name.text === name);
    if (found === undefined) throw new Error(`expected an interface ${name}, found none`);
    describe(file, found, schema, name);
  }
}

function describe(
  file: ts.SourceFile,
  { members }: ts.InterfaceDeclaration | ts.TypeLiteralNode,
  schema: z.ZodObject,
  path: string,
): void {
  const byName = new Map(members.map((member) => [member.name?.getText(file), member]));
  for (const [name, field] of Object.entries<z.ZodType>(schema.shape)) {
    const member = byName.get(name);
    const description = member && docstringOf(member, file);
    if (member === undefined || !description) throw new Error(`${path}.${name}: expected a docstring, found none`);
    const { description: other = description } = field.meta() ?? {};
    if (other !== description)
      throw new Error(`${path}.${name}: expected a schema of its own, found that of another field`);
    z.globalRegistry.add(field, { ...field.meta(), description });
    const type = ts.isPropertySignature(member) ? member.type : undefined;
    if (type && ts.isTypeLiteralNode(type)) describe(file, type, field as z.ZodObject, `${path}.${name}`);
  }
}

/** Its text in one line. */
function docstringOf(member: ts.TypeElement, file: ts.SourceFile): string {
  const before = member.getFullText(file).slice(0, member.getStart(file) - member.getFullStart());
  return before
    .replace(/^\s*\/\*\*|\*\/\s*$/g, '')
    .replaceAll(/\s*\n\s*\* ?|\s+/g, ' ')
    .trim();
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
const file = new URL('../docs/notification.schema.json', import.meta.url);
const sources = ['types.ts', 'provider-fields.ts'].map((name) =>
  readFile(new URL(`../src/notification/${name}`, import.meta.url), 'utf8'),
);
const text = schemaText((await Promise.all(sources)).join('\n'));
if (!values.check) {
  await writeFile(file, text);
} else if (text !== (await readFile(file, 'utf8').catch(() => ''))) {
  process.stderr.write('docs/notification.schema.json is not what npm run schema writes\n');
  process.exitCode = 1;
}
