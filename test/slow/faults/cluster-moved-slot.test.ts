import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { masterOf, mastersOf, moveSlot } from '../../../sandbox/redis/cluster-orders.ts';
import { recipientKeys } from '../../../src/limiter/redis/keys.ts';
import { crc16, shardPrefixes, SLOTS } from '../../../src/queue/names.ts';
import { clusterEnv, connectCluster, NO_FAILOVER, testCluster } from '../../support/cluster.ts';
import { KEPT, openFaultBench, PATIENCE } from '../../support/fault-bench.ts';
import { testPrefix } from '../../support/redis.ts';

const SHARDS = 2;
const cluster = testCluster({ replicas: 0, ...NO_FAILOVER });

/** Longer than a client tries by itself: ioredis gives up after 16 redirections. */
const BETWEEN_MS = 3_000;

const tagOf = (key: string): string => /\{(.+?)\}/.exec(key)?.[1] ?? key;
const slotOf = (key: string): number => crc16(tagOf(key)) % SLOTS;

async function openBench() {
  const prefix = testPrefix();
  const bench = await openFaultBench({
    connection: connectCluster(cluster),
    env: clusterEnv(cluster, prefix, SHARDS),
    prefix,
    shards: SHARDS,
  });
  await Promise.all([bench.startWorker(), bench.startWorker()]);
  return { ...bench, prefix };
}

/** Moves a slot to the next master, stands between both for a while, and moves it back. */
async function moveThereAndBack(slot: number): Promise<number> {
  const home = await masterOf(cluster, slot);
  const other = (await mastersOf(cluster)).find(({ id }) => id !== home.id);
  if (other === undefined) throw new Error('only one master');
  const moved = await moveSlot(cluster, slot, other.node, { betweenMasters: () => sleep(BETWEEN_MS) });
  await sleep(500);
  return moved + (await moveSlot(cluster, slot, home.node, { betweenMasters: () => sleep(BETWEEN_MS) }));
}

test(
  'the slot of a recipient moves while its line is sent: nothing is lost, nothing twice, no gap broken',
  async () => {
    const bench = await openBench();
    await bench.add(60, 3);
    await bench.delivered(6);
    const { sent } = recipientKeys(bench.prefix.replaceAll(/[{}]/g, ''), 'person-0');
    expect(await moveThereAndBack(slotOf(sent))).toBeGreaterThan(1);
    await bench.add(6, 3);
    await bench.completed();
    expect(bench.verdict()).toMatchObject(KEPT);
  },
  PATIENCE.timeout,
);

test(
  'the slot of a shard moves while its workers run: nothing is lost, nothing twice, no gap broken',
  async () => {
    const bench = await openBench();
    await bench.add(80, 8);
    await bench.delivered(6);
    const [shard = ''] = shardPrefixes(bench.prefix, SHARDS);
    const adding = (async () => {
      for (let turn = 0; turn < 20; turn++) {
        await bench.add(2, 8);
        await sleep(200);
      }
    })();
    expect(await moveThereAndBack(slotOf(shard))).toBeGreaterThan(20);
    await adding;
    await bench.completed();
    expect(bench.verdict()).toMatchObject(KEPT);
  },
  PATIENCE.timeout,
);
