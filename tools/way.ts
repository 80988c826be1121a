import { Session } from 'node:inspector/promises';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { startEmbeddedRedis, startSandbox } from '../sandbox/index.ts';
import { loadConfig } from '../src/config/config.ts';
import { createLog } from '../src/observe/log.ts';
import type { Device } from '../src/notification/types.ts';
import { QUEUE } from '../src/queue/names.ts';
import { createProducer } from '../src/producer/producer.ts';
import { DEFAULT_PREFIX } from '../src/redis/target.ts';
import { startReplica } from '../workers/replica.ts';

/**
 * The files that one FCM alert goes through, from `enqueue` to the end of its job, with how many functions of each ran: by V8's own
 * counts, in this process, with a Redis and a loopback server of its own. The second alert is counted, so nothing of the start is.
 */
async function main(): Promise<void> {
  await using redis = await startEmbeddedRedis();
  await using sandbox = await startSandbox();
  const env = { ...sandbox.env(), REDIS_URL: redis.url, METRICS_PORT: 'off' };
  const { signal } = new AbortController();
  const replica = await startReplica(loadConfig(env), createLog('info', { write: () => undefined }), { env, signal });
  const producer = createProducer({ redisUrl: redis.url });
  // Looked at by a client of BullMQ's own: what looks is not counted.
  const queue = new Queue(QUEUE, { connection: { url: redis.url }, prefix: DEFAULT_PREFIX });
  const send = async (id: string): Promise<void> => {
    const devices: Device[] = [{ platform: 'fcm', token: `token-${id}` }];
    await producer.enqueue({ id, recipientId: id, devices, alert: { title: 'Room 12', body: 'Forms are due' } });
    while ((await queue.getJob(id))?.finishedOn === undefined) await sleep(20);
  };
  const session = new Session();
  session.connect();
  try {
    await send('first');
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    await send('second');
    const { result } = await session.post('Profiler.takePreciseCoverage');
    const root = new URL('..', import.meta.url).href;
    const counts = result.flatMap(({ url, functions }) => {
      const path = url.startsWith(root) ? fileURLToPath(url).slice(fileURLToPath(root).length) : '';
      const ran = functions.filter(({ functionName, ranges }) => functionName !== '' && (ranges[0]?.count ?? 0) > 0);
      return /^(src|workers)\//.test(path) && ran.length > 0 ? [{ path, ran: ran.length }] : [];
    });
    for (const { path, ran } of counts.toSorted((a, b) => a.path.localeCompare(b.path))) {
      process.stdout.write(`${String(ran).padStart(4)}  ${path}\n`);
    }
    process.stdout.write(`${counts.length} files\n`);
  } finally {
    session.disconnect();
    await Promise.all([producer.close(), queue.close()]);
    await replica.stop();
  }
}

await main();
