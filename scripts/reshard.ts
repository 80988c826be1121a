import { setTimeout as sleep } from 'node:timers/promises';
import { loadQueueConfig, type Config } from '../src/config/config.ts';

import { createDeadLetters } from '../src/dead-letters/store.ts';
import { printable } from '../src/domain/faults.ts';
import {
  findLayout,
  hasQueue,
  LOOK_EVERY_MS,
  movingLayout,
  preparedLayout,
  steadyLayout,
  takeLease,
  type Layout,
  type LayoutLease,
} from '../src/queue/layout.ts';
import { outcomesKey } from '../src/queue/names.ts';
import { createMover, LeaseLostError, moveAll, type Mover } from '../src/queue/reshard.ts';
import { createShards, type Shards } from '../src/queue/shards.ts';
import { readWorkers, type SeenWorker } from '../src/queue/workers.ts';
import type { Connection } from '../src/redis/connection.ts';
import { MAX_SHARDS } from '../src/redis/target.ts';
import {
  callOf,
  CommandError,
  createCommand,
  integer,
  printJson,
  runCommand,
  UsageError,
} from '../src/terminal/command.ts';
import { createProgress, say } from '../src/terminal/progress.ts';
import { atQueueRedis, readEnvironment } from './support/queue.ts';

interface Flags {
  readonly to?: number;
  readonly json?: true;
}

const HELP = `
Workers go on meanwhile. First all living workers follow, and producers too (some 20 s); then notifications are added to the new
queues, and those that wait are moved, what is due first. If the command ends before, start it again with the same number: it goes on.
With the present number it only moves what is left in former queues.
It refuses while another one runs, while a worker is alive that does not follow (an older version), and while the queue is paused.
docs/shards.md says what producers in other languages must know.

REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME and QUEUE_PREFIX must be the same as the workers'.`;

/** `npm run reshard -- --to M`: another number of shards, while workers run. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('reshard', 'Changes the number of shards while workers run, and moves what waits.')
    .option('--to <shards>', `the new number, 1 to ${MAX_SHARDS}`, integer('--to', 1, MAX_SHARDS))
    .option('--json', 'one JSON object as the last line: from, to, moved, dropped, left, queues, seconds')
    .addHelpText('after', HELP)
    .action(async ({ to, json }: Flags) => {
      if (to === undefined)
        throw new UsageError(`expected --to <shards>, found none\nExample: ${callOf('reshard')} --to 4`);
      const { redis, queue } = loadQueueConfig(readEnvironment());
      const again = `; start it again to go on: ${callOf('reshard')} --to ${to}`;
      const result = await atQueueRedis(redis, (connection) => reshard(connection, queue, to), again);
      if (json) printJson(result);
      else process.stdout.write(`${textOf(result)}\n`);
    });
  await runCommand(command, argv);
}

interface Result {
  readonly from: number;
  readonly to: number;
  /** Jobs, dead letters too. */
  readonly moved: number;
  /** Of them, those whose id another notification has in the new queue. */
  readonly dropped: number;
  readonly left: number;
  /** By prefix: how many were moved there. */
  readonly queues: Readonly<Record<string, number>>;
  readonly seconds: number;
}

/** If the command is killed, another one may begin after this. */
const LEASE_MS = 10_000;
/** All producers that follow have looked twice. */
const PRODUCERS_MS = 2 * LOOK_EVERY_MS;
/** Workers look, finish what is under way, and say what they follow. */
const WORKERS_MS = 120_000;
const POLL_MS = 250;

async function reshard(connection: Connection, queue: Config['queue'], to: number): Promise<Result> {
  const began = performance.now();
  const shards = createShards(connection, queue);
  const lease = await takeLease(connection, queue.prefix, LEASE_MS);
  if (lease === undefined) {
    throw new CommandError(
      'another reshard of this queue runs, or was killed within the last 10 s: wait until it has ended',
    );
  }
  const stopping = new AbortController();
  const stop = (): void => stopping.abort(new CommandError(`stopped; go on: ${callOf('reshard')} --to ${to}`));
  process.once('SIGINT', stop).once('SIGTERM', stop);
  const renewing = setInterval(() => {
    lease.renew().then(
      (isHeld) => {
        if (!isHeld) stopping.abort(LEASE_LOST);
      },
      () => undefined, // the next call that fails reports it
    );
  }, LEASE_MS / 4).unref();
  try {
    const parts = { connection, prefix: queue.prefix, shards, lease, signal: stopping.signal };
    const known = await findLayout(connection, queue);
    const from = (known.phase === 'move' ? known.former[0] : known.prefixes)?.length ?? 1;
    const mover = await run(parts, known, to);
    const { moved, dropped, byPrefix } = mover?.counts ?? { moved: 0, dropped: 0, byPrefix: new Map<string, number>() };
    const left = (await mover?.left())?.jobs ?? 0;
    const seconds = Math.round((performance.now() - began) / 100) / 10;
    return { ...{ from, to, moved, dropped, left }, queues: Object.fromEntries(byPrefix), seconds };
  } catch (error) {
    throw error instanceof LeaseLostError ? LEASE_LOST : error;
  } finally {
    clearInterval(renewing);
    process.off('SIGINT', stop).off('SIGTERM', stop);
    await lease.release().catch(() => undefined);
    await shards.close();
  }
}

const LEASE_LOST = new CommandError('this process stood still for too long, and another one goes on in its place');

interface Parts {
  readonly connection: Connection;
  readonly prefix: string;
  readonly shards: Shards;
  readonly lease: LayoutLease;
  readonly signal: AbortSignal;
}

/** From the layout that there is, through the phases that are left. Undefined where there is nothing to move. */
async function run(parts: Parts, known: Layout, to: number): Promise<Mover | undefined> {
  const { prefix } = parts;
  await check(parts, known, to);
  let layout = known;
  if (layout.phase === 'prepare' && layout.prefixes.length === to) layout = await write(parts, steadyLayout(layout));
  if (layout.phase === 'steady' && layout.prefixes.length !== to) {
    layout = await write(parts, preparedLayout(layout, { prefix, shards: to }));
  }
  if (layout.phase === 'prepare') {
    say(`${layout.prefixes.length} shards become ${to}: waiting until workers and producers follow`);
    await followed(parts, layout, PRODUCERS_MS);
    layout = await write(parts, movingLayout(layout));
  }
  if (layout.phase === 'steady' && layout.former.length === 0) return undefined;
  const mover = createMover({ ...parts, layout, open: (of) => parts.shards.at(of) });
  if (layout.phase === 'steady') await move(parts, mover, layout, 0);
  else {
    await move(parts, mover, layout, PRODUCERS_MS);
    await followed(parts, layout, 0);
    await mover.tidy();
    await write(parts, steadyLayout(layout));
  }
  return mover;
}

async function check({ connection, prefix, shards }: Parts, known: Layout, to: number): Promise<void> {
  const { phase, prefixes, next } = known;
  if (known.version === 0 && !(await hasQueue(connection, prefixes[0] ?? prefix))) {
    throw new CommandError(
      `no queue ${printable(prefix)} on this Redis: does QUEUE_PREFIX fit? QUEUE_SHARDS gives the number of a new queue`,
    );
  }
  const begun = phase === 'move' ? prefixes.length : next?.length;
  if (begun !== undefined && begun !== to && !(phase === 'prepare' && to === prefixes.length)) {
    throw new CommandError(`a reshard to ${begun} is not done: end it first, with --to ${begun}`);
  }
  const opened = await shards.open();
  const paused = await Promise.all(opened.map(({ queue }) => queue.isPaused()));
  if (paused.includes(true)) throw new CommandError('the queue is paused: resume it first');
  refuseOlder(await living({ connection, prefix }));
}

function refuseOlder(workers: readonly SeenWorker[]): void {
  const older = workers.find(({ layout }) => layout === undefined);
  if (older === undefined) return;
  throw new CommandError(
    `${nameOf(older)} is of version ${printable(older.version)}, which does not follow the number of shards: replace it by the present version first`,
  );
}

async function living({ connection, prefix }: Pick<Parts, 'connection' | 'prefix'>): Promise<SeenWorker[]> {
  return (await readWorkers(connection, prefix)).workers.filter(({ alive }) => alive);
}

function nameOf({ host, pid }: SeenWorker): string {
  return `the worker ${printable(host)} (process ${pid})`;
}

async function write({ lease }: Parts, layout: Layout): Promise<Layout> {
  if (!(await lease.write(layout))) throw LEASE_LOST;
  return layout;
}

/** Resolves when all living workers follow the layout, and so long has passed. */
async function followed(parts: Parts, layout: Layout, leastMs: number): Promise<void> {
  const [began, { signal }] = [performance.now(), parts];
  for (;;) {
    signal.throwIfAborted();
    const workers = await living(parts);
    refuseOlder(workers);
    const late = workers.find((worker) => (worker.layout ?? 0) < layout.version);
    const waitedMs = performance.now() - began;
    if (late === undefined && waitedMs >= leastMs) return;
    if (late !== undefined && waitedMs > WORKERS_MS) {
      throw new CommandError(
        `${nameOf(late)} does not follow after ${WORKERS_MS / 1_000} s: look at its log, then start this again`,
      );
    }
    await sleep(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

/** With a bar on a terminal. Without a living worker nobody else makes failed jobs dead letters. */
async function move(parts: Parts, mover: Mover, { former, prefixes }: Layout, leastMs: number): Promise<void> {
  const { connection, shards, signal } = parts;
  if ((await living(parts)).length === 0) {
    for (const prefix of new Set(former.flat())) {
      if (prefixes.includes(prefix)) continue;
      const outcomesMax = (await connection.exists(outcomesKey(prefix))) === 1 ? OUTCOMES_KEPT : 0;
      await createDeadLetters({ ...(await shards.at(prefix)), outcomesMax }).sweep();
    }
  }
  const { jobs, active } = await mover.left();
  const progress = createProgress('moved', jobs + active);
  let isWaiting = false;
  try {
    await moveAll({
      ...{ mover, signal, leastMs },
      onProgress: ({ jobs: left, active: inHand }) => {
        const { moved, dropped } = mover.counts;
        progress.update(moved + dropped, moved + dropped + left + inHand);
        if (left > 0 || inHand === 0 || isWaiting) return;
        isWaiting = true;
        progress.say(`${inHand} are in the hand of workers: waiting until these have ended, or put them back`);
      },
    });
  } finally {
    progress.stop();
  }
}

/** As OUTCOMES_MAX of most workers. */
const OUTCOMES_KEPT = 100_000;

function textOf({ from, to, moved, dropped, seconds }: Result): string {
  const others = dropped === 0 ? '' : `; ${dropped} dropped, since their ids are taken by others`;
  if (from === to)
    return `${to} ${to === 1 ? 'shard' : 'shards'} already: ${moved === 0 ? 'nothing to do' : `moved ${moved} from former queues${others}`}`;
  return `${from} ${from === 1 ? 'shard' : 'shards'} became ${to}: moved ${moved} in ${seconds} s${others}`;
}

if (import.meta.main) await main(process.argv.slice(2));
