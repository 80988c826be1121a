import { expect, test } from 'vitest';
import { arrivalInstant } from '../../../sandbox/journal.ts';
import { killMasterOf, masterOf, mastersOf, waitUntilOk } from '../../../sandbox/redis/cluster-orders.ts';
import { crc16, shardOf, shardPrefixes, SLOTS } from '../../../src/queue/names.ts';
import { clusterEnv, connectCluster, testCluster } from '../../support/cluster.ts';
import { allReady, eventually, openFaultBench, PATIENCE } from '../../support/fault-bench.ts';
import { testPrefix } from '../../support/redis.ts';

const SHARDS = 3;
/** `no`: while a master is missing, the others go on (docs/redis.md). */
const cluster = testCluster({ extraArgs: ['--cluster-require-full-coverage', 'no'] });

const slotOf = (prefix: string): number => crc16(/\{(.+?)\}/.exec(prefix)?.[1] ?? prefix) % SLOTS;

test(
  'a master is killed: the other shards go on, its own goes on after the failover, and it comes back as a replica',
  async () => {
    const prefix = testPrefix();
    const bench = await openFaultBench({
      connection: connectCluster(cluster),
      env: { ...clusterEnv(cluster, prefix, SHARDS), LOCK_DURATION: '5s' },
      prefix,
      shards: SHARDS,
    });
    const workers = [await bench.startWorker(), await bench.startWorker()];
    const prefixes = shardPrefixes(prefix, SHARDS);
    const mastersBefore = await Promise.all(prefixes.map((of) => masterOf(cluster, slotOf(of))));
    await bench.add(360, 24); // for longer than the failover takes
    await bench.delivered(12);
    const killed = await killMasterOf(cluster, slotOf(prefixes[0] ?? ''));
    const killedAt = arrivalInstant();
    await waitUntilOk(cluster, 5);
    const wholeAt = arrivalInstant();
    const shards = bench
      .arrivals()
      .filter(({ at }) => at > killedAt && at < wholeAt)
      .map(({ recipientId }) => shardOf(recipientId, SHARDS));
    const elsewhere = shards.filter((shard) => mastersBefore[shard]?.node.port !== killed.port);
    expect(elsewhere.length).toBeGreaterThan(0);
    const alerts = bench.alerts();
    await bench.add(24, 24);
    await eventually(() => expect(bench.alerts()).toBeGreaterThan(alerts), 15_000);
    await bench.completed();
    await allReady(workers);

    await killed.restart();
    await waitUntilOk(cluster, 6);
    expect((await mastersOf(cluster)).map(({ node }) => node.port)).not.toContain(killed.port);
    await bench.add(6, 6);
    await bench.completed();
    for (const worker of workers) worker.kill('SIGTERM');
    for (const worker of workers) expect((await worker.waitForExit()).code).toBe(0);
  },
  PATIENCE.timeout,
);
