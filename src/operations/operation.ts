import type { z } from 'zod';
import type { Fault } from '../domain/faults.ts';
import type { Policy } from '../domain/limits.ts';
import type { CancelTarget } from '../notification/notification.ts';
import type { Action } from '../limiter/foresee.ts';
import type { Inspection } from '../limiter/limiter.ts';
import type { Connection } from '../redis/connection.ts';
import type { Acted } from './actions.ts';
import { PLAIN_NAMES, readFields, type Given, type Names } from './fields.ts';

// What an operation on a recipient is. catalogue.ts has the operations, run.ts previews and runs them. The terminal, the
// console and the HTTP API each build their own part from these values: flags, a form, a route.

/** What an operator may do to one recipient. */
export interface Operation<Fields extends z.ZodObject = z.ZodObject> {
  /** `block`: the name of the command, the end of the route, and the action in the audit. */
  readonly name: string;
  /** The text of its button. */
  readonly title: string;
  /** What the operation does, in one sentence. */
  readonly does: string;
  /** What the operation leads to, for the reader of a command's help: whole sentences, with line breaks. */
  readonly help: string;
  /** The same as `help`, in short, shown above a form. */
  readonly hint: string;
  /** What has been done, without the recipient: `the recipient is blocked`. */
  readonly done: string;
  /** The scope that a token needs for it. */
  readonly scope: 'operate';
  /** True if the operation takes back what an operator did, or changes nothing that is sent. */
  readonly isGentle?: true;
  /** In the terminal, this operation is a flag of another one: `limit --clear`. */
  readonly flagOf?: { readonly operation: string; readonly flag: string; readonly does: string };
  /** The JSON fields of its answer that only this operation has, in the order in which the command's help lists them. */
  readonly answers: readonly string[];
  /** The fields, as texts and JSON values that people write. Each is made by `written`. */
  readonly fields: Fields;
  /** Whether a form makes sense for the recipient in this state, with what is kept about it. */
  isOffered(recipient: Inspection, kept: readonly Kept[]): boolean;
  /** The values that a form begins with. */
  initial?(recipient: Inspection): FormValues;
  /** What is wrong with the fields together. `given`: as they were written. */
  faults?(given: Given, names: Names): readonly Fault[];
  /** What the operation keeps about the recipient outside of the limiters; shown wherever the recipient is shown. */
  kept?(recipientId: string, store: OperatorStore): Promise<Kept | undefined>;
  /** Plans what to do. Throws InputError, for example for an end that has passed. */
  plan(fields: z.output<Fields>, at: PlanContext): Plan;
}

export type FormValues = Readonly<Record<string, string | readonly string[]>>;

/** Everything on which a plan may depend. */
export interface PlanContext {
  readonly recipientId: string;
  /** The limiter's clock: epoch milliseconds. */
  readonly now: number;
  /** The general limits. */
  readonly policy: Policy;
  readonly names: Names;
}

/** Where operations keep what does not belong in a limiter: the queue's Redis, under QUEUE_PREFIX. */
export interface OperatorStore {
  readonly connection: Connection;
  readonly prefix: string;
}

/** What an operation keeps about a recipient. */
export interface Kept {
  /** Example: `Note`. `label` and `text` are safe for a terminal. */
  readonly label: string;
  readonly text: string;
  /** The fields of the JSON that shows the recipient. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** What an operation itself does, without a limiter or a cancel. It moves no waiting notification. */
export interface OwnDeed {
  readonly kind: 'own';
  /** Resolves to the value of `Result.wasThere`. It is safe to repeat. @param who the operator, as the audit shows it */
  run(store: OperatorStore, who: string): Promise<boolean>;
}

/** What is done: an action of the limiter, a cancel, or what the operation itself does. */
export type Deed = Action | { readonly kind: 'cancel'; readonly target: CancelTarget } | OwnDeed;

export interface Plan {
  readonly deed: Deed;
  /**
   * The fields with which the same operation can be done later. The end is an instant, even if a duration was given. A field
   * that was left out has the value that was used. The audit shows these fields.
   */
  readonly settled: Readonly<Record<string, string | number>>;
  /** What would be done, with the values that the fields mean: whole sentences. */
  readonly would: string;
  did(result: Result): Did;
}

export interface Result extends Acted {
  /** For a cancel: how many were canceled, and for how many it was too late. */
  readonly canceled: number;
  readonly tooLate: number;
  /** The recipient at the limiter of alerts, before and after. */
  readonly before: Inspection;
  readonly after: Inspection;
}

export interface Did {
  /** `teacher-42 is blocked until …`; safe for a terminal. */
  readonly text: string;
  /** The fields that `answers` names. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** True for a short text: what waits may be said on the same line. */
  readonly isShort?: true;
}

/** Makes an operation for the list. Here the compiler checks its fields against its plan. */
export function defineOperation<Fields extends z.ZodObject>(operation: Operation<Fields>): Operation {
  return operation;
}

/** An operation with fields that were read and are valid. */
export interface Asked {
  readonly operation: Operation;
  readonly recipientId: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly names: Names;
}

/** Reads the fields. Throws InputError with every fault; the faults name the fields as `names` does. */
export function ask(operation: Operation, recipientId: string, input: unknown, names: Names = PLAIN_NAMES): Asked {
  const { name, fields } = operation;
  const read = readFields(`cannot ${name}`, fields, input, { names, faults: operation.faults?.bind(operation) });
  return { operation, recipientId, fields: read, names };
}
