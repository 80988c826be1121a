/**
 * Tables of what a provider takes, and the check of a JSON value against them. The tables are written from the providers' own
 * references and never from our encoders, so that a mistake of an encoder is found.
 */

/** Texts of a certain form. */
const FORMS = {
  duration: ['seconds like 3.5s', /^\d{1,12}(\.\d{1,9})?s$/],
  instant: ['an RFC 3339 time', /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/],
  color: ['a color as #rrggbb', /^#[0-9a-fA-F]{6}$/],
  https: ['an https URL', /^https:\/\/[\x21-\x7e]+$/],
  label: ['1 to 50 of A-Z a-z 0-9 - _ . ~ %', /^[A-Za-z0-9_.~%-]{1,50}$/],
  uuid: ['a UUID', /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i],
  bundle: ['a bundle id', /^[A-Za-z0-9.-]{1,255}$/],
  visible: ['visible ASCII characters', /^[\x21-\x7e]+$/],
  decimal: ['a whole number', /^(0|[1-9]\d*)$/],
  base64: ['base64', /^[A-Za-z0-9+/]+={0,2}$/],
  base64url: ['base64url', /^[A-Za-z0-9_-]+$/],
  hex: ['hexadecimal digits', /^[0-9a-fA-F]+$/],
  fid: ['22 characters of base64url of which the first four bits are 0111', /^[cdef][A-Za-z0-9_-]{21}$/],
} as const satisfies Record<string, readonly [string, RegExp]>;

/** What a value may be. */
export type Shape =
  | {
      readonly is: 'text';
      readonly form?: keyof typeof FORMS;
      readonly oneOf?: readonly string[];
      readonly maxBytes?: number;
      /** Of a whole number that is written as a text, or of the seconds of a duration. */
      readonly most?: number;
    }
  | { readonly is: 'number'; readonly from?: number; readonly to?: number; readonly whole?: true }
  | { readonly is: 'flag' }
  | { readonly is: 'list'; readonly of: Shape }
  /** Any names but the reserved ones. */
  | { readonly is: 'map'; readonly of: Shape; readonly reserved?: RegExp }
  | {
      readonly is: 'object';
      readonly fields: Fields;
      readonly required?: readonly string[];
      /** Names that are not in `fields`. Default: `none`. */
      readonly others?: 'any' | 'none';
      /** The names of a protobuf message: `channelId` in the table, and `channelId` or `channel_id` in the JSON, but not both. */
      readonly proto?: true;
      /** Names of HTTP headers, which may be written in capital letters. */
      readonly anyCase?: true;
    }
  | { readonly is: 'either'; readonly of: readonly Shape[] }
  | { readonly is: 'any' };

export type Fields = Readonly<Record<string, Shape>>;
export type Json = Readonly<Record<string, unknown>>;

/** A request as it leaves, or as a server got it. Names of headers are in lower case. */
export interface WireRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string | Buffer;
}

/** Everything in which a value differs from its shape: `aps.badge: expected a whole number, found a string`. */
export function shapeFaults(value: unknown, shape: Shape, path: string): string[] {
  if (value === null) return []; // `jsonFaults` reports it, at every depth
  const wrong = (expected: string): string[] => [`${path}: expected ${expected}, found ${shown(value)}`];
  switch (shape.is) {
    case 'any':
      return [];
    case 'flag':
      return typeof value === 'boolean' ? [] : wrong('true or false');
    case 'text':
      return typeof value === 'string' ? textFaults(value, shape, wrong) : wrong('a text');
    case 'number': {
      const { from = -Infinity, to = Infinity, whole } = shape;
      const fits = typeof value === 'number' && value >= from && value <= to && (!whole || Number.isInteger(value));
      return fits ? [] : wrong(`a ${whole ? 'whole ' : ''}number from ${from} to ${to}`);
    }
    case 'list':
      if (!Array.isArray(value)) return wrong('a list');
      return value.flatMap((each, index) => shapeFaults(each, shape.of, `${path}[${index}]`));
    case 'map':
      if (!isJson(value)) return wrong('an object');
      return Object.entries(value).flatMap(([name, each]) => [
        ...(shape.reserved?.test(name) ? [`${path}.${name}: a reserved key`] : []),
        ...shapeFaults(each, shape.of, `${path}.${name}`),
      ]);
    case 'object':
      return isJson(value) ? objectFaults(value, shape, path) : wrong('an object');
    case 'either': {
      const each = shape.of.map((one) => shapeFaults(value, one, path));
      // The faults of the one of the right type say most.
      const ofType = shape.of.findIndex((one) => (one.is === 'text') === (typeof value === 'string'));
      return each.some((faults) => faults.length === 0) ? [] : (each[ofType] ?? []);
    }
  }
}

function textFaults(text: string, shape: Shape & { is: 'text' }, wrong: (expected: string) => string[]): string[] {
  const { form, oneOf, maxBytes = Infinity, most = Infinity } = shape;
  if (oneOf !== undefined && !oneOf.includes(text)) return wrong(`one of ${oneOf.join(', ')}`);
  if (form !== undefined && !FORMS[form][1].test(text)) return wrong(FORMS[form][0]);
  if (form === 'instant' && Number.isNaN(Date.parse(text))) return wrong(FORMS.instant[0]);
  if (Buffer.byteLength(text) > maxBytes) return wrong(`at most ${maxBytes} bytes`);
  return Number.parseFloat(text) > most ? wrong(`at most ${most}`) : [];
}

function objectFaults(value: Json, shape: Shape & { is: 'object' }, path: string): string[] {
  const { fields, required = [], others = 'none', proto, anyCase } = shape;
  const seen = new Set<string>();
  const faults = Object.entries(value).flatMap(([name, each]) => {
    const known = proto ? camel(name) : anyCase ? name.toLowerCase() : name;
    const field = Object.hasOwn(fields, known) ? fields[known] : undefined;
    if (field === undefined) return others === 'any' ? [] : [`${path}.${name}: no such field`];
    const twice = seen.has(known) ? [`${path}.${name}: the same field twice`] : [];
    seen.add(known);
    return [...twice, ...shapeFaults(each, field, `${path}.${name}`)];
  });
  const missing = required.filter((name) => !seen.has(name) && !(others === 'any' && name in value));
  return [...faults, ...missing.map((name) => `${path}.${name}: expected a value, found nothing`)];
}

const camel = (name: string): string => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** A field of a protobuf message, by either of its names. */
export function protoField(message: unknown, name: string): unknown {
  if (!isJson(message)) return undefined;
  return message[name] ?? message[name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
}

/** No nulls, and no halves of characters, neither in values nor in names, at any depth. */
export function jsonFaults(value: unknown, path: string): string[] {
  if (value === null) return [`${path}: null`];
  if (typeof value === 'string') return value.isWellFormed() ? [] : [`${path}: a lone surrogate`];
  if (Array.isArray(value)) return value.flatMap((each, index) => jsonFaults(each, `${path}[${index}]`));
  if (!isJson(value)) return [];
  return Object.entries(value).flatMap(([name, each]) => [
    ...(name.isWellFormed() ? [] : [`${path}: a lone surrogate in the name of a field`]),
    ...jsonFaults(each, `${path}.${name.toWellFormed()}`),
  ]);
}

/**
 * A null inside of an app's own value, of its data or of a Live Activity's state: Apple describes these values only as the app's, and
 * the app reads it.
 */
export function isOwnNull(fault: string): boolean {
  return /^(payload|body\.message\.apns\.payload)\.((?!aps[.[])[^.[]*|aps\.(content-state|attributes))[.[].*: null$/.test(
    fault,
  );
}

/** The object in a body of JSON, or what is wrong with the body. The bytes must be UTF-8. */
export function readJson(body: string | Buffer): { readonly json: Json; readonly faults: readonly string[] } {
  const bytes = Buffer.from(body as string);
  try {
    const json: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    const isWhole = typeof body !== 'string' || body.isWellFormed();
    const faults = isWhole ? [] : ['body: a lone surrogate, which is no UTF-8'];
    return isJson(json) ? { json, faults } : { json: {}, faults: ['body: expected a JSON object'] };
  } catch {
    return { json: {}, faults: ['body: expected JSON in UTF-8'] };
  }
}

/** A header's value as the text that is sent. */
export function headerText(value: unknown): string {
  return typeof value === 'number' || typeof value === 'string' ? `${value}` : '';
}

export function isJson(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The value as it stands at `a.b.c`. */
export function valueAt(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((inner, name) => (isJson(inner) ? inner[name] : undefined), value);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  return text === undefined ? 'nothing' : text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
