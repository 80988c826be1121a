import { printable } from '../src/domain/faults.ts';
import type { StoryPass } from '../src/notification/story.ts';
import { passText, sendsText } from '../src/operations/pass-words.ts';
import type { Told } from '../src/operations/story.ts';
import { NO_STORIES } from '../src/operations/why.ts';
import { PRODUCER_TIMEOUT_MS, whenReady } from '../src/redis/connection.ts';
import { createCommand, printJson, runCommand } from '../src/terminal/command.ts';
import { columnsOf, heading, instant, instantFrom, table, wrapText } from '../src/terminal/text.ts';
import { atBackend } from './support/backend.ts';
import { unfitId } from './support/queue.ts';

interface Flags {
  readonly json?: true;
}

const HELP = `
For one that waits: which rule holds it, which other notification is the cause, and when it goes. For one that has ended: how long it
took, and for what. Where the workers have HISTORY_MAX, each of its passes too, also when it ended hours ago.
Tokens, titles, texts and data are never shown.
REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME, QUEUE_PREFIX, LIMITER_REDIS_URL and LIMITER_REDIS_SENTINEL_NAME must be the same as
the workers'. How many shards there are is read from Redis.`;

/** `npm run why -- ID`: the story of one notification. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('why', 'Tells the story of one notification: why it waits, or why it was late.')
    .argument('<id>', "the notification's id")
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', HELP)
    .action(async (id: string, { json }: Flags) => {
      const told = await tell(id);
      const { now, status, story } = told;
      if (json) printJson({ id, now, ...status, story });
      else process.stdout.write(`${describe(id, told, columnsOf()).join('\n')}\n`);
    });
  await runCommand(command, argv);
}

function tell(id: string): Promise<Told> {
  return atBackend(async (backend) => {
    await whenReady(backend.limiterConnection, PRODUCER_TIMEOUT_MS).catch(() => undefined); // then the story lacks the slot's reason
    return backend.tell(id).catch((error: unknown) => {
      throw unfitId(error);
    });
  });
}

/** The widest output, since longer lines are hard to read. */
const WIDEST = 100;

function describe(id: string, { now, status, story }: Told, columns: number | undefined): string[] {
  const width = Math.min(columns ?? WIDEST, WIDEST);
  const { recipientId, category, enqueuedAt, enqueuedBy, replayedAt, passes, passesLeftOut, recorded, why } = story;
  const by = enqueuedBy === undefined ? '' : `, by ${printable(enqueuedBy)}`;
  const rows = [
    ['recipient', recipientId && printable(recipientId)],
    ['category', category && printable(category)],
    ['enqueued', enqueuedAt === undefined ? undefined : `${instantFrom(now, enqueuedAt)}${by}`],
    ['replayed', replayedAt === undefined ? undefined : instantFrom(now, replayedAt)],
  ].filter((row) => row[1] !== undefined) as string[][];
  const leftOut = passesLeftOut === 0 ? [] : [['', '', `not kept: ${passesLeftOut} older`]];
  const lines = [...leftOut, ...passes.flatMap((pass, index) => passRows(now, pass, passes[index - 1]))];
  const noPasses = status.state === 'unknown' || recorded ? [] : ['', ...wrapText(NO_STORIES, width)];
  return [
    heading(printable(id)),
    '',
    ...why.flatMap((sentence) => wrapText(sentence, width)),
    ...(rows.length === 0 ? [] : ['', ...table(rows, { columns, wrap: true })]),
    ...(lines.length === 0
      ? noPasses
      : ['', heading('Passes, the newest last'), ...table(lines, { columns, wrap: true })]),
  ];
}

/** When a pass began, its worker (if it is another one than before), and its result; then its sends. */
function passRows(now: number, pass: StoryPass, before: StoryPass | undefined): string[][] {
  const { at, worker = '' } = pass;
  const isSame = worker === before?.worker;
  const text = new Date(at).toISOString();
  const time = instant(at).slice(0, 10) === instant(now).slice(0, 10) ? text.slice(11) : text;
  const sends = sendsText(pass);
  return [
    [time, isSame ? '' : printable(worker), passText(now, pass, before)],
    ...(sends === '' ? [] : [['', '', sends]]),
  ];
}

if (import.meta.main) await main(process.argv.slice(2));
