import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ClusterNode } from '../../../sandbox/redis/embedded-cluster.ts';
import { moveSlot, mastersOf } from '../../../sandbox/redis/cluster-orders.ts';
import { crc16, SLOTS } from '../../../src/queue/names.ts';
import { connectLimiter } from '../../../src/redis/connection.ts';
import { createReplicaWait } from '../../../src/redis/replicas.ts';
import { eventually } from '../../support/fault-bench.ts';
import { frozen, ownRedis } from '../../support/own-redis.ts';
import { connectRedis } from '../../support/redis.ts';
import { connectCluster, NO_FAILOVER, testCluster } from '../../support/cluster.ts';

const OPTIONS = { count: 1, timeoutMs: 10_000 };
/** For those that find no replica. */
const SOON = { count: 1, timeoutMs: 300 };

/** A master with a replica in step, and the limiter's connection to it. */
async function openPair() {
  const master = await ownRedis({ extraArgs: ['--repl-diskless-sync-delay', '0'] });
  const replica = await ownRedis({ extraArgs: ['--replicaof', `127.0.0.1 ${master.port}`] });
  const control = connectRedis(master.url);
  await eventually(async () => expect(await control.info('replication')).toMatch(/slave0:.*state=online/));
  const redis = connectLimiter({ redisUrl: master.url }, 2_000);
  redis.on('error', () => undefined);
  onTestFinished(() => redis.disconnect());
  await eventually(() => expect(redis.status).toBe('ready'));
  const waits = async (): Promise<number> =>
    Number(/cmdstat_wait:calls=(\d+)/.exec(await control.info('commandstats'))?.[1] ?? 0);
  return { master, replica, control, redis, waits };
}

describe('the wait for a replica', () => {
  it('ends when the replica has the write', async () => {
    const { replica, redis } = await openPair();
    const confirm = createReplicaWait(redis, OPTIONS)('a');
    await redis.set('a', '1');
    await confirm();
    expect(await connectRedis(replica.url).get('a')).toBe('1');
  });

  it('fails while the replica stands still, and succeeds after it', async () => {
    const { replica, redis } = await openPair();
    await frozen(replica.pid, async () => {
      const confirm = createReplicaWait(redis, SOON)('a');
      await redis.set('a', '1');
      await expect(confirm()).rejects.toThrow('0 of 1 replicas confirmed within 300 ms');
    });
    const confirm = createReplicaWait(redis, OPTIONS)('a');
    await redis.set('a', '2');
    await confirm();
  });

  it('is one for all that were written while another one was under way', async () => {
    const { redis, waits } = await openPair();
    const wait = createReplicaWait(redis, OPTIONS);
    const write = async (key: string): Promise<void> => {
      const confirm = wait(key);
      await redis.set(key, '1');
      await confirm();
    };
    await Promise.all(Array.from({ length: 200 }, (_, index) => write(`key-${index}`)));
    expect(await waits()).toBeLessThan(20); // 2 or 3, if all answers come at once
  });

  it('says nothing of a write whose connection was lost: another one knows only its own writes', async () => {
    const { redis, control } = await openPair();
    const confirm = createReplicaWait(redis, OPTIONS)('a');
    await redis.set('a', '1');
    const closed = once(redis, 'close');
    await control.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await closed;
    await eventually(() => expect(redis.status).toBe('ready'));
    await expect(confirm()).rejects.toMatchObject({ name: 'ReplicasMissingError' });
  });

  it('fails where the master ends meanwhile', async () => {
    const { redis, master, replica } = await openPair();
    const confirm = createReplicaWait(redis, { count: 1, timeoutMs: 1_500 })('a');
    await redis.set('a', '1');
    await frozen(replica.pid, async () => {
      const waiting = expect(confirm()).rejects.toMatchObject({ name: 'ReplicasMissingError' });
      await sleep(100);
      process.kill(master.pid, 'SIGKILL');
      await waiting;
    });
  });
});

describe('on a cluster', () => {
  const cluster = testCluster(NO_FAILOVER); // a node's replica is the one that it began with

  /** Where the key is, as each node says: the client reads the slots from any of them, also from one that knows least. */
  async function portsOf(key: string): Promise<number[]> {
    const said = async ({ url, port }: ClusterNode): Promise<number> => {
      const node = new Redis(url);
      const elsewhere = (error: Error): number => Number(/^MOVED .*:(\d+)$/.exec(error.message)?.[1]);
      return node
        .exists(key)
        .then(() => port, elsewhere)
        .finally(() => node.disconnect());
    };
    return [...new Set(await Promise.all(cluster.nodes.map(said)))];
  }

  it('it is sent to the node that has the write', async () => {
    const redis = connectCluster(cluster);
    await redis.ping(); // it knows the nodes
    const [wait, soon] = [createReplicaWait(redis, OPTIONS), createReplicaWait(redis, SOON)];
    const keys = (await mastersOf(cluster)).map(({ ranges: [range] }) => keyIn(range));
    for (const [index, key] of keys.entries()) {
      const confirm = soon(key);
      await redis.set(key, '1');
      await frozen(cluster.nodes[3 + index]?.pid ?? 0, () => expect(confirm()).rejects.toThrow('0 of 1 replicas'));
      await wait(key)(); // nothing was written since on this connection, and the replica has caught up
    }
    for (const { url } of cluster.nodes.slice(0, 3)) {
      const node = new Redis(url);
      expect(await node.info('commandstats')).toMatch(/cmdstat_wait:calls=2,/);
      node.disconnect();
    }
  });

  it('it says nothing of a write that moved to another node', async () => {
    const redis = connectCluster(cluster);
    await redis.set('a', '0');
    const wait = createReplicaWait(redis, OPTIONS);
    const slot = crc16('a') % SLOTS;
    const masters = await mastersOf(cluster);
    const isThere = ({ ranges }: (typeof masters)[number]) => ranges.some(([from, to]) => slot >= from && slot <= to);
    const other = masters.find((master) => !isThere(master));
    if (other === undefined) throw new Error('no other master');
    const confirm = wait('a');
    await moveSlot(cluster, slot, other.node);
    await eventually(async () => expect(await portsOf('a')).toEqual([other.node.port]));
    await redis.set('a', '1'); // MOVED
    await expect(confirm()).rejects.toThrow('moved to another node');
    const next = wait('a');
    await redis.set('a', '2');
    await next();
  });
});

function keyIn(range: readonly [number, number] | undefined): string {
  const [from, to] = range ?? [0, 0];
  for (let number = 0; ; number += 1) {
    const slot = crc16(`key-${number}`) % SLOTS;
    if (slot >= from && slot <= to) return `key-${number}`;
  }
}
