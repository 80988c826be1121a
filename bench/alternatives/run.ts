import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { JobType } from 'bullmq';
import { readMorning } from '../../demo/morning.ts';
import type { ProvidersProcess } from '../../demo/providers-process.ts';
import { isAlive, startReplicas } from '../../demo/replicas.ts';
import { arrivalInstant } from '../../sandbox/journal.ts';
import type { Arrival } from '../../sandbox/judge.ts';
import { tokenOf } from '../../src/notification/device.ts';
import { ruleName } from '../../src/domain/limits.ts';
import type { ToDevices } from '../../src/notification/notification.ts';
import { formatDuration } from '../../src/domain/time.ts';
import { openBenchQueue, PREFIX } from '../redis.ts';
import { deviceOf } from '../throughput/run.ts';
import { CONCURRENCY, POLICY, WORKERS, type Alternative } from './alternative.ts';

type Push = ToDevices & { readonly id: string };

/** What every alternative has to deliver. The title of each alert is its notification's id: so the providers see which it is. */
export interface Burst {
  /** To one recipient, in the order of enqueuing. */
  readonly busy: readonly Push[];
  /** One to each of so many other recipients, enqueued right behind: there is nothing about them to limit. */
  readonly others: readonly Push[];
  /** Token → recipient. */
  readonly recipientOf: ReadonlyMap<string, string>;
}

const OTHERS = 140;

/** What the busiest teacher of the demo's morning gets, to the first device, and one alert each to 140 others. */
export function makeBurst(quick: boolean): Burst {
  const ofTeacher = [...Map.groupBy(readMorning().valid, ({ recipientId }) => recipientId).values()];
  const most = ofTeacher.toSorted((a, b) => b.length - a.length)[0] ?? [];
  const device = most[0]?.devices[0];
  if (device === undefined) throw new Error('examples/school-morning.ndjson: expected notifications, found none');
  const busy = most.slice(0, quick ? 12 : undefined).map(({ id, recipientId, alert }) => ({
    id,
    recipientId,
    devices: [device],
    alert: { ...alert, title: id },
  }));
  const others = Array.from({ length: quick ? 12 : OTHERS }, (_, index): Push => ({
    id: `other-${index}`,
    recipientId: `teacher-${index}`,
    devices: [deviceOf('fcm', index)],
    alert: { title: `other-${index}`, body: 'A form was signed' },
  }));
  const tokens = [...busy, ...others].flatMap(({ devices, recipientId }) =>
    devices.map((each) => [tokenOf(each), recipientId] as const),
  );
  return { busy, others, recipientOf: new Map(tokens) };
}

interface RunOptions {
  readonly alternative: Alternative;
  readonly burst: Burst;
  readonly redisUrl: string;
  readonly providers: ProvidersProcess;
}

/** What one alternative did with the burst. */
export interface Run {
  readonly alternative: Alternative;
  /** What the providers accepted. */
  readonly arrivals: readonly Arrival[];
  /** When the burst was enqueued: epoch milliseconds, on the clock of the arrivals. */
  readonly enqueuedAt: number;
  /** How often the workers took a job, all jobs together. */
  readonly passes: number;
}

/** Longer than all of them take in turn. What has not ended by then counts as lost. */
const TIME_LIMIT_MS = 180_000;
const STATES: JobType[] = ['wait', 'prioritized', 'delayed', 'active', 'completed', 'failed'];

/** Starts the workers of one alternative on an empty Redis, enqueues the burst, and waits until all of it has ended. */
export async function runAlternative(options: RunOptions): Promise<Run> {
  const { alternative, burst, redisUrl, providers } = options;
  await using cleanup = new AsyncDisposableStack();
  const queue = cleanup.adopt(openBenchQueue(redisUrl), (it) => it.close());
  await queue.connection.flushall();
  const first = providers.entries.length;
  const stop = await startWorkers(options);
  cleanup.defer(stop);

  const enqueuedAt = arrivalInstant();
  // Each as its documentation says: pushpacer's producer, and for BullMQ's own workers BullMQ's own queue.
  await queue.add([...burst.busy, ...burst.others], alternative === 'pushpacer' ? 'producer' : 'plain');
  await queue.settled(TIME_LIMIT_MS);
  await providers.order({ do: 'flush' });
  const jobs = await queue.queue.getJobs(STATES);
  const accepted = providers.entries.slice(first).filter((entry) => entry.accepted);
  return {
    alternative,
    enqueuedAt,
    passes: jobs.reduce((sum, { attemptsStarted }) => sum + attemptsStarted, 0),
    arrivals: accepted.map(({ token, title, at }) => ({
      recipientId: burst.recipientOf.get(token) ?? 'unknown',
      notificationId: title ?? '',
      device: token,
      at,
    })),
  };
}

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** Resolves with what stops them. */
async function startWorkers({ alternative, redisUrl, providers }: RunOptions): Promise<() => Promise<void>> {
  const env = { ...providers.env, REDIS_URL: redisUrl, QUEUE_PREFIX: PREFIX };
  if (alternative === 'pushpacer') {
    const limits = {
      LIMIT_RULES: POLICY.rules.map(ruleName).join(),
      LIMIT_MIN_GAP: formatDuration(POLICY.minGapMs),
      WORKER_CONCURRENCY: String(CONCURRENCY),
    };
    const replicas = await startReplicas({ count: WORKERS, env: { ...env, ...limits } });
    return async () => {
      await replicas.stop();
    };
  }
  const children = Array.from({ length: WORKERS }, () =>
    fork(WORKER, [alternative], {
      env: { ...process.env, ...env },
      execArgv: [],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    }),
  );
  const ready = children.map(async (child) => {
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`a worker of ${alternative} ended before it was ready (exit code ${String(code)})`);
    });
    await Promise.race([once(child, 'message'), ended]);
  });
  await Promise.all(ready);
  return async () => {
    const exits = children.filter(isAlive).map(async (child) => {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    });
    await Promise.all(exits);
  };
}
