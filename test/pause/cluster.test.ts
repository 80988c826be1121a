import { Cluster, Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../src/sandbox/embedded-redis.ts';
import { waitFor } from '../support/wait.ts';
import { accepted, openPauses, pauseOf, probeOf, refused } from './support.ts';

it('pauses are shared, probed and ended on a cluster, also under a prefix without a hash tag', async () => {
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
  const workers = clusters.map((cluster) => openPauses('plain', {}, cluster));
  const [worker, other] = workers as [(typeof workers)[0], (typeof workers)[0]];
  worker.pauses.report(refused());
  await waitFor(() => pauseOf(other));
  other.pauses.report(accepted(), await probeOf(other));
  await waitFor(() => expect(worker.pauses.current('apns')).toBeUndefined());
  expect(worker.changes.map(({ by }) => by)).toEqual(['us', 'others']);
});
