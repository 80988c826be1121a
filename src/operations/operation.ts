import { z } from 'zod';
import { describeFound, formatPath, InputError, nearest, zodFaults, type Fault } from '../domain/faults.ts';
import type { Policy } from '../domain/limits.ts';
import type { CancelTarget } from '../notification/notification.ts';
import type { Action } from '../limiter/foresee.ts';
import type { Inspection } from '../limiter/limiter.ts';
import type { Acted } from './actions.ts';

// What an operation is, and how its fields are read. catalogue.ts has the operations, run.ts previews and runs them. The terminal, the
// console and the HTTP API each make their part from these values: flags, a form, a route.

/** What an operator may do to one recipient. */
export interface Operation<Fields extends z.ZodObject = z.ZodObject> {
  /** `block`: the command, the end of the route, and the action in the audit. */
  readonly name: string;
  /** What a button says. */
  readonly title: string;
  /** What it does, in one sentence. */
  readonly does: string;
  /** What follows from it, for who reads a command's help: whole sentences, with line breaks. */
  readonly help: string;
  /** The same in short, above a form. */
  readonly hint: string;
  /** What has happened, without the recipient: `the recipient is blocked`. */
  readonly done: string;
  /** The scope that a token needs for it. */
  readonly scope: 'operate';
  /** It only takes back what an operator did. */
  readonly isGentle?: true;
  /** The terminal has it as a flag of another operation, alone: `--clear` of `limit`. */
  readonly flagOf?: { readonly operation: string; readonly flag: string; readonly does: string };
  /** The fields of the JSON that are its own, in their order, as the command's help lists them. */
  readonly answers: readonly string[];
  /** Texts and JSON values as people write them. Each is made by `written`. */
  readonly fields: Fields;
  /** Whether a form makes sense for the recipient as it is. */
  isOffered(recipient: Inspection): boolean;
  /** With what a form begins. */
  initial?(recipient: Inspection): FormValues;
  /** What is wrong with the fields together. `given`: as they were written. */
  faults?(given: Given, names: Names): readonly Fault[];
  /** What is to be done. Throws InputError, such as for an end that has passed. */
  plan(fields: z.output<Fields>, at: PlanContext): Plan;
}

type Given = Readonly<Record<string, unknown>>;
export type FormValues = Readonly<Record<string, string | readonly string[]>>;

/** What the fields are called where they were given. */
export interface Names {
  readonly word: 'field' | 'flag';
  /** `minGap` → `--min-gap` */
  readonly of: (field: string) => string;
  /** What may be given in place of the fields, such as `--clear`. */
  readonly others: readonly string[];
}

export const PLAIN_NAMES: Names = { word: 'field', of: (field) => field, others: [] };

/** What a plan may depend on. */
export interface PlanContext {
  readonly recipientId: string;
  /** The limiter's clock: epoch milliseconds. */
  readonly now: number;
  /** The general limits. */
  readonly policy: Policy;
  readonly names: Names;
}

/** What is done: an action of the limiter, or a cancel. */
export type Deed = Action | { readonly kind: 'cancel'; readonly target: CancelTarget };

export interface Plan {
  readonly deed: Deed;
  /**
   * The fields with which the same is done later: an end is an instant, what was left out is as it was understood. They are the
   * facts of the audit.
   */
  readonly settled: Readonly<Record<string, string | number>>;
  /** What would be done, with the values as they were understood: whole sentences. */
  readonly would: string;
  did(result: Result): Did;
}

export interface Result extends Acted {
  /** Of a cancel. */
  readonly canceled: number;
  readonly tooLate: number;
  /** The recipient, at the limiter of alerts. */
  readonly before: Inspection;
  readonly after: Inspection;
}

export interface Did {
  /** `teacher-42 is blocked until …`; safe for a terminal. */
  readonly text: string;
  /** Those of `answers`. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Short: what waits may be said on the same line. */
  readonly isShort?: true;
}

/** An operation among others. The compiler checks its fields against its plan here. */
export function defineOperation<Fields extends z.ZodObject>(operation: Operation<Fields>): Operation {
  return operation;
}

/* Fields */

/** How a field is shown. */
export interface FieldLook {
  /** In forms. */
  readonly label: string;
  /** In a command's help: `--for <duration>`. */
  readonly value: string;
  /**
   * In forms it is a text if it is left out. `none`: it is in no form. `flag`: `true` or nothing, in no form. `file`: several
   * values as JSON, which a command reads from a file; in no form.
   */
  readonly kind?: 'time' | 'days' | 'none' | 'flag' | 'file';
}

const LOOKS = z.registry<FieldLook>();

/** What a text means, or what is wrong with it; paths are below the field. */
export type Read<T> = { readonly value: T } | { readonly faults: readonly Fault[] };

export function unfit(expected: string, found: unknown): { readonly faults: readonly Fault[] } {
  return { faults: [{ path: '', expected, found: describeFound(found) }] };
}

/** A field as people write it. `description`: for people, in a command's help, beside a form's field, and in OpenAPI. */
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

/** A field of an operation, as the faces need it. */
export interface FieldOf extends FieldLook {
  readonly name: string;
  readonly description: string;
  readonly isOptional: boolean;
}

export function fieldsOf({ fields }: Operation): readonly FieldOf[] {
  return Object.entries(fields.shape).map(([name, schema]) => {
    const isOptional = schema instanceof z.ZodOptional;
    const inner = (isOptional ? schema.unwrap() : schema) as z.ZodType;
    const look = LOOKS.get(inner);
    if (look === undefined) throw new TypeError(`expected a field that written() made, found another one: ${name}`);
    return { name, ...look, description: inner.description ?? '', isOptional };
  });
}

/** An operation with its fields, which fit. */
export interface Asked {
  readonly operation: Operation;
  readonly recipientId: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly names: Names;
}

/** Reads the fields. Throws InputError with every fault, by the names that the fields have where they were given. */
export function ask(operation: Operation, recipientId: string, input: unknown, names: Names = PLAIN_NAMES): Asked {
  const checked = operation.fields.safeParse(input);
  const faults = checked.success ? [] : checked.error.issues.flatMap((issue) => faultsOf(issue, input, operation));
  const named = faults.map((fault) => ({ ...fault, path: pathOf(fault.path, names) }));
  if (typeof input === 'object' && input !== null && !Array.isArray(input)) {
    named.push(...(operation.faults?.(input as Given, names) ?? []));
  }
  if (!checked.success || named.length > 0) throw new InputError(`cannot ${operation.name}`, named);
  return { operation, recipientId, fields: checked.data, names };
}

/** `rules[1].max` → `--rules[1].max` */
function pathOf(path: string, names: Names): string {
  return path.replace(/^\w*/, (field) => names.of(field));
}

function faultsOf(issue: z.core.$ZodIssue, input: unknown, { fields }: Operation): readonly Fault[] {
  if (issue.code === 'custom') {
    const { faults } = issue.params as { readonly faults: readonly Fault[] };
    return faults.map((fault) => ({ ...fault, path: `${formatPath(issue.path)}${fault.path}` }));
  }
  const meant = (_: readonly PropertyKey[], name: string) => nearest(name, Object.keys(fields.shape));
  return zodFaults(new z.ZodError([issue]), input, undefined, meant);
}
