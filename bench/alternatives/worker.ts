import { DelayedError, Worker, type Job, type WorkerOptions } from 'bullmq';
import { Redis } from 'ioredis';
import type { ToDevices } from '../../src/notification/notification.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createRolling, installRivals } from '../rivals.ts';
import { endWithParent, openPlainSession, variable, type Send } from '../throughput/plain-worker.ts';
import { CONCURRENCY, POLICY, type Alternative } from './alternative.ts';

type Processor = (job: Job, token?: string) => Promise<void>;

/**
 * One worker process of an alternative: BullMQ's own Worker, and one raw HTTP/2 session to each provider. It reads pushpacer's
 * variables; the alternative is its argument. Says `ready` to its parent.
 */
async function main(alternative: Alternative): Promise<void> {
  const sessions = { apns: await openPlainSession('apns'), fcm: await openPlainSession('fcm') };
  const send: Send = (notification) =>
    sessions[notification.devices[0]?.platform === 'fcm' ? 'fcm' : 'apns'](notification);
  const plain: Processor = ({ data }) => send(data as ToDevices);
  const connection = new Redis(variable('REDIS_URL'), { maxRetriesPerRequest: null });
  const worker = new Worker(QUEUE, alternative === 'rolling' ? await rolling(send, connection) : plain, {
    connection,
    prefix: variable('QUEUE_PREFIX'),
    concurrency: CONCURRENCY,
    ...limiterOf(alternative),
  });
  endWithParent(worker);
  await worker.waitUntilReady();
  process.send?.('ready');
}

/** https://docs.bullmq.io/guide/rate-limiting: one limit for the whole queue. */
function limiterOf(alternative: Alternative): Pick<WorkerOptions, 'limiter'> {
  if (alternative === 'bullmqWindow') return { limiter: { max: 10, duration: 3_000 } };
  // Ten times 300 ms are 3 s, and 300 ms are longer than the gap: so slow a queue keeps both limits for everyone.
  if (alternative === 'bullmqGap') return { limiter: { max: 1, duration: 300 } };
  return {};
}

/**
 * A job that has to wait is delayed by the wait that the limiter answered (https://docs.bullmq.io/patterns/process-step-jobs). The
 * limiter counts a blocked action like a sent one; so it is first asked for the wait, which counts nothing.
 */
async function rolling(send: Send, redis: Redis): Promise<Processor> {
  const [rule] = POLICY.rules;
  if (rule === undefined) throw new Error('expected a rule, found none');
  const options = { interval: rule.perMs, maxInInterval: rule.max, minDifference: POLICY.minGapMs };
  const limiter = createRolling(await installRivals(() => undefined), redis, options);
  const delay = async (job: Job, token: string | undefined, waitMs: number): Promise<never> => {
    await job.moveToDelayed(Date.now() + waitMs, token);
    throw new DelayedError();
  };
  return async (job, token) => {
    const notification = job.data as ToDevices;
    const { recipientId } = notification;
    const would = await limiter.wouldLimitWithInfo(recipientId);
    if (would.blocked) await delay(job, token, would.millisecondsUntilAllowed);
    const { blocked, millisecondsUntilAllowed } = await limiter.limitWithInfo(recipientId);
    if (blocked) await delay(job, token, millisecondsUntilAllowed);
    await send(notification);
  };
}

await main(process.argv[2] as Alternative);
