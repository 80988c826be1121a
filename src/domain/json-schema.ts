import { z } from 'zod';
import { isJson, isJsonObject, JSON_FORMAT, type JsonObject, type JsonValue } from './json.ts';

/** The schema with the type that its check proves; zod cannot tell it from the check. */
const typed = <T>(schema: z.ZodType) => schema as z.ZodType<T, T>;

/** Any JSON value. */
export const jsonValue = () => typed<JsonValue>(z.unknown().refine((value) => isJson(value), { error: JSON_FORMAT }));

/** What is wrong in an object: the path below it, and what was expected there. */
export interface Misplaced {
  readonly path: readonly PropertyKey[];
  readonly expected: string;
}

/** A JSON object with any names but those that `misplaced` finds. */
export const jsonObject = (misplaced: (object: JsonObject) => readonly Misplaced[]) =>
  typed<JsonObject>(
    z
      .unknown()
      .superRefine((value, context) => {
        if (!isJsonObject(value)) {
          context.addIssue({ code: 'custom', message: `an object, ${JSON_FORMAT}` });
          return;
        }
        for (const { path, expected } of misplaced(value)) {
          context.addIssue({ code: 'custom', message: expected, path: [...path] });
        }
      })
      .meta({ type: 'object' }),
  );
