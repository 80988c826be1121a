import { readEnvironment } from './support/environment.ts';
import { createCommand, printJson, runCommand } from './support/command.ts';
import { columnsOf } from './support/terminal.ts';
import { describeStatus } from './status/describe.ts';
import { readStatus } from './status/look.ts';
import { showNotification } from './status/notification.ts';

interface Flags {
  readonly json?: true;
}

const HELP = `
The last lines say whether all is well, and if not, what is wrong. Exit code 0 in both cases; 1 only if Redis does not answer.
With an ID: everything that is known of this notification. Tokens, titles, texts and data are never shown.
Redis is asked for some thousand jobs at the most, whatever the queue holds; where that is not all of them, the output says so.
REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, QUEUE_PREFIX and QUEUE_SHARDS must be the same as the workers'; for an ID
LIMITER_REDIS_URL and LIMITER_REDIS_SENTINEL_NAME too.`;

/** `npm run status [-- ID]`: how workers and queue are, or what became of one notification. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('status', 'Shows how workers and queue are, or what became of one notification.')
    .argument('[id]', "a notification's id")
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', HELP)
    .action((id: string | undefined, { json }: Flags) =>
      id === undefined ? showAll(json ?? false) : showNotification(id, json ?? false),
    );
  await runCommand(command, argv);
}

async function showAll(json: boolean): Promise<void> {
  const status = await readStatus(readEnvironment());
  if (json) printJson(status.result);
  else process.stdout.write(`${describeStatus(status, columnsOf()).join('\n')}\n`);
}

if (import.meta.main) await main(process.argv.slice(2));
