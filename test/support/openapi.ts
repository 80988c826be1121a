import type { ValidateFunction } from 'ajv/dist/2020.js';
import { faultsBy, openAjv } from './json-schema.ts';

export type Json = Readonly<Record<string, unknown>>;
interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, Response | undefined>>;
}
interface Response {
  readonly content?: Readonly<Record<string, Media | undefined>>;
}
interface Media {
  readonly schema: Json;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

/**
 * The schema without room for fields that it does not name: a client that was generated from the document cannot read others.
 *
 * @param isPart of a schema that has its own end, such as one of `allOf`
 */
function closed(schema: Json, isPart = false): Json {
  if (typeof schema !== 'object') return schema; // `false` allows nothing already
  const all = Object.entries(schema).map(([name, value]) => {
    if (name === 'properties') return [name, mapOf(value as Json, (each) => closed(each))];
    if (name === 'items' || name === 'additionalProperties') return [name, closed(value as Json)];
    return [
      name,
      Array.isArray(value) && /^(all|any|one)Of$/.test(name) ? value.map((each: Json) => closed(each, true)) : value,
    ];
  });
  const isObject = ['$ref', 'allOf', 'anyOf', 'oneOf'].some((name) => name in schema) || schema['type'] === 'object';
  return { ...(Object.fromEntries(all) as Json), ...(isObject && !isPart && { unevaluatedProperties: false }) };
}

const mapOf = (schemas: Json, change: (schema: Json) => Json): Json =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, change(schema as Json)]));

/** What the document says, as a client in any language reads it. */
export function documentOf(document: Json) {
  const ajv = openAjv();
  const { schemas } = document['components'] as { readonly schemas: Json };
  ajv.addSchema({ $id: 'api', components: { schemas } }, 'api').addVocabulary(['components']);
  ajv.addSchema({ $id: 'closed', components: { schemas: mapOf(schemas, (each) => closed(each, true)) } }, 'closed');
  const { paths } = document as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation | undefined>>>>;
  };
  const validators = new Map<string, ValidateFunction>();
  const validatorOf = (schema: Json, id: 'api' | 'closed' = 'api'): ValidateFunction => {
    const text = JSON.stringify(schema).replaceAll('"#/components', `"${id}#/components`);
    const known = validators.get(text) ?? ajv.compile(JSON.parse(text) as object);
    validators.set(text, known);
    return known;
  };
  /** What is wrong with an answer; empty if the document has it, with every field. */
  const faultsOf = (method: string, path: string, status: number, type: string, body: unknown): string[] => {
    const responses: Readonly<Record<string, Response | undefined>> = paths[path]?.[method]?.responses ?? {};
    const media = responses[status]?.content?.[type];
    if (media === undefined) return [`${method} ${path} ${status} ${type} is not described`];
    return faultsBy(validatorOf(closed(media.schema), 'closed'), body);
  };
  /** The same for a value of one of the document's schemas. */
  const faultsIn = (name: string, value: unknown): string[] =>
    faultsBy(validatorOf(closed({ $ref: `#/components/schemas/${name}` }), 'closed'), value);
  return { paths, validatorOf, faultsOf, faultsIn };
}
