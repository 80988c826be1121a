import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { NotificationInput } from '../../src/domain/notification.ts';
import { QUEUE, KEEP_ALL, KEEP_COMPLETED } from '../../src/queue/names.ts';
import type { BenchPlatform } from './case.ts';
import { need } from './plain-requests.ts';
import { openPlainSession } from './plain-session.ts';

/**
 * The worker that pushpacer is compared with: BullMQ's own Worker on the same queue, and one raw HTTP/2 session. No check, no
 * limiter, no log, no metrics, no retry. It reads pushpacer's variables; the platform is its argument.
 */
async function main(platform: BenchPlatform): Promise<void> {
  const { env } = process;
  const send = await openPlainSession(platform, env);
  const worker = new Worker(QUEUE, ({ data }) => send(data as NotificationInput), {
    connection: new Redis(need(env, 'REDIS_URL'), { maxRetriesPerRequest: null }),
    prefix: need(env, 'QUEUE_PREFIX'),
    concurrency: Number(need(env, 'WORKER_CONCURRENCY')),
    drainDelay: 1,
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: KEEP_ALL,
  });
  worker.on('failed', (_job, error) => process.stderr.write(`${error.message}\n`));
  const stop = (): void => void worker.close().then(() => process.exit(0));
  process.once('SIGTERM', stop).once('disconnect', stop);
}

await main(process.argv[2] as BenchPlatform);
