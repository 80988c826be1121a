import { z } from 'zod';
import { fieldsOf } from '../src/operations/fields.ts';
import { ask, type Operation } from '../src/operations/operation.ts';
import type { CancelPreview, Preview } from '../src/operations/preview.ts';
import { previewOperation, runOperation, type Done } from '../src/operations/run.ts';
import type { Backend } from './backend.ts';

/** The result of an operation. All instants are epoch milliseconds. */
export interface Operated extends Pick<Done, 'moved'> {
  readonly recipientId: string;
  /** What was done, in one sentence. */
  readonly did: string;
  /** How many notifications wait for a slot now, and the slot of the last one. */
  readonly waiting: number;
  readonly lastAt?: number;
}

/** What an operation would do, with the first 1,000 slots that would move. */
export interface WouldOperate extends Preview, Partial<Pick<CancelPreview, 'cancels' | 'tooLate'>> {
  readonly recipientId: string;
  readonly would: string;
}

/** Both calls reject with InputError, which names each field that is not usable. `fields`: the JSON of the body. */
export interface Operations {
  /** @param who asked when all is ready, since it throws if the operator may not act any more */
  run(operation: Operation, recipientId: string, fields: unknown, who: () => string): Promise<Operated>;
  /** Writes nothing. */
  preview(operation: Operation, recipientId: string, fields: unknown): Promise<WouldOperate>;
}

const MOST_SHOWN = 1_000;

/** Runs and previews operations on one recipient, for the HTTP API. */
export function createOperations({ operating }: Pick<Backend, 'operating'>): Operations {
  return {
    async run(operation, recipientId, fields, who) {
      const asked = ask(operation, recipientId, fields);
      const parts = await operating(recipientId);
      const { text: did, fields: own, reserved, moved } = await runOperation(asked, parts, who());
      const lastAt = reserved.at(-1)?.at;
      const waiting = { waiting: reserved.length, ...(lastAt !== undefined && { lastAt }) };
      return { recipientId, did, ...own, ...waiting, moved };
    },
    async preview(operation, recipientId, fields) {
      const asked = ask(operation, recipientId, fields);
      const { would, preview } = await previewOperation(asked, await operating(recipientId));
      return { recipientId, would, ...preview, slots: preview.slots.slice(0, MOST_SHOWN) };
    },
  };
}

/** The JSON Schema of an operation's fields, as a request sends them. */
export function fieldsSchema(fields: z.ZodObject): Readonly<Record<string, unknown>> {
  const { properties, ...schema } = z.toJSONSchema(fields, { io: 'input' });
  const choices = new Map(fieldsOf({ fields }).map((field) => [field.name, field.choices]));
  const all = Object.entries(properties ?? {}).map(([name, each]) => {
    const allowed = choices.get(name);
    return [name, allowed === undefined ? each : { ...(each as object), enum: allowed }];
  });
  return { ...schema, $schema: undefined, properties: Object.fromEntries(all) as object };
}
