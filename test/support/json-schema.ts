import { readFile } from 'node:fs/promises';
import addFormats from 'ajv-formats';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

let validator: Promise<(document: unknown) => readonly string[]> | undefined;

/** The published JSON Schema, as a validator in any language reads it, compiled once. It answers what is wrong with a document. */
export function publishedSchema(): Promise<(document: unknown) => readonly string[]> {
  return (validator ??= compile());
}

async function compile(): Promise<(document: unknown) => readonly string[]> {
  const validate = openAjv().compile(JSON.parse(await readFile('docs/notification.schema.json', 'utf8')) as object);
  return (document) => faultsBy(validate, document);
}

/** As strict as it can be; `oneOf` and lists of types are allowed, as JSON Schema allows them. */
export function openAjv(): Ajv2020 {
  const ajv = new Ajv2020({
    allErrors: true,
    strict: true,
    allowUnionTypes: true,
    strictRequired: false,
    strictTypes: false,
  });
  addFormats.default(ajv);
  return ajv;
}

/** What is wrong with the document; empty if nothing is. */
export function faultsBy(validate: ValidateFunction, document: unknown): string[] {
  void validate(document);
  return (validate.errors ?? []).map(({ instancePath, message = '' }) => `${instancePath} ${message}`);
}
