import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from 'ioredis';
import { describe, expect, onTestFinished, test } from 'vitest';
import { killMasterOf, masterOf, mastersOf, moveSlot, waitUntilOk } from '../../../sandbox/redis/cluster-orders.ts';
import { crc16, shardPrefixes, SLOTS } from '../../../src/queue/names.ts';
import { createProducer } from '../../../src/producer/producer.ts';
import {
  connectLimiter,
  connectProducer,
  connectWorker,
  RedisAwayError,
  whenReady,
  type Connection,
  type RedisTarget,
} from '../../../src/redis/connection.ts';
import { testCluster } from '../../support/cluster.ts';
import { makeNotification } from '../../support/push.ts';
import { testPrefix } from '../../support/redis.ts';
import { waitFor } from '../../support/wait.ts';

const cluster = testCluster();

const target = () => ({ redisUrl: cluster.url, cluster: true });

test.each([
  ['a limiter', (): Connection => connectLimiter(target(), 5_000)],
  ['a producer', (): Connection => connectProducer(target())],
])('the first commands of %s are carried out in their order, on every master', async (_, connect) => {
  const connection = connect().on('error', () => undefined);
  onTestFinished(() => connection.disconnect());
  await whenReady(connection, 5_000);
  const [prefix, places] = [testPrefix(), Array.from({ length: 20 }, (_, at) => at + 1)];
  const lists = Array.from({ length: 12 }, (_, list) => `${prefix.slice(1, -1)}:{${list}}`);
  const lengths = lists.map((list) => Promise.all(places.map((place) => connection.rpush(list, place))));
  expect(await Promise.all(lengths)).toEqual(lists.map(() => places));
});

test('the first calls of a producer may be many at once, for all shards', async () => {
  const producer = createProducer({ ...target(), prefix: testPrefix(), shards: 4 });
  onTestFinished(() => producer.close());
  const inputs = Array.from({ length: 40 }, (_, at) => makeNotification({ recipientId: `r${at}` }));
  const answers = await Promise.all(inputs.map((input) => producer.enqueue(input)));
  expect(answers.map(({ added }) => added)).toEqual(inputs.map(() => true));
});

test(
  'a producer says that Redis is away while one master is, and goes on at its replica',
  { timeout: 90_000 },
  async () => {
    const prefix = testPrefix();
    const producer = createProducer({ ...target(), prefix, shards: 4, timeoutMs: 2_000 });
    onTestFinished(() => producer.close());
    const toAll = (round: number) =>
      Array.from({ length: 40 }, (_, at) => makeNotification({ id: `${round}-${at}`, recipientId: `r${at}` }));
    await producer.enqueueMany(toAll(0));
    const [tag = ''] = shardPrefixes(prefix, 4).map((of) => of.slice(1, -1));
    const killed = await killMasterOf(cluster, crc16(tag) % SLOTS);
    const errors: unknown[] = [];
    const deadline = performance.now() + 60_000;
    for (let [round, inARow] = [1, 0]; inARow < 5 && performance.now() < deadline; round += 1) {
      try {
        await producer.enqueueMany(toAll(round));
        inARow = errors.length === 0 ? 0 : inARow + 1;
      } catch (error) {
        errors.push(error);
        inARow = 0;
      }
      await sleep(20);
    }
    expect(errors.length).toBeGreaterThan(0);
    expect(errors.filter((error) => !(error instanceof RedisAwayError)).map(String)).toEqual([]);
    expect(performance.now()).toBeLessThan(deadline);
    await killed.restart();
    await waitUntilOk(cluster, cluster.nodes.length);
  },
);

test('a connection that is opened anew while it closes is closed first', async () => {
  const connection = connectWorker(target()).on('error', () => undefined) as Cluster;
  onTestFinished(() => connection.disconnect());
  await whenReady(connection, 5_000);
  await Promise.all(connection.nodes('master').map((node) => node.ping()));
  const told: string[] = [];
  for (const status of ['end', 'ready']) connection.on(status, () => told.push(status));
  connection.disconnect();
  await connection.connect();
  expect(await connection.get('x')).toBeNull();
  expect(told).toEqual(['end', 'ready']);
});

describe('a master that takes connections and does not answer, as while it loads its data', () => {
  const own = testCluster({ masters: 3, replicas: 0, nodeTimeoutMs: 60_000 });

  test.each([
    ['a limiter', (target: RedisTarget): Connection => connectLimiter(target, 20_000)],
    ['a producer', (target: RedisTarget): Connection => connectProducer(target, 20_000)],
  ])('holds up no call of %s for the others', async (_, connect) => {
    const connection = connect({ redisUrl: own.url, cluster: true }).on('error', () => undefined) as Cluster;
    onTestFinished(() => connection.disconnect());
    await once(connection, 'ready');
    // ioredis connects to a master with the first command for it.
    const unused = connection.nodes('master').find(({ status }) => status === 'wait')?.options.port;
    const node = own.nodes.find(({ port }) => port === unused);
    if (node === undefined) throw new Error('it is connected to every master already');
    process.kill(node.pid, 'SIGSTOP');
    onTestFinished(() => void process.kill(node.pid, 'SIGCONT'));
    const key = Array.from({ length: 50 }, (_each, at) => `{${at}}`).find(
      (each) => connection.slots[crc16(each.slice(1, -1)) % SLOTS]?.[0] !== `127.0.0.1:${node.port}`,
    );
    const startedAt = performance.now();
    await whenReady(connection, 1_000);
    for (let call = 0; call < 20; call++) await whenReady(connection, 10_000);
    expect(await connection.set(key ?? '', 'x')).toBe('OK');
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });
});

/** As BullMQ makes its connection for blocking commands. */
function duplicateOf(connection: Cluster): Cluster {
  onTestFinished(() => connection.disconnect());
  return connection.duplicate(undefined, { redisOptions: { connectionName: 'blocking' } });
}

describe('a master that dies while it takes over a slot', () => {
  const own = testCluster({ masters: 3, replicas: 0, nodeTimeoutMs: 60_000 });
  const SLOT = crc16('moving') % SLOTS;

  test.each([
    ['a worker', (target: RedisTarget): Connection => connectWorker(target)],
    [
      "a worker's blocking commands",
      (target: RedisTarget): Connection => duplicateOf(connectWorker(target) as Cluster),
    ],
    ['a limiter', (target: RedisTarget): Connection => connectLimiter(target, 5_000)],
    ['a producer', (target: RedisTarget): Connection => connectProducer(target)],
  ])('ends no process by a command of %s that was sent on to it', async (_, connect) => {
    const unhandled: unknown[] = [];
    const collect = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', collect);
    onTestFinished(() => void process.off('unhandledRejection', collect));
    const connection = connect({ redisUrl: own.url, cluster: true }).on('error', () => undefined) as Cluster;
    onTestFinished(() => connection.disconnect());
    await whenReady(connection, 5_000);
    const source = await masterOf(own, SLOT);
    const target = (await mastersOf(own)).find(({ id }) => id !== source.id)?.node;
    if (target === undefined) throw new Error('only one master');
    await Promise.all(connection.nodes('master').map((node) => node.ping()));
    const toTarget = connection.nodes('master').find(({ options }) => options.port === target.port)?.stream;
    if (toTarget === undefined) throw new Error('it is not connected to the other master');

    const answers: Promise<unknown>[] = [];
    await moveSlot(own, SLOT, target, {
      betweenMasters: async () => {
        process.kill(target.pid, 'SIGSTOP');
        const before = toTarget.bytesWritten;
        answers.push(...Array.from({ length: 3 }, () => connection.get('{moving}')));
        await waitFor(() => expect(toTarget.bytesWritten).toBeGreaterThan(before)); // they were sent on
        process.kill(target.pid, 'SIGKILL');
        await target.ended;
        await Promise.allSettled(answers);
        await target.restart();
      },
    });
    await waitUntilOk(own, own.nodes.length);
    expect(unhandled).toEqual([]);
  });
});
