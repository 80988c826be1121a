import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { eventually, openFaultBench, ownRedis, PATIENCE } from '../../support/fault-bench.ts';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';
import { connectRedis } from '../../support/redis.ts';

/** So many writes, each of which takes this long to read back: some seconds of LOADING. */
const WRITES = 4_000;
const READ_US = 800;

it('a worker that starts while Redis reads its file back waits for the end of that', PATIENCE, async () => {
  const options = { dir: await temporaryFolder(), appendonly: true };
  const first = await ownRedis(options);
  const connection = connectRedis(first.url);
  const bench = await openFaultBench({ connection, env: { REDIS_URL: first.url } });
  await bench.add(4);
  const filling = connection.pipeline();
  for (let index = 0; index < WRITES; index++) filling.set(`filling-${index}`, index);
  await filling.exec();
  await first.close();

  const slowly = ['--key-load-delay', String(READ_US), '--loading-process-events-interval-bytes', '1024'];
  const again = ownRedis({ ...options, port: first.port, extraArgs: slowly });
  const probe = new Redis(first.url, { enableReadyCheck: false, retryStrategy: () => 20, maxRetriesPerRequest: null });
  probe.on('error', () => undefined); // refused until it listens
  onTestFinished(() => {
    probe.disconnect();
  });
  await eventually(() => expect(probe.ping()).rejects.toThrow(/LOADING/));
  const worker = startProcess({ args: ['workers/notifications.ts'], env: bench.env });
  await again;
  await worker.waitForLine(/"msg":"ready"/);
  await bench.completed();
});
