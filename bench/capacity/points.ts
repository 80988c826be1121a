import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { pump } from '../limiter/cases.ts';
import { PREFIX, type Usage } from '../redis.ts';
import type { Counters } from '../throughput/providers.ts';
import { startWorker, type MeasuredWorker } from '../throughput/run.ts';
import type { Check } from './check.ts';
import { FEW_AT_ONCE, makeNotifications, type Surroundings } from './measure.ts';
import { bytesOfRecipient, connectionsOf, DEFAULT_PLAN, MEASURED, needsOf, waitingBytes } from './model.ts';
import { nameOf, onStage, type Shape, type Stage } from './stage.ts';

/** One Redis and a cluster, each with 1 to 8 shards. */
export const SHAPES: readonly Shape[] = [
  { masters: 1, replicas: 0 },
  { masters: 3, replicas: 1 },
].flatMap((servers) => [1, 2, 4, 8].map((shards) => ({ ...servers, shards })));

/** What one shape was found to take, beside the model. */
export interface Point {
  readonly shape: Shape;
  readonly checks: readonly Check[];
}

/** Of two to a recipient, the second is put back until the gap has passed. */
const GAP = { LIMIT_RULES: '10/1h', LIMIT_MIN_GAP: '3s' };
/** Recipients whose bytes are measured, with so many alerts each. */
const RECIPIENTS = 10_000;
const ALERTS = 2;

/** `jobs` are delivered at once, and then as many of which every second one is put back first. */
export function measurePoint(shape: Shape, jobs: number, around: Surroundings): Promise<Point> {
  const { counters, dir, say } = around;
  say(`${nameOf(shape)}: ${jobs} at once, and ${jobs} of which half are put back once`);
  return onStage(shape, async (stage) => {
    const checks: Check[] = [];
    const check = (kind: Check['kind'], name: string, measured: number, model: number): void => {
      checks.push({ name, kind, measured, model });
    };
    await stage.add(makeNotifications('first', shape.shards * 10, 1)); // what Redis allocates at the first use
    await stage.flush();
    if (shape.replicas > 0)
      check('bytes', 'kept for replicas, of a master', await fillBacklogs(stage), MEASURED.backlogBytes);
    const aKey = shape.masters > 1 ? MEASURED.clusterKeyBytes : 0;
    check('bytes', 'a recipient with 2 alerts', await addRecipients(stage), bytesOfRecipient(ALERTS) + aKey);

    await stage.pause();
    const enqueued = await between(stage, jobs, () => stage.add(makeNotifications('once', jobs, 1)));
    const plan = { ...DEFAULT_PLAN, ...shape };
    const ofShards = (shape.shards * MEASURED.shardBytes * Math.min(1, jobs / shape.shards / EVENTFUL)) / jobs;
    check('bytes', 'a waiting notification', enqueued.bytes, waitingBytes(plan) + ofShards);

    const env = { ...counters.env, ...stage.env, ...GAP };
    const logFile = join(dir, 'worker.log');
    const worker = await startWorker({ side: 'pushpacer', platform: 'fcm', env, concurrency: FEW_AT_ONCE, logFile });
    try {
      const workOff = (): Promise<Found> =>
        between(stage, jobs, async () => {
          await counters.reset();
          await stage.resume();
          await allAccepted(jobs, counters, worker);
          await stage.settled();
        });
      const cpuMs = await worker.cpuMs();
      const atOnce = await workOff();
      const workerMs = ((await worker.cpuMs()) - cpuMs) / jobs;
      await stage.pause();
      await stage.add(makeNotifications('pair', jobs, 2));
      const pair = await workOff();
      const connections = await stage.connections();

      const ofOne = needsOf(plan).network;
      const ofPair = needsOf({ ...plan, waits: 0.5 }).network;
      const added = MEASURED.enqueue;
      check('bytes', 'to Redis, delivered at once', enqueued.inBytes + atOnce.inBytes, ofOne.redisIn);
      check('bytes', 'from Redis', enqueued.outBytes + atOnce.outBytes, ofOne.redisOut);
      check('bytes', 'to Redis, half of them put back once', added.inBytes + pair.inBytes, ofPair.redisIn);
      check('bytes', 'from Redis', added.outBytes + pair.outBytes, ofPair.redisOut);
      if (shape.replicas > 0) {
        const { enqueue } = MEASURED.replicatedBytes;
        check(
          'bytes',
          'to a replica, delivered at once',
          enqueued.replicatedBytes + atOnce.replicatedBytes,
          ofOne.replica,
        );
        check('bytes', 'to a replica, half of them put back once', enqueue + pair.replicatedBytes, ofPair.replica);
      }
      check('count', 'scripts, delivered at once', atOnce.scripts, MEASURED.scriptsAtOnce);
      check(
        'count',
        'scripts, half of them put back once',
        pair.scripts,
        (MEASURED.scriptsAtOnce + MEASURED.scriptsDeferred) / 2,
      );
      const all = connections.reduce((sum, each) => sum + each, 0);
      check(shape.masters === 1 ? 'count' : 'bound', 'connections of a worker', all, connectionsOf(plan).all);
      check('bound', 'connections of a worker to one node', Math.max(...connections), connectionsOf(plan).aNode);
      check('bound', 'memory of a worker', await worker.rssBytes(), MEASURED.workerBytes);
      check(
        'time',
        'processor time of all Redis, delivered at once',
        atOnce.cpuMs,
        MEASURED.atOnce.queue.redisMs + MEASURED.atOnce.limiter.redisMs,
      );
      check('time', 'processor time of the worker, delivered at once', workerMs, MEASURED.atOnce.workerMs);
      return { shape, checks };
    } finally {
      await worker.stop();
    }
  });
}

/** So many jobs of a shard fill its stream of events. */
const EVENTFUL = 5_000;

/** Means over the notifications of a step. */
interface Found extends Usage {
  readonly scripts: number;
}

async function between(stage: Stage, jobs: number, step: () => Promise<void>): Promise<Found> {
  const look = async (): Promise<Found> => ({ ...(await stage.usage()), scripts: await stage.scripts() });
  const before = await look();
  await step();
  const after = await look();
  const entries = Object.entries(after).map(([name, value]) => [name, (value - before[name as keyof Found]) / jobs]);
  return Object.fromEntries(entries) as Found;
}

/** Bytes: less than a block of the backlog. */
const BACKLOG_BLOCK = 8_192;

/** Writes more to each master than it keeps for replicas; gives how much a master has more afterwards. */
async function fillBacklogs(stage: Stage): Promise<number> {
  const before = await stage.usage();
  const value = 'x'.repeat(BACKLOG_BLOCK); // one longer than a block would take a block of its own length
  const writes = (2 * stage.shape.masters * MEASURED.backlogBytes) / BACKLOG_BLOCK;
  for (let key = 0; key < writes; key += 1) await stage.connection.set(`${PREFIX}${key}`.replace(/[{}]/g, ''), value);
  await stage.flush();
  return ((await stage.usage()).bytes - before.bytes) / stage.shape.masters;
}

/** Adds recipients through the limiter; gives how many bytes of Redis each takes. */
async function addRecipients(stage: Stage): Promise<number> {
  const policy = { rules: [{ max: 100, perMs: 3_600_000 }], minGapMs: 0 };
  const limiter = createRedisLimiter({ redis: stage.connection, prefix: PREFIX, policy });
  await limiter.admit({ recipientId: 'teacher-first', id: 'first' });
  const before = await stage.usage();
  await pump(RECIPIENTS * ALERTS, async (index) => {
    const recipientId = `teacher-${index % RECIPIENTS}`;
    const { kind } = await limiter.admit({ recipientId, id: `msg-${index}` });
    if (kind !== 'admitted') throw new Error(`expected an admission, found ${kind}`);
  });
  return ((await stage.usage()).bytes - before.bytes) / RECIPIENTS;
}

const POLL_MS = 100;
/** If none is accepted for so long, the run fails. */
const STUCK_MS = 60_000;

/** Asks the providers and not Redis, whose commands are counted meanwhile. */
async function allAccepted(jobs: number, counters: Counters, worker: MeasuredWorker): Promise<void> {
  let [latest, sinceMs] = [0, performance.now()];
  for (;;) {
    const { accepted } = await counters.report();
    if (accepted >= jobs) return;
    await worker.expectAlive();
    if (accepted > latest) [latest, sinceMs] = [accepted, performance.now()];
    if (performance.now() - sinceMs > STUCK_MS) throw new Error(`expected ${jobs} alerts, found ${accepted}`);
    await sleep(POLL_MS);
  }
}
