import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import type { z } from 'zod';
import { notificationSchema } from '../../src/notification/notification.ts';
import { OPERATIONS } from '../../src/operations/catalogue.ts';
import { fieldsOf, type FieldOf, type Names } from '../../src/operations/fields.ts';
import { ask, type Asked, type Operation } from '../../src/operations/operation.ts';
import { runOperation } from '../../src/operations/run.ts';
import { createCommand, printJson, UsageError } from '../../src/terminal/command.ts';
import { createProgress } from '../../src/terminal/progress.ts';
import { atBackend } from '../support/backend.ts';
import { addFields, flagOf, namesOf, usage } from '../support/flags.ts';
import { waitingText, whoAmI } from '../support/queue.ts';

/** One command for each operation. An operation that only takes back another one is a flag of the other one's command. */
export function operationCommands(): readonly Command[] {
  // `pushpacer cancel` is a command of its own, since it also cancels without a recipient.
  return OPERATIONS.filter(({ name, flagOf }) => name !== 'cancel' && flagOf === undefined).map(commandOf);
}

type Flags = Readonly<Record<string, unknown>> & { readonly json?: true; readonly file?: string };

/** `recipient block ID --for 2h --reason TEXT` */
function commandOf(operation: Operation): Command {
  const back = OPERATIONS.find(({ flagOf }) => flagOf?.operation === operation.name);
  const answers = ['recipientId', ...operation.answers, 'waiting', 'lastAt', 'moved'].join(', ');
  const command = createCommand(operation.name, operation.does).argument('<id>', 'the recipient', (text) =>
    recipientId(text, notificationSchema.shape.recipientId),
  );
  addFields(command, fieldsOf(operation), back !== undefined);
  if (back?.flagOf !== undefined) command.option(back.flagOf.flag, back.flagOf.does);
  command.option('--json', `one JSON object as the last line: ${answers}`);
  if (operation.help !== '') command.addHelpText('after', operation.help);
  const named = fieldsOf(operation).filter(({ kind }) => kind === 'argument');
  return command.action(async (id: string, ...rest: unknown[]) => {
    const { json, ...flags } = rest.at(-2) as Flags;
    const given = named.flatMap(({ name }, place) => (rest[place] === undefined ? [] : [[name, rest[place]]]));
    const all = { ...flags, ...(Object.fromEntries(given) as object) };
    const asked = await usage(() => askedBy(operation, back, id, all));
    await run(asked, json === true);
  });
}

/** The operation that the flags ask for, with its fields. */
async function askedBy(
  operation: Operation,
  back: Operation | undefined,
  id: string,
  { file, ...flags }: { readonly file?: string } & Readonly<Record<string, unknown>>,
): Promise<Asked> {
  const fields = fieldsOf(operation);
  const given = fields.filter(({ name }) => name in flags);
  if (file === undefined) {
    const flag = back?.flagOf?.flag ?? '';
    const { [flag.slice(2)]: isBack, ...own } = flags;
    if (back === undefined || isBack !== true) return ask(operation, id, own, namesOf(fields, back ? [flag] : []));
    checkAlone(flag, given);
    return ask(back, id, {});
  }
  checkAlone('--file', given);
  // A fault in the file is named by its place in the file: `--file: quietHours[0].from`.
  const names: Names = {
    word: 'field',
    of: (name) => (name === '' ? '--file' : `--file: ${name}`),
    others: [],
  };
  const whole = Object.fromEntries(fields.filter(({ kind }) => kind === 'file').map(({ name }) => [name, undefined]));
  const content: unknown = await readJson(file);
  const isObject = typeof content === 'object' && content !== null && !Array.isArray(content);
  return ask(operation, id, isObject ? { ...whole, ...content } : content, names);
}

/** Throws if there are other flags beside a flag that must be alone. */
function checkAlone(flag: string, given: readonly FieldOf[]): void {
  const [other] = given;
  if (other !== undefined) throw new UsageError(`${flag}: expected nothing beside it, found ${flagOf(other)}`);
}

async function readJson(path: string): Promise<unknown> {
  let content: string;
  try {
    content = path === '-' ? await text(process.stdin) : await readFile(path, 'utf8');
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    throw new UsageError(`--file: expected a file that can be read, found ${JSON.stringify(path)} (${code})`);
  }
  try {
    return JSON.parse(content) as unknown;
  } catch {
    throw new UsageError(`--file: expected JSON, found text that is not JSON`);
  }
}

/** Runs the operation, and says what was done, and what waits now. */
async function run(asked: Asked, json: boolean): Promise<void> {
  const { recipientId: id } = asked;
  const done = await atBackend(async (backend) => {
    const parts = await backend.operating(id);
    const progress = createProgress('moved');
    const onMoved = (moved: number, waited: number): void => progress.update(moved, Math.max(moved, waited));
    try {
      return await usage(() => runOperation(asked, parts, whoAmI(), onMoved));
    } finally {
      progress.stop();
    }
  });
  const { now, reserved, moved, text: did, fields, isShort } = done;
  const movedText = moved === 0 ? undefined : `${moved} moved`;
  const then = [waitingText({ now, reserved }), movedText].filter((text) => text !== undefined).join('; ');
  if (json) {
    const lastAt = reserved.at(-1)?.at;
    printJson({ recipientId: id, ...fields, waiting: reserved.length, lastAt, moved });
  } else process.stdout.write(`${did}${then === '' ? '' : `${isShort ? '; ' : '\n'}${then}`}\n`);
}

/** Parses the recipient's id in the argument. `as`: which recipients the command takes. */
export function recipientId(text: string, as: z.ZodType<string>): string {
  const checked = as.safeParse(text);
  if (checked.success) return checked.data;
  const expected = checked.error.issues[0]?.message ?? 'a recipient';
  throw new UsageError(`ID: expected ${expected}, found ${JSON.stringify(text)}`);
}
