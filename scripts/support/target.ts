import { formatFault, type Fault } from '../../src/domain/faults.ts';
import type { CancelTarget } from '../../src/notification/notification.ts';
import type { Producer } from '../../src/producer/producer.ts';
import { callOf, createCommand, printJson, UsageError } from '../../src/terminal/command.ts';
import { atBackend } from './backend.ts';
import { whoAmI } from './queue.ts';

// What `cancel` and `retract` share: one notification, or all of a recipient under a key, and an entry in the audit.

export interface TargetFlags {
  readonly id?: string;
  readonly recipient?: string;
  readonly key?: string;
  /** A text if the flag's value is no number. */
  readonly badge?: number | string;
  readonly json?: boolean;
}

export function targetCommand(name: string, does: string, jsonFields: string) {
  return createCommand(name, does)
    .argument('[id]', "the notification's id")
    .option('--id <id>', 'the same, as a flag')
    .option('--recipient <id>', 'with --key: whose notifications')
    .option('--key <key>', 'with --recipient: the cancellationKey that they have in common')
    .option('--json', `one JSON object as the last line: ${jsonFields}`);
}

type Parsed<Target> =
  { readonly ok: true; readonly target: Target } | { readonly ok: false; readonly faults: readonly Fault[] };

interface Run<Target, Result> {
  readonly verb: string;
  readonly parse: (raw: object) => Parsed<Target>;
  readonly work: (producer: Producer, target: Target) => Promise<Result>;
  readonly textOf: (result: Result, target: Target) => string;
}

/** Runs `work` on the target that the argument or the flags name, writes the audit, and prints the result. */
export async function runOnTarget<
  Target extends CancelTarget & { readonly badge?: number | undefined },
  Result extends object,
>(
  argument: string | undefined,
  { json, ...flags }: TargetFlags,
  { verb, parse, work, textOf }: Run<Target, Result>,
): Promise<void> {
  if (argument !== undefined && flags.id !== undefined) throw new UsageError('expected one id, found two');
  const id = argument ?? flags.id;
  const target = targetOf({ ...flags, ...(id !== undefined && { id }) }, verb, parse);
  const { badge } = target;
  const more = badge === undefined ? {} : { badge };
  const about =
    'id' in target
      ? { action: `notification ${verb}`, on: target.id, facts: more }
      : { action: `recipient ${verb}`, on: target.recipientId, facts: { key: target.cancellationKey, ...more } };
  const result = await atBackend(async ({ producer, audit }) => {
    const note = (facts: object) => audit.write({ ...about, who: whoAmI(), facts: { ...about.facts, ...facts } });
    const found = await work(producer, target).catch(async (error: unknown) => {
      await note({ failed: true }).catch(() => undefined); // the first error is reported
      throw error;
    });
    await note(found);
    return found;
  }, `; it is safe to ${verb} again`);
  if (json === true) printJson(result);
  else process.stdout.write(`${textOf(result, target)}\n`);
}

function targetOf<Target>(
  { id, recipient, key, badge }: TargetFlags,
  verb: string,
  parse: (raw: object) => Parsed<Target>,
): Target {
  const isOne = id !== undefined && recipient === undefined && key === undefined;
  const isKey = id === undefined && recipient !== undefined && key !== undefined;
  if (!isOne && !isKey) {
    throw new UsageError(
      'expected an id, or --recipient and --key together\n' +
        `Examples: ${callOf(verb)} msg-8841\n          ${callOf(verb)} --recipient teacher-42 --key trip-77`,
    );
  }
  const named = isOne ? { id } : { recipientId: recipient, cancellationKey: key };
  const parsed = parse({ ...named, ...(badge !== undefined && { badge }) });
  if (parsed.ok) return parsed.target;
  throw new UsageError(
    parsed.faults.map((fault) => formatFault({ ...fault, path: FLAGS[fault.path] ?? fault.path })).join('; '),
  );
}

const FLAGS: Readonly<Record<string, string>> = {
  id: '--id',
  recipientId: '--recipient',
  cancellationKey: '--key',
  badge: '--badge',
};
