import { parseCancelTarget, type Canceled, type CancelTarget } from '../src/notification/notification.ts';
import { printable } from '../src/domain/faults.ts';
import { runCommand } from '../src/terminal/command.ts';
import { runOnTarget, targetCommand, type TargetFlags } from './support/target.ts';

const HELP = `
What is canceled is not sent, and ends as "canceled". It is too late for what is being sent, may have alerted a device, or
has ended. If the command fails half-way, start it again.

REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, LIMITER_REDIS_URL, LIMITER_REDIS_SENTINEL_NAME and QUEUE_PREFIX must be the same
as the workers'. How many shards there are is read from Redis.`;

/** `npm run cancel -- ID | --recipient ID --key KEY`: cancels notifications that wait. */
export async function main(argv: readonly string[]): Promise<void> {
  const does = 'Cancels notifications that wait: one by its id, or all under a key.';
  const command = targetCommand('cancel', does, 'canceled, tooLate')
    .addHelpText('after', HELP)
    .action((id: string | undefined, flags: TargetFlags) =>
      runOnTarget(id, flags, {
        ...{ verb: 'cancel', parse: parseCancelTarget, textOf },
        async work(producer, target) {
          const { canceled, tooLate } = await producer.cancel(target);
          return { canceled, tooLate };
        },
      }),
    );
  await runCommand(command, argv);
}

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
