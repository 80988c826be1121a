import { once } from 'node:events';
import { connect } from 'node:http2';
import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { NotificationInput, Platform } from '../../src/domain/notification.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { KEEP_ALL, KEEP_COMPLETED } from '../../src/queue/retention.ts';
import { need, plainTarget } from './plain-requests.ts';

/**
 * The worker that pushpacer is compared with: BullMQ's own Worker on the same queue, and one raw HTTP/2 session. No check, no
 * limiter, no log, no metrics, no retry. It reads pushpacer's variables; the platform is its argument.
 */
async function main(platform: Platform): Promise<void> {
  const { env } = process;
  const { endpoint, ca, requestOf } = await plainTarget(platform, env);
  const session = connect(endpoint, { ca });
  // Once Node knows how many streams the server allows, a request beyond them waits inside of it until one is free. Before
  // that it sends up to 100 at once, and APNs allows one until it has accepted a token.
  await once(session, 'remoteSettings');

  async function send(notification: NotificationInput): Promise<void> {
    const { headers, body } = requestOf(notification);
    const stream = session.request(headers);
    let status: number | undefined;
    stream.once('response', (head) => (status = head[':status'])).resume();
    stream.end(body);
    await once(stream, 'end');
    if (status !== 200) throw new Error(`expected status 200, found ${status}`);
  }

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

await main(process.argv[2] as Platform);
