import { isOrAre, printable } from '../../src/domain/faults.ts';
import { policyText } from '../../src/domain/limits.ts';
import { quietHoursText } from '../../src/domain/quiet-hours.ts';
import type { Rates } from '../../src/operations/rates.ts';
import { breakerText, leastOf, unreachableText, type StatusResult } from '../../src/operations/status.ts';
import type { Backlog } from '../../src/queue/overview.ts';
import type { SeenWorker } from '../../src/queue/workers.ts';
import {
  breakdown,
  counted,
  cut,
  deadLetters as deadLettersText,
  dim,
  fromNow,
  green,
  heading,
  instant,
  redOut,
  span,
  table,
  type TableOptions,
} from '../../src/terminal/text.ts';

/** The result of one look, and where it looked. */
export interface Status {
  readonly result: StatusResult;
  /** `{pushpacer} on 127.0.0.1:6379` */
  readonly where: string;
}

/** At most this many workers are listed; `--json` has all. */
const MOST_WORKERS = 30;
const MOST_BREAKERS = 10;
/** The columns that stay on a narrow terminal: host, process, seen, clock, in hand. */
const ESSENTIAL_OF_WORKER = [0, 1, 4, 5, 6];

/** The output of `status`. If nothing can be sent, the first line says why; the last lines say what is wrong. */
export function describeStatus({ result, where }: Status, columns: number | undefined): string[] {
  const stop = stopOf(result);
  const first = stop === undefined ? [] : [redOut(stop), ''];
  const width = { columns, wrap: true };
  return inParts([
    [...first, titleOf({ result, where })],
    table(factsOf(result), width),
    workersTable(result, columns),
    recipientsTable(result, columns),
    verdict(result, width),
  ]);
}

function stopOf({ noWrites, workersAlive }: StatusResult): string | undefined {
  if (noWrites !== undefined) return 'Redis takes no writes.';
  return workersAlive > 0 ? undefined : 'No worker is alive.';
}

/**
 * The output for a screen that may be too small: what is wrong comes first, each fact is one line, and the end may be cut.
 *
 * @param isNow false for an earlier look, shown while Redis does not answer: it must not say that all is well
 */
export function describeScreen({ result, where }: Status, columns: number, isNow: boolean): string[] {
  return inParts([
    [titleOf({ result, where }, columns)],
    isNow ? verdict(result, { columns }) : [],
    table(factsOf(result), { columns }),
    workersTable(result, columns),
    recipientsTable(result, columns),
  ]);
}

function titleOf({ result, where }: Status, columns = Infinity): string {
  return heading(cut(`${where} at ${instant(result.now)}`, columns));
}

/** Joins the parts, with an empty line between two of them. */
function inParts(parts: readonly (readonly string[])[]): string[] {
  return parts.filter((lines) => lines.length > 0).flatMap((lines, index) => (index === 0 ? lines : ['', ...lines]));
}

/** `4 (moving from 2: 1200 left)` */
function shardsLine({ phase, from, to, left }: StatusResult['shards']): string {
  if (phase === 'prepare') return `${from} (a reshard to ${to} begins)`;
  if (phase === 'move') return `${to} (moving from ${from}: ${left} left)`;
  return left === 0 ? String(to) : `${to} (${left} in former queues, which workers move)`;
}

function factsOf(result: StatusResult): string[][] {
  const { now, due, untaken, jobs, outcomes, breakers, unreachable, policies, rates } = result;
  return [
    ['workers', workersLine(result)],
    ...(result.shards.version === 0 ? [] : [['shards', shardsLine(result.shards)]]),
    ...(rates === undefined ? [] : [['rates', ratesLine(rates)]]),
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

function workersLine({ workers, workersAlive, noWrites }: StatusResult): string {
  const alive = workers.filter((worker) => worker.alive);
  const gone = workers.length - alive.length;
  const notSeen = gone === 0 ? '' : `${gone} that ${gone === 1 ? 'was' : 'were'} killed or frozen within the last hour`;
  if (workersAlive === 0 && noWrites !== undefined) return 'not known: they cannot write that they are alive';
  if (workersAlive === 0) return `none is alive${notSeen === '' ? '' : `; ${notSeen}`}`;
  const [inHand, asleep, places] = [sum(alive, 'inHand'), sum(alive, 'asleep'), sum(alive, 'concurrency')];
  const sleeping = asleep === 0 ? '' : `, ${asleep} of them asleep`;
  return `${workersAlive} alive, with ${counted(inHand, 'job')} in ${counted(places, 'place')}${sleeping}${notSeen === '' ? '' : `; ${notSeen}`}`;
}

/** `120 passes, 81.5 delivered, 38 requeued, 0 dead letters a second` */
function ratesLine({ passesPerS, deliveredPerS, requeuedPerS, deadPerS }: Rates): string {
  const [passes, delivered, requeued, dead] = [passesPerS, deliveredPerS, requeuedPerS, deadPerS].map(perSecond);
  return `${passes} passes, ${delivered} delivered, ${requeued} requeued, ${dead} dead letters a second`;
}

/** A rate with three digits: 0.204, 8.5, 120. */
function perSecond(rate: number): string {
  return rate >= 100 ? String(Math.round(rate)) : String(Number(rate.toPrecision(3)));
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

function deadLine({ deadLetters: dead }: StatusResult): string {
  const { total, lookedAt, byReason, lastHour } = dead;
  if (total === 0) return 'none';
  const bound = lookedAt < total ? ` among the newest ${lookedAt}` : '';
  return `${deadLettersText(total)}${breakdown(byReason)}${bound}; ${leastOf(dead)}${lastHour} in the last hour`;
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

/** The last lines, which a tired operator reads first: whether all is well. */
function verdict({ wrong, workersAlive, waiting, jobs, deadLetters }: StatusResult, width: TableOptions): string[] {
  if (wrong.length === 0) {
    const workers = `${counted(workersAlive, 'worker')} ${isOrAre(workersAlive)} alive`;
    const waits = waiting.of + (jobs['prioritized'] ?? 0) + (jobs['waiting'] ?? 0);
    const wait = `${waits} ${waits === 1 ? 'waits' : 'wait'}`;
    const { lastHour } = deadLetters;
    const dead = lastHour === 0 ? 'no dead letter' : `${leastOf(deadLetters)}${deadLettersText(lastHour)}`;
    const text = `${workers}, ${wait}, nothing is late, every provider is reached, no breaker is open, ${dead} in the last hour`;
    return coloured(table([['ALL IS WELL', text]], width), 'ALL IS WELL', green);
  }
  const rows = wrong.map(({ text }, index) => [index === 0 ? 'WRONG' : '', text]);
  return coloured(table(rows, width), 'WRONG', redOut);
}

/** Colours the word at the beginning of lines. Done after the layout, which would count the colour codes as text. */
function coloured(lines: readonly string[], word: string, paint: (text: string) => string): string[] {
  return lines.map((line) => (line.startsWith(word) ? `${paint(word)}${line.slice(word.length)}` : line));
}
