import type { Queue } from 'bullmq';
import type { Command } from 'commander';
import { COUNTED_APART, countedAs, type CountedApart } from '../../src/domain/limits.ts';
import { SEND_AFTER } from '../../src/domain/time.ts';
import type { Inspection } from '../../src/limiter/limiter.ts';
import { createCommand, printJson } from '../../src/terminal/command.ts';
import { columnsOf } from '../../src/terminal/text.ts';
import { describe, type WaitingSlot } from './describe.ts';
import { recipientId, atLimiter, atQueue } from './open.ts';
import { findDelayed, findJobs, findNotTaken, findSending } from '../../src/operations/jobs.ts';
import { jobIdOfAsk } from '../../src/delivery/slot.ts';

interface Flags {
  readonly all?: true;
  readonly json?: true;
}

/** How many waiting notifications are shown without `--all`. */
const MOST_SHOWN = 20;

const HELP = `
The limits are those of the living workers. If no worker is alive, LIMIT_RULES, LIMIT_MIN_GAP, LIMITS_FILE,
LIMIT_BACKGROUND_RULES and LIMIT_LIVE_ACTIVITY_RULES of this command are used: then they must be the same as the workers'.
Background pushes, and Live Activities without an alert, are shown where there are any: those that were sent within the longest
of their windows, and those that wait.
Notifications that are delayed without a slot (for a retry, or because of their provider) are shown too. The queue has no index
by recipient, so at most 20,000 delayed jobs are looked through, and as many of those that no worker has taken yet.`;

/** `recipient show ID` */
export function showCommand(): Command {
  return createCommand('show', "Shows a recipient's limits, sent slots, waiting notifications, and the next free slot.")
    .argument('<id>', 'the recipient', recipientId)
    .option('--all', `every notification that waits, not just the first ${MOST_SHOWN}`)
    .option('--json', 'one JSON object as the last line; instants are epoch milliseconds')
    .addHelpText('after', HELP)
    .action(show);
}

async function show(id: string, { all, json }: Flags): Promise<void> {
  await atLimiter(async ({ limiter, apart, config, limitsOf }) => {
    const inspection = await limiter.inspect(id);
    const pushes: { kind: CountedApart; inspection: Inspection }[] = [];
    for (const kind of COUNTED_APART) pushes.push({ kind, inspection: await apart[kind].inspect(id) });
    const most = all ? Infinity : MOST_SHOWN;
    const { categories } = config;
    const [waiting, delayed, notTaken, sending, ...waitingPushes] = await atQueue(config, id, (shard, connection) => {
      const reserved = [inspection, ...pushes.map((each) => each.inspection)].flatMap((each) => each.reserved);
      const known = new Set(reserved.flatMap((slot) => (slot.id && jobIdOfAsk(slot.id)) ?? []));
      return Promise.all([
        waitingOf(inspection, most, shard),
        findDelayed(shard, connection, { recipientId: id, known }),
        findNotTaken(shard, { recipientId: id, known }),
        findSending(shard, id, async (data, askId) => {
          const { category } = data as { readonly category?: unknown };
          const kind = countedAs(data as object);
          const answer = await (kind === 'alert' ? limiter : apart[kind]).peek({
            ...{ recipientId: id, id: askId },
            ...(typeof category === 'string' && { category }),
          });
          return answer.kind === 'admitted' && answer.repeated ? answer.at : undefined;
        }),
        ...pushes.map((each) => waitingOf(each.inspection, most, shard)),
      ]);
    });
    const others = pushes
      .map(({ kind, inspection: found }, index) => ({ kind, ...found, reserved: waitingPushes[index] ?? [] }))
      .filter(({ sent, reserved }) => sent.length + reserved.length > 0);
    if (json) {
      const shown = others.map(({ kind, policy, sent, reserved }) => [
        APART_FIELDS[kind],
        { rules: policy.rules, sent, reserved },
      ]);
      printJson({
        ...{ recipientId: id, ...inspection, categories, sending, reserved: waiting, delayed: delayed.found, notTaken },
        limitsOf: { workers: limitsOf?.workers ?? 0, others: limitsOf?.others ?? 0 },
        ...(Object.fromEntries(shown) as object),
      });
    } else {
      const columns = columnsOf();
      const found = { waiting, others, delayed, notTaken, sending };
      const lines = describe({ recipientId: id, inspection, ...found, categories, limitsOf, most, columns });
      process.stdout.write(`${lines.join('\n')}\n`);
    }
  });
}

/** What it may wait for although it has a slot. */
const NO_RULES: ReadonlySet<string> = new Set(['retry', 'provider', SEND_AFTER]);

/** Where the JSON has them. */
const APART_FIELDS: Readonly<Record<CountedApart, string>> = {
  background: 'background',
  liveactivity: 'liveActivity',
};

/** Why it waits for its slot says the limiter, which knows of every move. */
async function waitingOf(
  { reserved }: Pick<Inspection, 'reserved'>,
  most: number,
  queue: Queue<unknown>,
): Promise<WaitingSlot[]> {
  const jobIds = reserved.slice(0, most).map(({ id }) => id && jobIdOfAsk(id));
  const jobs = await findJobs(
    queue,
    jobIds.filter((id) => id !== undefined),
  );
  return reserved.map((slot, index) => {
    const notification = jobs.get(jobIds[index] ?? '');
    if (notification === undefined) return slot;
    return {
      ...slot,
      notification: NO_RULES.has(notification.waitsFor) ? notification : { ...notification, waitsFor: slot.rule },
    };
  });
}
