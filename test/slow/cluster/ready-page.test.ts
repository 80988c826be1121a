import { expect, onTestFinished, test } from 'vitest';
import { killMasterOf, waitUntilOk } from '../../../sandbox/redis/cluster-orders.ts';
import { crc16, SLOTS } from '../../../src/queue/names.ts';
import { clusterEnv, testCluster } from '../../support/cluster.ts';
import { page } from '../../support/fault-bench.ts';
import { startProcess } from '../../support/process.ts';
import { openSandbox } from '../../support/providers.ts';
import { testPrefix } from '../../support/redis.ts';

/** `no`: while a master is away, the others go on. No replica takes over. */
const cluster = testCluster({ replicas: 0, extraArgs: ['--cluster-require-full-coverage', 'no'] });

const PATIENT = { timeout: 30_000, interval: 100 };

test('/readyz says the same at each request while a master is away: 503 if that has the queue, else 200', async () => {
  const [sandbox, prefix] = [await openSandbox(), testPrefix()];
  const env = { ...sandbox.env(), ...clusterEnv(cluster, prefix), METRICS_PORT: '0' };
  const worker = startProcess({ args: ['workers/notifications.ts'], env });
  const { metrics: url } = JSON.parse(await worker.waitForLine(/"msg":"ready"/, 60_000)) as { metrics: string };
  onTestFinished(() => worker.kill('SIGKILL'));
  const statuses = async (): Promise<number[]> => {
    const found: number[] = [];
    for (let at = 0; at < 12; at += 1) found.push((await page({ ...worker, url }, '/readyz')).status);
    return [...new Set(found)];
  };
  expect(await statuses()).toEqual([200]);

  const slot = crc16(prefix.slice(1, -1)) % SLOTS;
  const other = await killMasterOf(cluster, (slot + Math.ceil(SLOTS / 3)) % SLOTS);
  expect(await statuses()).toEqual([200]);
  await other.restart();
  await waitUntilOk(cluster, 3);

  const own = await killMasterOf(cluster, slot);
  expect(await statuses()).toEqual([503]);
  await own.restart();
  await waitUntilOk(cluster, 3);
  await expect.poll(statuses, PATIENT).toEqual([200]);
}, 120_000);
