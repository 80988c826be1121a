import type { z } from 'zod';
import type { Fault } from '../domain/faults.ts';
import type { Policy } from '../domain/limits.ts';
import type { CancelTarget } from '../notification/notification.ts';
import type { Action } from '../limiter/foresee.ts';
import type { Inspection } from '../limiter/limiter.ts';
import type { Connection } from '../redis/connection.ts';
import type { Acted } from './actions.ts';
import { PLAIN_NAMES, readFields, type Given, type Names } from './fields.ts';

// What an operation on a recipient is. catalogue.ts has the operations, run.ts previews and runs them. The terminal, the console and the
// HTTP API each make their part from these values: flags, a form, a route.

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
  /** It takes back what an operator did, or changes nothing that is sent. */
  readonly isGentle?: true;
  /** The terminal has it as a flag of another operation, alone: `--clear` of `limit`. */
  readonly flagOf?: { readonly operation: string; readonly flag: string; readonly does: string };
  /** The fields of the JSON that are its own, in their order, as the command's help lists them. */
  readonly answers: readonly string[];
  /** Texts and JSON values as people write them. Each is made by `written`. */
  readonly fields: Fields;
  /** Whether a form makes sense for the recipient as it is, with what is kept about it. */
  isOffered(recipient: Inspection, kept: readonly Kept[]): boolean;
  /** With what a form begins. */
  initial?(recipient: Inspection): FormValues;
  /** What is wrong with the fields together. `given`: as they were written. */
  faults?(given: Given, names: Names): readonly Fault[];
  /** What it keeps about the recipient, beside the limiters: shown wherever the recipient is. */
  kept?(recipientId: string, store: OperatorStore): Promise<Kept | undefined>;
  /** What is to be done. Throws InputError, such as for an end that has passed. */
  plan(fields: z.output<Fields>, at: PlanContext): Plan;
}

export type FormValues = Readonly<Record<string, string | readonly string[]>>;

/** What a plan may depend on. */
export interface PlanContext {
  readonly recipientId: string;
  /** The limiter's clock: epoch milliseconds. */
  readonly now: number;
  /** The general limits. */
  readonly policy: Policy;
  readonly names: Names;
}

/** Where operations keep what is not the limiter's: the queue's Redis, under QUEUE_PREFIX. */
export interface OperatorStore {
  readonly connection: Connection;
  readonly prefix: string;
}

/** What an operation keeps about a recipient. */
export interface Kept {
  /** `Note`; safe for a terminal, as `text`. */
  readonly label: string;
  readonly text: string;
  /** For the JSON that shows the recipient. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** What an operation does by itself. It moves nothing that waits. */
export interface OwnDeed {
  readonly kind: 'own';
  /** @param who did it, as the audit shows it. Resolves to what `Result.wasThere` is. It is safe to repeat */
  run(store: OperatorStore, who: string): Promise<boolean>;
}

/** What is done: an action of the limiter, a cancel, or something of the operation's own. */
export type Deed = Action | { readonly kind: 'cancel'; readonly target: CancelTarget } | OwnDeed;

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

/** An operation with its fields, which fit. */
export interface Asked {
  readonly operation: Operation;
  readonly recipientId: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly names: Names;
}

/** Reads the fields. Throws InputError with every fault, by the names that the fields have where they were given. */
export function ask(operation: Operation, recipientId: string, input: unknown, names: Names = PLAIN_NAMES): Asked {
  const { name, fields } = operation;
  const read = readFields(`cannot ${name}`, fields, input, { names, faults: operation.faults?.bind(operation) });
  return { operation, recipientId, fields: read, names };
}
