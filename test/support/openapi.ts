import type { ValidateFunction } from 'ajv/dist/2020.js';
import { faultsBy, openAjv } from './json-schema.ts';

export type Json = Readonly<Record<string, unknown>>;
interface Operation {
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

/** What the document says, as a client in any language reads it. */
export function documentOf(document: Json) {
  const ajv = openAjv();
  ajv.addSchema({ $id: 'api', components: document['components'] }, 'api').addVocabulary(['components']);
  const { paths } = document as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation | undefined>>>>;
  };
  const validators = new Map<string, ValidateFunction>();
  const validatorOf = (schema: Json): ValidateFunction => {
    const text = JSON.stringify(schema).replaceAll('"#/components', '"api#/components');
    const known = validators.get(text) ?? ajv.compile(JSON.parse(text) as object);
    validators.set(text, known);
    return known;
  };
  /** What is wrong with an answer; empty if the document has it. */
  const faultsOf = (method: string, path: string, status: number, type: string, body: unknown): string[] => {
    const responses: Readonly<Record<string, Response | undefined>> = paths[path]?.[method]?.responses ?? {};
    const media = responses[status]?.content?.[type];
    if (media === undefined) return [`${method} ${path} ${status} ${type} is not described`];
    return faultsBy(validatorOf(media.schema), body);
  };
  return { paths, validatorOf, faultsOf };
}
