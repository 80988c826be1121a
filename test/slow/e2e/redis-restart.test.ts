import { expect, it } from 'vitest';
import { eventually, KEPT, openFaultBench, ownRedis, page, PATIENCE } from '../../support/fault-bench.ts';
import { temporaryFolder } from '../../support/program.ts';
import { connectRedis } from '../../support/redis.ts';

it.each(['always', 'everysec'])(
  'a Redis that is killed and started again on its AOF (%s) loses nothing, doubles nothing and lifts no limit',
  PATIENCE,
  async (appendfsync) => {
    const dir = await temporaryFolder();
    const options = { dir, appendonly: true, extraArgs: ['--appendfsync', appendfsync] };
    const first = await ownRedis(options);
    const bench = await openFaultBench({ connection: connectRedis(first.url), env: { REDIS_URL: first.url } });
    const [worker] = await Promise.all([bench.startWorker(), bench.startWorker()]);
    await bench.add(36);
    await bench.delivered(15);

    process.kill(first.pid, 'SIGKILL');
    await first.ended;
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
    await ownRedis({ ...options, port: first.port });

    await bench.completed();
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
    expect(bench.verdict()).toMatchObject(KEPT);
  },
);
