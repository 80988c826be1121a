import { isJson, protoField, type Json, type Shape } from './table.ts';

/** One way to break a good value: what stands at a path in place of what was there; undefined: nothing does. */
export interface Break {
  readonly path: readonly (string | number)[];
  readonly value: unknown;
}

/** Where in a good value a shape is checked, and which fields of the tables the value has. */
interface Place {
  readonly path: Break['path'];
  readonly seen: Set<string>;
}

/** Each way in which the fields of a good value can break their shapes. */
export function breaksOf(good: unknown, shape: Shape, { path, seen }: Place): Break[] {
  const at = (...values: unknown[]): Break[] => values.map((value) => ({ path, value }));
  const below = (name: string | number, inner: Shape, value: unknown): Break[] =>
    breaksOf(value, inner, { path: [...path, name], seen });
  switch (shape.is) {
    case 'any':
      return [];
    case 'flag':
      return at('true', 1);
    case 'text':
      return at(7, true, ...wrongTexts(shape));
    case 'number':
      return at('1', ...wrongNumbers(shape));
    case 'list':
      return [...at('a'), ...below(0, shape.of, (good as unknown[])[0])];
    case 'map': {
      const [name = ''] = Object.keys(good as Json);
      const reserved = shape.reserved ? ['from', 'message_type', 'google.a', 'gcm.a', 'gcmx'] : [];
      return [
        ...at('a'),
        ...below(name, shape.of, (good as Json)[name]),
        ...reserved.map((key) => ({ path: [...path, key], value: 'a' })),
      ];
    }
    case 'either': {
      const one = shape.of.find(({ is }) => (is === 'text') === (typeof good === 'string')) ?? shape.of[0];
      const takesText = shape.of.some(({ is }) => is === 'text');
      const found = one === undefined ? [] : breaksOf(good, one, { path, seen });
      return found.filter((each) => !(takesText && each.path === path && typeof each.value === 'string'));
    }
    case 'object':
      return [
        ...at('a', []),
        ...(shape.others === 'any' ? [] : [{ path: [...path, 'unknown_field'], value: 'a' }]),
        ...(shape.required ?? []).map((name) => ({ path: [...path, nameIn(good, name)], value: undefined })),
        ...Object.entries(shape.fields).flatMap(([field, inner]) => {
          const name = nameIn(good, field);
          const value = (good as Json)[name];
          if (value === undefined) return [];
          seen.add(fieldPath([...path, field]));
          return below(name, inner, value);
        }),
      ];
  }
}

function wrongTexts({ form, oneOf, maxBytes, most }: Shape & { is: 'text' }): string[] {
  return [
    ...(form === undefined ? [] : ['no such form \n']),
    ...(oneOf === undefined ? [] : ['none of them']),
    ...(maxBytes === undefined ? [] : ['x'.repeat(maxBytes + 1)]),
    ...(most === undefined ? [] : [`${most + 1}${form === 'duration' ? 's' : ''}`]),
  ];
}

function wrongNumbers({ from, to, whole }: Shape & { is: 'number' }): number[] {
  return [
    ...(from === undefined ? [] : [from - 1]),
    ...(to === undefined ? [] : [to + 1]),
    ...(whole ? [(from ?? 0) + 0.5] : []),
  ];
}

/** The fields of a shape, at every depth: `android.notification.tag`. */
export function fieldsOf(shape: Shape, path: Break['path'] = []): string[] {
  if (shape.is === 'list') return fieldsOf(shape.of, path);
  if (shape.is === 'either') return shape.of.flatMap((one) => fieldsOf(one, path));
  if (shape.is !== 'object') return [];
  return Object.entries(shape.fields).flatMap(([field, inner]) => [
    fieldPath([...path, field]),
    ...fieldsOf(inner, [...path, field]),
  ]);
}

/** As the table writes it, whatever the JSON does. */
function fieldPath(path: Break['path']): string {
  return path
    .filter((step) => typeof step === 'string')
    .map((step) => step.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()))
    .join('.');
}

/** The name in the JSON of a field of the table: `channel_id` of `channelId`, `TTL` of `ttl`. */
function nameIn(good: unknown, field: string): string {
  const names = isJson(good) ? Object.keys(good) : [];
  const snake = field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const anyCase = names.find((name) => name.toLowerCase() === field.toLowerCase());
  return protoField(good, field) === undefined ? (anyCase ?? field) : names.includes(field) ? field : snake;
}

/** A copy in which one place is another. */
export function broken(good: unknown, { path: [step, ...rest], value }: Break): unknown {
  if (step === undefined) return value;
  if (Array.isArray(good))
    return good.map((each: unknown, index) => (index === step ? broken(each, { path: rest, value }) : each));
  const json = isJson(good) ? good : {};
  return { ...json, [step]: broken(json[step], { path: rest, value }) };
}
