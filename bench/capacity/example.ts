import { UsageError } from '../../src/terminal/command.ts';
import { formatDuration, parseDuration } from '../../src/domain/time.ts';
import { printed, wholeOf, type Report, type Table } from '../suite.ts';
import { DEFAULT_PLAN, needsOf, type Needs, type Plan } from './model.ts';

/** What `--model` takes, and which part of the plan each is. */
const NAMES = {
  recipients: 'recipients',
  alerts: 'alertsADay',
  window: 'windowMs',
  broadcast: 'broadcastMs',
  ahead: 'aheadMs',
  bytes: 'payloadBytes',
  waits: 'waits',
  line: 'line',
  shards: 'shards',
  masters: 'masters',
  replicas: 'replicas',
  answer: 'answerMs',
  concurrency: 'concurrency',
  completed: 'completed',
  'dead-letters': 'deadLetters',
  history: 'history',
  outcomes: 'outcomes',
} as const satisfies Readonly<Record<string, keyof Plan>>;
type Name = keyof typeof NAMES;

const MOST = 1e12;
/** Those that are not whole numbers from 0, or from 1. */
const DURATIONS: ReadonlySet<Name> = new Set(['window', 'broadcast', 'ahead', 'answer']);
const LEAST: Partial<Record<Name, number>> = {
  recipients: 1,
  bytes: 1,
  line: 1,
  shards: 1,
  masters: 1,
  concurrency: 1,
};

/** `['recipients=10000000', 'broadcast=10m']` → the default plan with these. Throws UsageError. */
export function parsePlan(texts: readonly string[]): Plan {
  const given = texts.map((text): Partial<Plan> => {
    const [name = '', value = ''] = text.split('=', 2);
    if (!(name in NAMES)) {
      throw new UsageError(
        `--model: expected NAME=VALUE with one of ${Object.keys(NAMES).join(', ')}, found ${JSON.stringify(text)}`,
      );
    }
    return { [NAMES[name as Name]]: valueOf(name as Name, value) };
  });
  return Object.assign({}, DEFAULT_PLAN, ...given) as Plan;
}

function valueOf(name: Name, text: string): number {
  const refuse = (expected: string): never => {
    throw new UsageError(`--model ${name}: expected ${expected}, found ${JSON.stringify(text)}`);
  };
  if (DURATIONS.has(name)) {
    const ms = parseDuration(text);
    return ms === undefined || ms <= 0 ? refuse('a duration such as 10m') : ms;
  }
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
  if (name === 'waits') return value >= 0 && value <= 1 ? value : refuse('a share from 0 to 1');
  if (name === 'alerts') return value >= 0 && value <= MOST ? value : refuse('a number from 0');
  const least = LEAST[name] ?? 0;
  return Number.isInteger(value) && value >= least && value <= MOST ? value : refuse(`a whole number from ${least}`);
}

/** What the model says of a plan, without measuring anything. */
export function example(plan: Plan): Report {
  const needs = needsOf(plan);
  return {
    json: { suite: 'capacity', plan, needs },
    ...printed([planTable(plan), needsTable(plan, needs)], 'By the model; nothing was measured.'),
  };
}

/** The cells of a plan in the table of docs/scaling.md: the peak, Redis in all and on the fullest master, cores, workers, connections to a node. */
export function magnitude(plan: Plan): string[] {
  const { peakPerSecond, memory, cores, workers, connections } = needsOf(plan);
  return [
    `${figure(peakPerSecond)}/s`,
    bytesText(memory.total),
    bytesText(memory.master),
    cores.all.toFixed(2),
    wholeOf(workers.needed),
    wholeOf(connections.aNode),
  ];
}

function planTable(plan: Plan): Table {
  return [
    ['plan', 'name', ''],
    ['recipients', 'recipients', wholeOf(plan.recipients)],
    ['alerts a day, of one', 'alerts', String(plan.alertsADay)],
    ['longest window of the limits', 'window', formatDuration(plan.windowMs)],
    ['a message to all within', 'broadcast', formatDuration(plan.broadcastMs)],
    ['enqueued so long ahead', 'ahead', plan.aheadMs === Infinity ? 'all at once' : formatDuration(plan.aheadMs)],
    ['share of it that waits for slots', 'waits', String(plan.waits)],
    ['a notification as JSON', 'bytes', bytesText(plan.payloadBytes)],
    [
      'shards; masters; replicas of each',
      'shards, masters, replicas',
      [plan.shards, plan.masters, plan.replicas].join('; '),
    ],
    [
      'answer of a provider; WORKER_CONCURRENCY',
      'answer, concurrency',
      `${formatDuration(plan.answerMs)}; ${plan.concurrency}`,
    ],
  ];
}

function needsTable(plan: Plan, needs: Needs): Table {
  const { memory, cores, workers, connections, network } = needs;
  const perSecond = (value: number): string => `${figure(value)}/s`;
  const cell = (name: string, value: string): string[] => [name, value];
  return [
    ['needs', ''],
    cell('notifications on an average day', perSecond(needs.usualPerSecond)),
    cell('with the message to all: the peak', perSecond(needs.peakPerSecond)),
    cell("a message to all at Google's 600,000 a minute", spanText(plan.recipients / FCM_PER_SECOND)),
    cell('the most at half a core of the busiest master', perSecond(needs.mostPerSecond)),
    cell('of one shard', perSecond(needs.mostPerSecondAShard)),
    cell('cores of the busiest master at the peak', cores.all.toFixed(2)),
    cell('of these for the queue, for the limiter', `${cores.queue.toFixed(2)}, ${cores.limiter.toFixed(2)}`),
    cell('Redis for recipients', bytesText(memory.recipients)),
    cell('for what waits of the message to all', bytesText(memory.waiting)),
    cell('for delivered ones and dead letters that are kept', bytesText(memory.completed + memory.deadLetters)),
    ...(memory.history + memory.outcomes === 0
      ? []
      : [cell('for stories and outcomes', bytesText(memory.history + memory.outcomes))]),
    cell('Redis in all, without replicas', bytesText(memory.total)),
    cell('with replicas', bytesText(memory.total * (1 + plan.replicas))),
    cell('the queue of a shard', bytesText(memory.shard)),
    cell('the fullest master', bytesText(memory.master)),
    cell('workers at the peak', wholeOf(workers.needed)),
    cell('memory of a worker, at most', bytesText(needs.workerBytes)),
    cell('connections of a worker, at most', wholeOf(connections.aWorker.all)),
    cell('of all workers to one node, at most', wholeOf(connections.aNode)),
    cell(
      'network of one notification: to Redis, from Redis',
      `${bytesText(network.redisIn)}, ${bytesText(network.redisOut)}`,
    ),
    cell('to the provider and back, to each replica', `${bytesText(network.provider)}, ${bytesText(network.replica)}`),
    cell('network at the peak, in all', `${bytesText(network.perSecond)}/s`),
  ];
}

const UNITS = ['', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** `2.3 kB`, `120 GB` */
function bytesText(bytes: number): string {
  if (bytes < 999.5) return `${wholeOf(bytes)} bytes`;
  let [value, unit] = [bytes, 0];
  for (; value >= 999.5 && unit < UNITS.length - 1; unit += 1) value /= 1_000;
  return `${figure(value)} ${UNITS[unit] ?? ''}`;
}

/** What Google allows one Firebase project (docs/quota.md). */
const FCM_PER_SECOND = 10_000;

/** `17 min`, `28 h` */
function spanText(seconds: number): string {
  if (seconds < 90) return `${figure(seconds)} s`;
  return seconds < 5_400 ? `${figure(seconds / 60)} min` : `${figure(seconds / 3_600)} h`;
}

/** Two digits that count: `1.4`, `58`, `17,000` */
function figure(value: number): string {
  if (value === 0) return '0';
  const step = 10 ** (Math.floor(Math.log10(value)) - 1);
  const rounded = Math.round(value / step) * step;
  return rounded >= 10 ? wholeOf(rounded) : String(Number(rounded.toPrecision(2)));
}
