import { parseCancelTarget, type CancelTarget } from '../src/notification/notification.ts';
import { printable } from '../src/domain/faults.ts';
import type { Canceled } from '../src/producer/producer.ts';
import { callOf, createCommand, printJson, runCommand, UsageError } from '../src/terminal/command.ts';
import { atBackend } from './support/backend.ts';
import { whoAmI } from './support/queue.ts';

interface Flags {
  readonly id?: string;
  readonly recipient?: string;
  readonly key?: string;
  readonly json?: boolean;
}

const HELP = `
What is canceled is not sent, and ends as "canceled". It is too late for what is being sent, may have alerted a device, or
has ended. If the command fails half-way, start it again.

REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, LIMITER_REDIS_URL, LIMITER_REDIS_SENTINEL_NAME and QUEUE_PREFIX must be the same
as the workers'. How many shards there are is read from Redis.`;

/** `npm run cancel -- --id ID | --recipient ID --key KEY`: cancels notifications that wait. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('cancel', 'Cancels notifications that wait: one by its id, or all under a key.')
    .option('--id <id>', "the notification's id")
    .option('--recipient <id>', 'with --key: whose notifications')
    .option('--key <key>', 'with --recipient: the cancellationKey that they have in common')
    .option('--json', 'one JSON object as the last line: canceled, tooLate')
    .addHelpText('after', HELP)
    .action((flags: Flags) => cancel(flags));
  await runCommand(command, argv);
}

async function cancel(flags: Flags): Promise<void> {
  const target = targetOf(flags);
  const about =
    'id' in target
      ? { action: 'notification cancel', on: target.id, facts: {} }
      : { action: 'recipient cancel', on: target.recipientId, facts: { key: target.cancellationKey } };
  const result = await atBackend(async ({ producer, audit }) => {
    const note = (facts: Readonly<Record<string, number | boolean>>) =>
      audit.write({ ...about, who: whoAmI(), facts: { ...about.facts, ...facts } });
    const found = await producer.cancel(target).catch(async (error: unknown) => {
      await note({ failed: true }).catch(() => undefined); // the first error is reported
      throw error;
    });
    await note({ canceled: found.canceled, tooLate: found.tooLate });
    return found;
  }, '; it is safe to cancel again');
  if (flags.json === true) printJson(result);
  else process.stdout.write(`${textOf(result, target)}\n`);
}

function targetOf({ id, recipient, key }: Flags): CancelTarget {
  const isOne = id !== undefined && recipient === undefined && key === undefined;
  const isKey = id === undefined && recipient !== undefined && key !== undefined;
  if (!isOne && !isKey) {
    throw new UsageError(
      'expected --id, or --recipient and --key together\n' +
        `Examples: ${callOf('cancel')} --id msg-8841\n          ${callOf('cancel')} --recipient teacher-42 --key trip-77`,
    );
  }
  const parsed = parseCancelTarget(isOne ? { id } : { recipientId: recipient, cancellationKey: key });
  if (parsed.ok) return parsed.target;
  const faults = parsed.faults.map(
    ({ path, expected, found }) => `${FLAGS[path] ?? path}: expected ${expected}, found ${found}`,
  );
  throw new UsageError(faults.join('; '));
}

const FLAGS: Readonly<Record<string, string>> = { id: '--id', recipientId: '--recipient', cancellationKey: '--key' };

function textOf({ canceled, tooLate }: Canceled, target: CancelTarget): string {
  if (canceled + tooLate > 0) {
    const late = `; too late for ${tooLate}, which is being sent, may have alerted a device, or has ended`;
    return `canceled ${canceled}${tooLate === 0 ? '' : late}`;
  }
  if ('id' in target)
    return `canceled 0: no notification with the id ${target.id} waits, or ended within the last hour`;
  return `canceled 0: nothing waits for ${printable(target.recipientId)} under ${printable(target.cancellationKey)}`;
}

if (import.meta.main) await main(process.argv.slice(2));
