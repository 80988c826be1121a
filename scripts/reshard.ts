import { loadQueueConfig, type Config } from '../src/config/config.ts';
import { counted, printable } from '../src/domain/faults.ts';
import { pause } from '../src/domain/time.ts';
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
} from '../src/queue/shards/layout.ts';
import { createAudit } from '../src/operations/audit.ts';
import { createMover, LeaseLostError, moveAll, type Mover } from '../src/queue/shards/reshard.ts';
import { createShards, type Shards } from '../src/queue/shards/shards.ts';
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
import { atQueueRedis, readEnvironment, whoAmI } from './support/queue.ts';

interface Flags {
  readonly to?: number;
  readonly json?: true;
}

const HELP = `
Workers go on meanwhile. First all living workers follow, and producers too (10 s or a little more); then notifications are added to the new
queues, and those that wait are moved, what is due first. If the command ends before, start it again with the same number: it goes on.
With the present number it only empties former queues, and removes what BullMQ left of them.
It refuses while another one runs, while a worker is alive that does not follow (an older version), and while the queue is paused.
docs/shards.md says what producers in other languages must know.

REDIS_URL, REDIS_CLUSTER, REDIS_SENTINEL_NAME and QUEUE_PREFIX must be the same as the workers'.`;

/** `npm run reshard -- --to M`: changes the number of shards, while workers run. */
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
  /** How many jobs and dead letters were moved. */
  readonly moved: number;
  /** How many of these were dropped, because another notification has their id in the new queue. */
  readonly dropped: number;
  readonly left: number;
  /** For each queue, by its prefix: how many were moved to it. */
  readonly queues: Readonly<Record<string, number>>;
  readonly seconds: number;
}

/** If the command is killed, another one may begin after this time. */
const LEASE_MS = 10_000;
/** By this time, all producers that follow the layout have read it at least twice. */
const PRODUCERS_MS = 2 * LOOK_EVERY_MS;
/** By this time, workers have read the layout, finished what was under way, and reported what they follow. */
const WORKERS_MS = 120_000;
const POLL_MS = 250;

async function reshard(connection: Connection, queue: Config['queue'], to: number): Promise<Result> {
  const began = performance.now();
  await using cleanup = new AsyncDisposableStack();
  const stopping = new AbortController();
  const { signal } = stopping;
  const stop = (): void => stopping.abort(new CommandError(`stopped; go on: ${callOf('reshard')} --to ${to}`));
  process.once('SIGINT', stop).once('SIGTERM', stop);
  cleanup.defer(() => void process.off('SIGINT', stop).off('SIGTERM', stop));
  const shards = cleanup.adopt(createShards(connection, queue), (it) => it.close());
  const lease = cleanup.adopt(await waitForLease(connection, queue.prefix, signal), (it) =>
    it.release().catch(() => undefined),
  );
  const renewing = setInterval(() => {
    lease.renew().then(
      (isHeld) => {
        if (!isHeld) stopping.abort(LEASE_LOST);
      },
      () => undefined, // the next call that fails reports the error
    );
  }, LEASE_MS / 4).unref();
  cleanup.defer(() => clearInterval(renewing));
  try {
    const known = await findLayout(connection, queue);
    const from = (known.phase === 'move' ? known.former[0] : known.prefixes)?.length ?? 1;
    const mover = await run({ connection, prefix: queue.prefix, shards, lease, signal }, known, to);
    const { moved, dropped, byPrefix } = mover?.counts ?? { moved: 0, dropped: 0, byPrefix: new Map<string, number>() };
    const left = (await mover?.left())?.jobs ?? 0;
    await createAudit(connection, queue.prefix).write({
      ...{ who: whoAmI(), action: 'reshard', on: queue.prefix },
      facts: { from, to, moved, dropped },
    });
    const seconds = Math.round((performance.now() - began) / 100) / 10;
    return { ...{ from, to, moved, dropped, left }, queues: Object.fromEntries(byPrefix), seconds };
  } catch (error) {
    throw error instanceof LeaseLostError ? LEASE_LOST : error;
  }
}

/** A worker that moves jobs gives up the lease within seconds, and the lease of a killed command expires. */
async function waitForLease(connection: Connection, prefix: string, signal: AbortSignal): Promise<LayoutLease> {
  const began = performance.now();
  for (;;) {
    const lease = await takeLease(connection, prefix, LEASE_MS);
    if (lease !== undefined) return lease;
    if (performance.now() - began > LEASE_WAIT_MS) throw new CommandError(OTHER_RUNS);
    await pause(POLL_MS, signal);
  }
}

const LEASE_WAIT_MS = 1.5 * LEASE_MS;
const OTHER_RUNS = 'another reshard of this queue runs: wait until it has ended';
const LEASE_LOST = new CommandError(
  'Redis or this process did not answer for 10 s, so another process may go on in its place: start this again',
);

interface Parts {
  readonly connection: Connection;
  readonly prefix: string;
  readonly shards: Shards;
  readonly lease: LayoutLease;
  readonly signal: AbortSignal;
}

/** Goes from the present layout through all phases that are left. Undefined if there is nothing to move. */
async function run(parts: Parts, known: Layout, to: number): Promise<Mover | undefined> {
  const { prefix } = parts;
  await check(parts, known, to);
  let layout = known;
  if (layout.phase === 'prepare' && layout.prefixes.length === to) layout = await write(parts, steadyLayout(layout));
  if (layout.phase === 'steady' && layout.prefixes.length !== to) {
    // Jobs that a killed process had begun to move are noted for the present queues, so they are moved first.
    await moveWhatIsThere(moverOf(parts, layout), parts.signal);
    layout = await write(parts, preparedLayout(layout, { prefix, shards: to }));
  }
  if (layout.phase === 'prepare') {
    say(`from ${counted(layout.prefixes.length, 'shard')} to ${to}: waiting until workers and producers follow`);
    const before = moverOf(parts, layout);
    await followed(parts, layout, PRODUCERS_MS, before);
    await moveWhatIsThere(before, parts.signal);
    layout = await write(parts, movingLayout(layout));
  }
  if (layout.phase === 'steady' && layout.former.length === 0) return undefined;
  const mover = moverOf(parts, layout);
  if (layout.phase === 'steady') await move(parts, mover, 0);
  else {
    await move(parts, mover, PRODUCERS_MS);
    await followed(parts, layout, 0);
  }
  await mover.tidy();
  if (layout.phase !== 'steady') await write(parts, steadyLayout(layout));
  return mover;
}

function moverOf({ connection, lease, shards }: Parts, layout: Layout): Mover {
  return createMover({
    ...{ connection, lease, layout },
    open: (of) => shards.at(of),
  });
}

async function moveWhatIsThere(mover: Mover, signal: AbortSignal): Promise<void> {
  while ((await mover.moveSome()) > 0) signal.throwIfAborted();
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
  const schedulers = await Promise.all(opened.map(({ queue }) => queue.getJobSchedulersCount()));
  if (schedulers.some((count) => count > 0)) {
    throw new CommandError(
      'the queue has job schedulers of BullMQ, which cannot be moved: remove them first (queue.removeJobScheduler)',
    );
  }
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

/** Resolves when all living workers follow the layout, after at least `leastMs`. `mover` empties former queues meanwhile. */
async function followed(parts: Parts, layout: Layout, leastMs: number, mover?: Mover): Promise<void> {
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
    await mover?.moveSome();
    await pause(POLL_MS, signal);
  }
}

/** Moves the jobs, with a bar on a terminal. */
async function move({ signal }: Parts, mover: Mover, leastMs: number): Promise<void> {
  const { jobs, active } = await mover.left();
  const progress = createProgress('moved', jobs + active);
  const said = new Set<string>();
  const sayOnce = (line: string): void => {
    if (!said.has(line)) progress.say(line);
    said.add(line);
  };
  try {
    await moveAll({
      ...{ mover, signal, leastMs },
      onProgress: ({ jobs: left, active: inHand, isPaused }) => {
        const { moved, dropped } = mover.counts;
        progress.update(moved + dropped, moved + dropped + left + inHand);
        if (isPaused) sayOnce('a queue was paused: nothing is moved out of it until it is resumed');
        else if (left === 0 && inHand > 0)
          sayOnce('workers have the last ones in hand: waiting until these have ended, or are put back');
      },
    });
  } finally {
    progress.stop();
  }
}

function textOf({ from, to, moved, dropped, seconds }: Result): string {
  const others = dropped === 0 ? '' : `; ${dropped} dropped, since their ids are taken by others`;
  if (from === to)
    return `${to} ${to === 1 ? 'shard' : 'shards'} already: ${moved === 0 ? 'nothing to do' : `moved ${moved} from former queues${others}`}`;
  return `${from} ${from === 1 ? 'shard' : 'shards'} became ${to}: moved ${moved} in ${seconds} s${others}`;
}

if (import.meta.main) await main(process.argv.slice(2));
