import { createHash } from 'node:crypto';
import type { SeenEntry } from '../../demo/providers-child.ts';
import { longestMs, startProviders } from '../../demo/providers-process.ts';
import { startReplicas, type Replicas } from '../../demo/replicas.ts';
import { ruleName, type Policy } from '../../src/domain/limits.ts';
import type { NotificationInput } from '../../src/notification/notification.ts';
import { formatDuration } from '../../src/domain/time.ts';
import type { Arrival } from '../../sandbox/judge.ts';
import { openBenchQueue, PREFIX, type BenchQueue } from '../redis.ts';
import { ALERT } from '../throughput/run.ts';
import { readBuckets, subtract, sum, type Buckets, type JobFacts, type Jobs } from './figures.ts';
import { startProxy } from './proxy.ts';

/** Worker processes of every row. */
const WORKERS = 2;
export interface Setting {
  readonly policy: Policy;
  /** WORKER_CONCURRENCY. */
  readonly concurrency: number;
  /** The relay before Redis delays every piece of data of the workers by this much, in each direction; 0: there is none. */
  readonly eachWayMs: number;
  /** Whether the workers have delivered some other notifications before. */
  readonly warm: boolean;
}

export type Alert = NotificationInput & { readonly id: string };

/** What one setting did with its alerts. */
export interface Run {
  /** What the providers accepted, in the order of the arrivals. */
  readonly arrivals: readonly Arrival[];
  readonly jobs: Jobs;
  /** How late wake-ups were: the workers' own histogram, without the warm-up. */
  readonly woken: Buckets;
  /** The longest time for which the machine stood still. */
  readonly stallMs: number;
}

/** Workers of one setting on an empty Redis, with providers of their own that answer as slowly as real ones. */
export interface Stage {
  /** Reaches Redis directly. */
  readonly queue: BenchQueue;
  readonly replicas: Replicas;
  /** What came of these alerts. */
  collect(alerts: readonly Alert[]): Promise<Run>;
}

/** So many recipients get two alerts each before the measured ones: one that is sent at once, and one that is put back first. */
const WARM_UP_RECIPIENTS = 200;
const WARM_UP_LIMIT_MS = 30_000;
const BATCH = 1_000;

/** One alert to the recipient's one APNs device. Its data shows the providers which it is. */
export function makeAlert(id: string, recipientId: string): Alert {
  const token = createHash('sha256').update(recipientId).digest('hex');
  return {
    id,
    recipientId,
    devices: [{ platform: 'apns', token }],
    alert: ALERT,
    data: { ref: id, to: recipientId },
  };
}

/** Starts all parts of a setting, has them used, and ends them. */
export async function onStage<T>(redisUrl: string, setting: Setting, use: (stage: Stage) => Promise<T>): Promise<T> {
  await using parts = new AsyncDisposableStack();
  const queue = parts.adopt(openBenchQueue(redisUrl), (it) => it.close());
  await queue.connection.flushall();
  const providers = parts.adopt(await startProviders(), (it) => it.close());
  const { eachWayMs } = setting;
  const proxy = eachWayMs > 0 ? parts.adopt(await startProxy(redisUrl, eachWayMs), (it) => it.close()) : undefined;
  const replicas = await startReplicas({
    count: WORKERS,
    env: {
      ...providers.env,
      REDIS_URL: proxy?.url ?? redisUrl,
      QUEUE_PREFIX: PREFIX,
      LIMIT_RULES: setting.policy.rules.map(ruleName).join(),
      LIMIT_MIN_GAP: formatDuration(setting.policy.minGapMs),
      WORKER_CONCURRENCY: String(setting.concurrency),
    },
  });
  parts.defer(async () => {
    await replicas.stop();
  });

  if (setting.warm) {
    const twice = [0, 1].flatMap((turn) =>
      Array.from({ length: WARM_UP_RECIPIENTS }, (_, index) => makeAlert(`warm-${turn}-${index}`, `warm-${index}`)),
    );
    await queue.add(twice);
    await queue.settled(WARM_UP_LIMIT_MS);
  }
  const wokenBefore = await wokenOf(replicas);
  const stallsBefore = providers.stalls.length;

  return await use({
    queue,
    replicas,
    async collect(alerts) {
      await providers.order({ do: 'flush' });
      const ids = new Set(alerts.map(({ id }) => id));
      const entries = replicas.delays.counted(providers.entries, ({ data }) => data['ref'] ?? '');
      return {
        arrivals: arrivalsOf(entries).filter(({ notificationId }) => ids.has(notificationId)),
        jobs: await readJobs(queue, [...ids]),
        woken: subtract(await wokenOf(replicas), wokenBefore),
        stallMs: longestMs(providers.stalls.slice(stallsBefore)),
      };
    },
  });
}

/** Every alert that was accepted so far, in the order of the arrivals: the journal has them in the order of the answers. */
function arrivalsOf(entries: readonly SeenEntry[]): Arrival[] {
  return entries
    .filter(({ accepted }) => accepted)
    .map(({ data, token, at, delayMs }) => ({
      recipientId: data['to'] ?? '',
      notificationId: data['ref'] ?? '',
      device: token,
      at,
      delayMs,
    }))
    .sort((a, b) => a.at - b.at);
}

async function wokenOf({ processes }: Replicas): Promise<Buckets> {
  const pages = processes.map(async ({ url }) => {
    const answer = await fetch(`${url ?? ''}/metrics`, { signal: AbortSignal.timeout(10_000) });
    return readBuckets(await answer.text(), 'pushpacer_wake_lateness_seconds');
  });
  return sum(await Promise.all(pages));
}

/** A job's progress stays as it was when the job was put back for the last time. */
async function readJobs({ connection, queue }: BenchQueue, ids: readonly string[]): Promise<Map<string, JobFacts>> {
  const facts = new Map<string, JobFacts>();
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH);
    const pipeline = connection.pipeline();
    for (const id of batch) pipeline.hmget(queue.toKey(id), 'progress', 'processedOn');
    const replies = (await pipeline.exec()) ?? [];
    for (const [index, id] of batch.entries()) {
      const [progress, processedOn] = replies[index]?.[1] as (string | null)[];
      const stored = JSON.parse(progress ?? '0') as number | { readonly requeues?: number };
      const { requeues = 0 } = typeof stored === 'number' ? {} : stored;
      facts.set(id, { requeues, takenAt: processedOn == null ? undefined : Number(processedOn) });
    }
  }
  return facts;
}
