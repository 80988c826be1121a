import { access, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { startProviders } from '../../demo/providers-process.ts';
import { createProgress } from '../../src/terminal/progress.ts';
import { lostLocks, startFleet, startKillableRedis, stopsWithoutRedis, thawsOf } from '../fleet.ts';
import type { Recorded } from '../inject.ts';
import { readDelays, readLogs, type Logs } from '../logs.ts';
import { openChaosQueue, type ChaosQueue } from '../queue.ts';
import { refOf } from '../workload.ts';
import type { PairsPlan } from './acts.ts';
import { EARLIER, unpackVersion } from './earlier.ts';
import { countOpen, readEnds } from './ends.ts';
import type { PairsFacts } from './facts.ts';
import { readLeftovers } from './leftovers.ts';
import { watchLines } from './line-looks.ts';
import { openOperator, type Operator } from './operator.ts';
import { readLines } from './story.ts';
import { AHEAD_MS, strike } from './strike.ts';
import { devicesOf, LIMITS, WORKER_ENVIRONMENT, type Item } from './workload.ts';

export interface PairsRunOptions {
  readonly seed: number;
  readonly plan: PairsPlan;
  readonly items: readonly Item[];
  readonly marker: string;
  readonly drainTimeoutMs: number;
  /** The folder for the workers' output. Default: a temporary one, removed at the end. */
  readonly keep?: string | undefined;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Starts all parts, does the plan, ends all faults, drains the queue, stops the workers, and reads what is left. */
export async function runPairs(options: PairsRunOptions): Promise<PairsFacts> {
  const { plan, items, marker, say, signal } = options;
  const beganAt = performance.now();
  await using cleanup = new AsyncDisposableStack();
  const folder = await openFolder(options.keep, cleanup);
  const server = cleanup.adopt(await startKillableRedis(say), (it) => it.close());
  const providers = cleanup.adopt(await startProviders({ seed: options.seed }), (it) => it.close());
  const redis = cleanup.adopt(new Redis(server.url, { maxRetriesPerRequest: null }), (it) => it.disconnect());
  const queue = cleanup.adopt(openQueues(server.url, plan), (it) => it.close());
  const operator = cleanup.adopt(openOperator({ redis, redisUrl: server.url, prefix: queue.prefix, marker }), (it) =>
    it.close(),
  );
  const limitsFile = join(folder, 'limits.json');
  await writeFile(limitsFile, JSON.stringify(LIMITS));
  const places = { REDIS_URL: server.url, QUEUE_PREFIX: queue.prefix, LIMITS_FILE: limitsFile };
  const env = { ...providers.env, ...WORKER_ENVIRONMENT, ...places };
  const earlier = await earlierVersion(cleanup);
  if (earlier === undefined) say('without a worker of the earlier version: its package is not here');

  say(`starting ${plan.workers} worker processes`);
  const fleet = cleanup.adopt(await startFleet({ count: plan.workers, env, logFolder: folder }), (it) => it.stop());
  await fleet.ready();
  say(`${items.length} notifications, ${plan.acts.length} acts, ${plan.faults.length} faults`);
  const lines = watchLines(redis, queue.prefix, [...new Set(items.map(({ input }) => input.recipientId))]);
  const recorded: Recorded = { incidents: [], freezes: [], cuts: [], oddDevices: [], failovers: [], slotsMoved: [] };
  const targets = { ...{ fleet, queue, server, redis, providers, env, earlier }, devices: devicesOf(items) };
  await Promise.all([
    operator.enqueue(items),
    atTheirTimes(plan.acts, (one) => operator.perform(one), signal),
    atTheirTimes(plan.faults, (one) => strike(one, targets, recorded, signal), signal),
  ]);

  say('all faults have ended; dead letters are replayed, and the queue is drained');
  await fleet.ready();
  await operator.lift([...new Set(items.map(({ input }) => input.recipientId))]);
  const drainMs = await drain(operator, { ...options, count: () => countOpen(redis, queue.prefix) });
  const looks = await lines.stop();
  await Promise.all([fleet.stop(), providers.order({ do: 'flush' })]);
  const readAt = Date.now();
  const { lives, done, forgotten } = operator;
  const { ends, ...read } = await readEnds(redis, queue.prefix, lives);
  const leftovers = await readLeftovers(redis);

  const logs = inTime(await readLogs(folder));
  const shifts = new Map([...logs.keys()].filter(isAhead).map((name) => [name, AHEAD_MS]));
  const delays = await readDelays(folder, recorded.freezes);
  const { freezes, incidents } = recorded;
  return {
    ...{ lives, done, ...read, looks, leftovers, readAt },
    ends: [...ends, ...forgotten].toSorted((a, b) => a.at - b.at),
    entries: delays.counted(
      [...providers.entries].toSorted((a, b) => a.at - b.at),
      ({ data }) => refOf(data).replace(/@\d+$/, ''), // as workers log it
    ),
    incidents: [...incidents, ...stopsWithoutRedis(freezes, logs), ...lostLocks(logs)],
    thaws: thawsOf(freezes, logs),
    lines: await readLines(folder, shifts),
    crashes: fleet.crashes,
    drainMs,
    tookMs: Math.round(performance.now() - beganAt),
  };
}

/** Those of both numbers of shards, where the plan changes it. */
function openQueues(redisUrl: string, plan: PairsPlan): ChaosQueue {
  const open = (shards: number): ChaosQueue => openChaosQueue({ redisUrl, cluster: false, shards });
  const one = open(1);
  const to = plan.acts.find((act) => act.kind === 'reshard')?.to;
  if (to === undefined) return one;
  const several = open(to);
  return {
    ...one,
    inHand: async () => new Map([...(await one.inHand()), ...(await several.inHand())]),
    close: async () => {
      await Promise.all([one.close(), several.close()]);
    },
  };
}

async function openFolder(keep: string | undefined, cleanup: AsyncDisposableStack): Promise<string> {
  if (keep !== undefined) {
    await mkdir(keep, { recursive: true });
    // Those of an earlier run would be read with those of this one.
    const logs = (await readdir(keep)).filter((name) => name.endsWith('.log'));
    await Promise.all(logs.map((name) => rm(join(keep, name))));
    return keep;
  }
  return temporaryFolder(cleanup);
}

async function temporaryFolder(cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'pushpacer-pairs-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Undefined in a checkout without the fixtures of the tests. */
async function earlierVersion(cleanup: AsyncDisposableStack): Promise<string | undefined> {
  const isThere = await access(EARLIER).then(
    () => true,
    () => false,
  );
  return isThere ? unpackVersion(EARLIER, await temporaryFolder(cleanup)) : undefined;
}

async function atTheirTimes<T extends { readonly atMs: number }>(
  all: readonly T[],
  perform: (one: T) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const startedAt = performance.now();
  await Promise.all(
    all.map(async (one) => {
      await sleep(Math.max(0, startedAt + one.atMs - performance.now()), undefined, { signal });
      await perform(one);
    }),
  );
}

/** Dead letters may die again, so they are replayed so often at most. */
const MOST_REPLAYS = 5;
const POLL_MS = 200;

interface DrainOptions extends Pick<PairsRunOptions, 'drainTimeoutMs' | 'signal'> {
  readonly count: () => Promise<number>;
}

/** Waits until the queue is empty, replays the dead letters, and so on until nothing changes. */
async function drain(operator: Operator, { drainTimeoutMs, signal, count }: DrainOptions): Promise<number> {
  const beganAt = performance.now();
  const progress = createProgress('ended', operator.lives.length);
  try {
    for (let replays = 0; replays <= MOST_REPLAYS; replays += 1) {
      for (let open = await count(); open > 0; open = await count()) {
        progress.update(operator.lives.length - open);
        if (performance.now() - beganAt > drainTimeoutMs) return Math.round(performance.now() - beganAt);
        await sleep(POLL_MS, undefined, { signal });
      }
      if (replays === MOST_REPLAYS || (await operator.replayAll()) === 0) break;
    }
  } finally {
    progress.stop();
  }
  return Math.round(performance.now() - beganAt);
}

function isAhead(log: string): boolean {
  return log.includes('-clock-ahead');
}

/** The logs on this machine's clock. */
function inTime(logs: Logs): Logs {
  return new Map(
    [...logs].map(([name, lines]) => {
      return [name, isAhead(name) ? lines.map((line) => ({ ...line, at: line.at - AHEAD_MS })) : lines];
    }),
  );
}
