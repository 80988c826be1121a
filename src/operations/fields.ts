import { z } from 'zod';
import {
  describeFound,
  firstFaults,
  formatPath,
  InputError,
  nearest,
  zodFaults,
  type Fault,
} from '../domain/faults.ts';
import { isObject, isOversized } from '../domain/json.ts';

// The fields of operations: how people write them, and how a command's flags, a form and OpenAPI describe each of them.

export interface FieldLook {
  /** The field's name in forms. */
  readonly label: string;
  /** The name of the value in a command's help: `--for <duration>`. */
  readonly value: string;
  /**
   * What a form shows; a text field by default. `none`: no form has it. `flag`: it is `true` or absent, and no form has it.
   * `file`: several values as JSON, which a command reads from a file; no form has it. `argument`: a command takes it without a
   * flag.
   */
  readonly kind?: 'time' | 'days' | 'none' | 'flag' | 'file' | 'argument';
  /** All values that the field may have. */
  readonly choices?: readonly string[];
  /** True for a name: spaces at its ends belong to it. */
  readonly isExact?: true;
  /** An example, shown in a form's empty field. */
  readonly example?: string;
}

const LOOKS = z.registry<FieldLook>();

/** What the written value means, or its faults. The paths of the faults are relative to the field. */
export type Read<T> = { readonly value: T } | { readonly faults: readonly Fault[] };

export function unfit(expected: string, found: unknown): { readonly faults: readonly Fault[] } {
  return { faults: [{ path: '', expected, found: describeFound(found) }] };
}

/**
 * A field as people write it. `description`: a text for people, shown in a command's help, beside a form's field, and in
 * OpenAPI.
 */
export function written<Input, Value>(
  schema: z.ZodType<Input, Input>,
  look: FieldLook & { readonly description: string },
  read: (input: Input) => Read<Value>,
): z.ZodType<Value, Input> {
  const { description, ...rest } = look;
  return schema
    .transform((input, context) => {
      const result = read(input);
      if ('value' in result) return result.value;
      context.addIssue({ code: 'custom', message: 'unfit', params: { faults: result.faults } });
      return z.NEVER;
    })
    .describe(description)
    .register(LOOKS, rest);
}

/** A field, as the terminal, the console and the HTTP API need it. */
export interface FieldOf extends FieldLook {
  readonly name: string;
  readonly description: string;
  readonly isOptional: boolean;
}

export function fieldsOf({ fields }: { readonly fields: z.ZodObject }): readonly FieldOf[] {
  return Object.entries(fields.shape).map(([name, schema]) => {
    const isOptional = schema instanceof z.ZodOptional;
    const inner = (isOptional ? schema.unwrap() : schema) as z.ZodType;
    const look = LOOKS.get(inner);
    if (look === undefined) throw new TypeError(`expected a field that written() made, found another one: ${name}`);
    return { name, ...look, description: inner.description ?? '', isOptional };
  });
}

/** Fields as they were written. */
export type Given = Readonly<Record<string, unknown>>;

/** What the fields are called in the place where they were given: in a request or on a command line. */
export interface Names {
  readonly word: 'field' | 'flag';
  /** `minGap` → `--min-gap` */
  readonly of: (field: string) => string;
  /** What else may be given instead of the fields, such as `--clear`. */
  readonly others: readonly string[];
}

export const PLAIN_NAMES: Names = { word: 'field', of: (field) => field, others: [] };

export interface ReadOptions {
  readonly names?: Names;
  /** What is wrong with the fields together. `given`: as they were written. */
  readonly faults?: ((given: Given, names: Names) => readonly Fault[]) | undefined;
}

/** More than any fields have: 200 dead letters that were picked, or 50 quiet times with their days. */
const MOST = { values: 1_000, characters: 65_536 };

/** The field that is too large, or all fields together. */
function oversizeFaults(input: unknown, fields: z.ZodObject, names: Names): Fault[] {
  if (!isOversized(input, MOST)) return [];
  const large = Object.keys(fields.shape).filter((name) => isObject(input) && isOversized(input[name], MOST));
  const expected = `at most ${MOST.values} values and ${MOST.characters} characters in all`;
  return (large.length === 0 ? [''] : large.map(names.of)).map((path) => ({ path, expected, found: 'more' }));
}

/**
 * What the fields mean. Throws InputError with every fault, but 20 at most; the faults name the fields as `names` does. `what` is the beginning
 * of the error's message: `cannot block`.
 */
export function readFields<Fields extends z.ZodObject>(
  what: string,
  fields: Fields,
  input: unknown,
  { names = PLAIN_NAMES, faults }: ReadOptions = {},
): z.output<Fields> {
  const oversize = oversizeFaults(input, fields, names);
  if (oversize.length > 0) throw new InputError(what, oversize);
  const checked = fields.safeParse(input);
  const single = checked.success ? [] : checked.error.issues.flatMap((issue) => faultsOf(issue, input, fields));
  const all = single.map((fault) => ({ ...fault, path: pathOf(fault.path, names) }));
  if (isObject(input)) all.push(...(faults?.(input, names) ?? []));
  if (!checked.success || all.length > 0) throw new InputError(what, firstFaults(all));
  return checked.data;
}

/** `rules[1].max` → `--rules[1].max` */
function pathOf(path: string, names: Names): string {
  return path.replace(/^\w*/, (field) => names.of(field));
}

function faultsOf(issue: z.core.$ZodIssue, input: unknown, fields: z.ZodObject): readonly Fault[] {
  const { faults } = (issue.code === 'custom' ? (issue.params ?? {}) : {}) as { readonly faults?: readonly Fault[] };
  if (faults !== undefined) {
    return faults.map((fault) => ({ ...fault, path: `${formatPath(issue.path)}${fault.path}` }));
  }
  const meant = (_: readonly PropertyKey[], name: string) => nearest(name, Object.keys(fields.shape));
  return zodFaults(new z.ZodError([issue]), input, undefined, meant);
}
