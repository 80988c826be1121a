import { loadQueueConfig } from '../src/config/config.ts';
import { printable } from '../src/domain/faults.ts';
import { policyText } from '../src/domain/limits.ts';
import type { Environment } from '../src/environment/values.ts';
import { breakerText, readStatus, unreachableText, type StatusResult } from '../src/operations/status.ts';
import { DEAD_LETTERS, QUEUE, shardPrefixes } from '../src/queue/names.ts';
import type { Backlog } from '../src/queue/overview.ts';
import type { SeenWorker } from '../src/queue/workers.ts';
import { addressOf } from '../src/redis/target.ts';
import { createCommand, printJson, runCommand } from '../src/terminal/command.ts';
import {
  breakdown,
  columnsOf,
  table,
  deadLetters as deadLettersText,
  dim,
  green,
  heading,
  redOut,
  fromNow,
  instant,
  span,
} from '../src/terminal/text.ts';
import { quietHoursText } from '../src/domain/quiet-hours.ts';
import { showNotification } from './status/notification.ts';
import { atQueueRedis, openQueue, readEnvironment } from './support/queue.ts';

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
  const status = await look(readEnvironment());
  if (json) printJson(status.result);
  else process.stdout.write(`${describeStatus(status, columnsOf()).join('\n')}\n`);
}

interface Status {
  readonly result: StatusResult;
  /** `{pushpacer} on 127.0.0.1:6379` */
  readonly where: string;
}

async function look(env: Environment): Promise<Status> {
  const { redis, queue } = loadQueueConfig(env);
  return atQueueRedis(redis, async (connection) => {
    const shards = await Promise.all(
      shardPrefixes(queue.prefix, queue.shards).map(async (prefix) => ({
        queue: await openQueue(connection, QUEUE, prefix),
        deadQueue: await openQueue(connection, DEAD_LETTERS, prefix),
      })),
    );
    const result = await readStatus(shards, connection, queue.prefix);
    return { result, where: `${printable(queue.prefix)} on ${addressOf(connection)}` };
  });
}

/** So many workers are listed; `--json` has all. */
const MOST_WORKERS = 30;
const MOST_BREAKERS = 10;
/** On a narrow terminal: host, process, seen, clock, in hand. */
const ESSENTIAL_OF_WORKER = [0, 1, 4, 5, 6];

/** The output of `status`. If no worker lives, the first line says so; the last lines say what is wrong. */
function describeStatus({ result, where }: Status, columns: number | undefined): string[] {
  const first = result.workersAlive > 0 ? [] : [redOut('No worker is alive.'), ''];
  const width = { columns, wrap: true };
  const parts = [
    [...first, heading(`${where} at ${instant(result.now)}`)],
    table(factsOf(result), width),
    workersTable(result, columns),
    recipientsTable(result, columns),
    verdict(result, columns),
  ];
  return parts.filter((lines) => lines.length > 0).flatMap((lines, index) => (index === 0 ? lines : ['', ...lines]));
}

function factsOf(result: StatusResult): string[][] {
  const { now, due, untaken, jobs, outcomes, breakers, unreachable, policies } = result;
  return [
    ['workers', workersLine(result)],
    ...(policies.length === 0 ? [['policy', 'not known: no living worker tells it']] : policies.map(policyLine)),
    ['new', untaken.count === 0 ? 'none' : `${untaken.count} not taken yet${oldest(untaken, now)}`],
    ['due', due.count === 0 ? 'none' : `${due.count} not taken${oldest(due, now)}`],
    ['in hand', String(jobs['active'] ?? 0)],
    ['waiting', waitingLine(result)],
    ['oldest alert', oldestLine(result)],
    ['dead letters', deadLine(result)],
    ...(breakers.length === 0
      ? [['breakers', 'none is open']]
      : breakers
          .slice(0, MOST_BREAKERS)
          .map((breaker, index) => [index === 0 ? 'breakers' : '', breakerText(breaker, result)])),
    ...unreachable
      .slice(0, MOST_BREAKERS)
      .map((each, index) => [index === 0 ? 'unreachable' : '', unreachableText(each, result)]),
    ...(outcomes === 0 ? [] : [['outcomes', `${outcomes} in their stream`]]),
  ];
}

function workersLine({ workers, workersAlive }: StatusResult): string {
  const alive = workers.filter((worker) => worker.alive);
  const gone = workers.length - alive.length;
  const notSeen = gone === 0 ? '' : `${gone} that ${gone === 1 ? 'was' : 'were'} killed or frozen within the last hour`;
  if (workersAlive === 0) return `none is alive${notSeen === '' ? '' : `; ${notSeen}`}`;
  const [inHand, asleep, places] = [sum(alive, 'inHand'), sum(alive, 'asleep'), sum(alive, 'concurrency')];
  const sleeping = asleep === 0 ? '' : `, ${asleep} of them asleep`;
  return `${workersAlive} alive, with ${inHand} jobs in ${places} places${sleeping}${notSeen === '' ? '' : `; ${notSeen}`}`;
}

function sum(workers: readonly SeenWorker[], field: 'inHand' | 'asleep' | 'concurrency'): number {
  return workers.reduce((total, worker) => total + worker[field], 0);
}

function policyLine({ policy, categories, quietHours, workers }: StatusResult['policies'][number]): string[] {
  const names = Object.keys(categories).length;
  const parts = [
    policyText(policy),
    ...(names === 0 ? [] : [names === 1 ? '1 category' : `${names} categories`]),
    ...(quietHours === undefined ? [] : [`quiet hours ${quietHoursText(quietHours)}`]),
  ];
  return ['policy', `${parts.join('; ')} (${workers === 1 ? '1 worker' : `${workers} workers`})`];
}

function oldest({ oldestAt }: Backlog, now: number): string {
  return oldestAt === undefined ? '' : `, the oldest for ${span(Math.max(0, now - oldestAt))}`;
}

function waitingLine({ waiting: { lookedAt, of, byRule } }: StatusResult): string {
  if (of === 0) return 'none';
  const rules = Object.entries(byRule)
    .toSorted(([, a], [, b]) => b - a)
    .map(([rule, count]) => `${count} ${printable(rule)}`);
  const bound = lookedAt < of ? `among the first ${lookedAt} of ${of} delayed jobs: ` : '';
  return `${bound}${rules.length === 0 ? 'all are due' : rules.join(', ')}`;
}

function oldestLine({ now, waiting: { oldestAt } }: StatusResult): string {
  return oldestAt === undefined ? 'none waits' : `waits for ${span(now - oldestAt)}`;
}

function deadLine({ deadLetters: { total, lookedAt, byReason, lastHour } }: StatusResult): string {
  if (total === 0) return 'none';
  const bound = lookedAt < total ? ` among the newest ${lookedAt}` : '';
  return `${deadLettersText(total)}${breakdown(byReason)}${bound}; ${lastHour} in the last hour`;
}

function workersTable({ workers, now }: StatusResult, columns: number | undefined): string[] {
  if (workers.length === 0) return [];
  const ordered = workers.toSorted((a, b) => Number(b.alive) - Number(a.alive));
  const head = ['worker', 'process', 'version', 'started', 'seen', 'clock', 'in hand', 'on'];
  const rows = ordered
    .slice(0, MOST_WORKERS)
    .map((worker) => [
      printable(worker.host),
      String(worker.pid),
      printable(worker.version),
      fromNow(now, Math.min(now, worker.startedAt)),
      worker.alive ? `${span(worker.silentMs)} ago` : `not for ${span(worker.silentMs)}`,
      Math.abs(worker.clockOffsetMs) < 1_000
        ? 'ok'
        : `${worker.clockOffsetMs > 0 ? '-' : '+'}${span(Math.abs(worker.clockOffsetMs))}`,
      `${worker.inHand}/${worker.concurrency}`,
      [onText(worker), ...(worker.stopping ? ['stopping'] : [])].join('; '),
    ]);
  const [top = '', ...lines] = table([head, ...rows], { columns, essential: ESSENTIAL_OF_WORKER });
  const shown = lines.map((line, index) => (ordered[index]?.alive === false ? dim(line) : line));
  const more = workers.length - rows.length;
  return [heading(top), ...shown, ...(more > 0 ? [`and ${more} more; --json has all`] : [])];
}

/** `apns, fcm; 2 apps` */
function onText({ platforms, appCount }: SeenWorker): string {
  const apps = appCount === 0 ? [] : [appCount === 1 ? '1 app' : `${appCount} apps`];
  const own = platforms.length === 0 ? [] : [platforms.map(printable).join(', ')];
  return [...own, ...apps].join('; ') || 'no platform';
}

function recipientsTable({ waiting, now }: StatusResult, columns: number | undefined): string[] {
  if (waiting.recipients.length === 0) return [];
  const head = ['waits longest', 'alerts', 'since', 'the last is due'];
  const rows = waiting.recipients.map(({ recipientId, waiting: alerts, since, until }) => [
    printable(recipientId),
    String(alerts),
    fromNow(now, since),
    until === undefined ? 'now' : fromNow(now, until),
  ]);
  const [top = '', ...lines] = table([head, ...rows], { columns });
  return [heading(top), ...lines];
}

/** What a tired person reads first, since it stands at the end. */
function verdict({ wrong, workersAlive, waiting, jobs }: StatusResult, columns: number | undefined): string[] {
  if (wrong.length === 0) {
    const workers = workersAlive === 1 ? '1 worker is alive' : `${workersAlive} workers are alive`;
    const wait = `${waiting.of + (jobs['prioritized'] ?? 0) + (jobs['waiting'] ?? 0)} wait`;
    const text = `${workers}, ${wait}, nothing is late, every provider is reached, no breaker is open, no dead letter in the last hour`;
    return coloured(table([['ALL IS WELL', text]], { columns, wrap: true }), 'ALL IS WELL', green);
  }
  const rows = wrong.map(({ text }, index) => [index === 0 ? 'WRONG' : '', text]);
  return coloured(table(rows, { columns, wrap: true }), 'WRONG', redOut);
}

/** After the layout, which would count the colours as text. */
function coloured(lines: readonly string[], word: string, paint: (text: string) => string): string[] {
  return lines.map((line) => (line.startsWith(word) ? `${paint(word)}${line.slice(word.length)}` : line));
}

if (import.meta.main) await main(process.argv.slice(2));
