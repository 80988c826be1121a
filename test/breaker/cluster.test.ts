import { Cluster, Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { waitFor } from '../support/wait.ts';
import { accepted, openBreakers, openOf, refused, trialOf, untilClosed, type BreakerWorker } from './support.ts';

it('breakers are shared, tried and closed on a cluster, also under a prefix without a hash tag', async () => {
  const server = await startEmbeddedRedis({
    extraArgs: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'],
  });
  const own = new Redis(server.url, { maxRetriesPerRequest: null });
  await own.cluster('ADDSLOTSRANGE', 0, 16_383);
  await waitFor(async () => expect(await own.cluster('INFO')).toContain('cluster_state:ok'));
  const clusters = [1, 2].map(() => new Cluster([{ host: '127.0.0.1', port: server.port }]));
  onTestFinished(async () => {
    for (const client of [...clusters, own]) client.disconnect();
    await server.close();
  });
  const [worker, other] = clusters.map((cluster) => openBreakers('plain', {}, cluster)) as [
    BreakerWorker,
    BreakerWorker,
  ];
  worker.breakers.report(refused());
  await waitFor(() => openOf(other));
  other.breakers.report(accepted(), await trialOf(other));
  await untilClosed(worker);
  expect(worker.changes.map(({ open }) => open?.trouble)).toEqual(['auth', undefined]);
});
