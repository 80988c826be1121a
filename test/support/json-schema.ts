import { readFile } from 'node:fs/promises';
import addFormats from 'ajv-formats';
import { Ajv2020 } from 'ajv/dist/2020.js';

let validator: Promise<(document: unknown) => readonly string[]> | undefined;

/** The published JSON Schema, as a validator in any language reads it, compiled once. It answers what is wrong with a document. */
export function publishedSchema(): Promise<(document: unknown) => readonly string[]> {
  return (validator ??= compile());
}

async function compile(): Promise<(document: unknown) => readonly string[]> {
  const ajv = new Ajv2020({
    allErrors: true,
    strict: true,
    allowUnionTypes: true,
    strictRequired: false,
    strictTypes: false,
  });
  addFormats.default(ajv);
  const validate = ajv.compile(JSON.parse(await readFile('docs/notification.schema.json', 'utf8')) as object);
  return (document) => {
    void validate(document);
    return (validate.errors ?? []).map(({ instancePath, message = '' }) => `${instancePath} ${message}`);
  };
}
