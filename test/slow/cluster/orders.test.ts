import { expect, test } from 'vitest';
import { killMasterOf, masterOf, mastersOf, moveSlot, waitUntilOk } from '../../../sandbox/redis/cluster-orders.ts';
import { crc16 } from '../../../src/queue/names.ts';
import { connectCluster, testCluster } from '../../support/cluster.ts';
import { connectRedis } from '../../support/redis.ts';

const cluster = testCluster();
const SLOT = crc16('tag') % 16_384;

test('a slot moves with its keys, and back', async () => {
  const redis = connectCluster(cluster);
  for (let at = 0; at < 25; at++) await redis.set(`{tag}:${at}`, at);
  const source = await masterOf(cluster, SLOT);
  const target = (await mastersOf(cluster)).find(({ id }) => id !== source.id);
  if (target === undefined) throw new Error('only one master');
  const atTarget = connectRedis(target.node.url);
  const between: number[] = [];
  const moved = await moveSlot(cluster, SLOT, target.node, {
    betweenMasters: async () => {
      for (let at = 0; at < 25; at++) between.push(Number(await redis.get(`{tag}:${at}`)));
      // Not by a client of the cluster: it follows redirections, and throws the last one when it gives up.
      const answers = await atTarget.pipeline().call('ASKING').mget('{tag}:0', '{tag}:none').exec();
      expect(answers?.map(([error]) => error?.message)).toEqual([undefined, expect.stringMatching(/^TRYAGAIN /)]);
    },
  });
  expect(between).toEqual(Array.from({ length: 25 }, (_, at) => at));
  expect(moved).toBe(25);
  expect((await masterOf(cluster, SLOT)).id).toBe(target.id);
  expect(await redis.mget('{tag}:0', '{tag}:24')).toEqual(['0', '24']);
  await moveSlot(cluster, SLOT, source.node);
  expect((await masterOf(cluster, SLOT)).id).toBe(source.id);
});

test('a killed master is replaced by its replica, and comes back as one', async () => {
  const redis = connectCluster(cluster);
  const master = connectRedis((await masterOf(cluster, SLOT)).node.url);
  master.on('error', () => undefined); // it is killed
  await master.set('{tag}', 'kept');
  expect(await master.wait(1, 30_000)).toBe(1); // WAIT is about what its own connection has written
  const killed = await killMasterOf(cluster, SLOT);
  await waitUntilOk(cluster, 5);
  expect((await masterOf(cluster, SLOT)).node.port).not.toBe(killed.port);
  expect(await redis.get('{tag}')).toBe('kept');
  await killed.restart();
  await waitUntilOk(cluster, 6);
  expect((await mastersOf(cluster)).map(({ node }) => node.port)).not.toContain(killed.port);
});
