import { parseRetractTarget, type Retracted, type RetractTarget } from '../src/notification/notification.ts';
import { printable } from '../src/domain/faults.ts';
import { runCommand } from '../src/terminal/command.ts';
import { numberOr } from './support/flags.ts';
import { runOnTarget, targetCommand, type TargetFlags } from './support/target.ts';

const HELP = `
What waits is canceled. What has alerted devices is taken from their screens, by a background push that the app must understand.
What is being sent is taken back when its provider has answered: workers do that. An id that nobody knows is taken for an hour:
a notification that is enqueued with it meanwhile is not sent. If the command fails half-way, start it again.

REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, LIMITER_REDIS_URL, LIMITER_REDIS_SENTINEL_NAME and QUEUE_PREFIX must be the same
as the workers'. How many shards there are is read from Redis.`;

/** `npm run retract -- ID | --recipient ID --key KEY`: cancels what waits, and takes back what was sent. */
export async function main(argv: readonly string[]): Promise<void> {
  const does = 'Takes notifications back: cancels those that wait, and takes those that were sent from the devices.';
  const command = targetCommand('retract', does, 'canceled, retracting, ended, unknown')
    .option('--badge <number>', "the number that the app's icon gets; without it, it stays", numberOr)
    .addHelpText('after', HELP)
    .action((id: string | undefined, flags: TargetFlags) =>
      runOnTarget(id, flags, {
        ...{ verb: 'retract', parse: parseRetractTarget, textOf },
        async work(producer, target) {
          const { canceled, retracting, ended, unknown } = await producer.retract(target);
          return { canceled, retracting, ended, unknown };
        },
      }),
    );
  await runCommand(command, argv);
}

function textOf({ canceled, retracting, ended, unknown }: Retracted, target: RetractTarget): string {
  if (unknown > 0 && 'id' in target)
    return `no notification has the id ${target.id}; if it is enqueued within the next hour, it is not sent`;
  const parts = [
    canceled === 0 ? '' : `canceled ${canceled}`,
    retracting === 0 ? '' : `retracting ${retracting}: sent, and to be taken from the devices`,
    ended === 0 ? '' : `${ended} ended without an alert of its own: nothing to take back`,
  ].filter((part) => part !== '');
  if (parts.length > 0 || 'id' in target) return parts.join('; ');
  const whose = `for ${printable(target.recipientId)} under ${printable(target.cancellationKey)}`;
  return `retracted 0: nothing waits ${whose}, or ended within the last hour`;
}

if (import.meta.main) await main(process.argv.slice(2));
