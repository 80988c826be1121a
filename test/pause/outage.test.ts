import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startEmbeddedRedis, type EmbeddedRedis } from '../../src/sandbox/embedded-redis.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { waitFor } from '../support/wait.ts';
import { accepted, BASE_MS, openPauses, pauseOf, probeOf, refused, unreached, type PauseWorker } from './support.ts';

/** Both ways in which workers use ioredis: commands wait for the connection, or fail at once without one. */
const CLIENTS = {
  'that wait for it': { maxRetriesPerRequest: null },
  'that fail at once': { enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false },
} satisfies Record<string, Omit<RedisOptions, 'replyMapping'>>;

/** A Redis of its own that can be stopped and comes back at the same place, empty. */
async function openRedis() {
  const port = await freePort();
  let server: EmbeddedRedis = await startEmbeddedRedis({ port });
  onTestFinished(() => server.close());
  return {
    stop: () => server.close(),
    start: async () => {
      server = await startEmbeddedRedis({ port });
    },
    async connect(options: Omit<RedisOptions, 'replyMapping'> = {}): Promise<Redis> {
      const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50, ...options });
      client.on('error', () => undefined); // refused while it is away
      onTestFinished(() => {
        client.disconnect();
      });
      await waitFor(() => expect(client.status).toBe('ready'));
      return client;
    },
  };
}

describe.each(Object.entries(CLIENTS))('while Redis is away, for clients %s', (_, options) => {
  it('each worker goes by what it sees, one probe at a time, and shares it when Redis is back', async () => {
    const server = await openRedis();
    const clients = await Promise.all([server.connect(options), server.connect(options)]);
    const [worker, other] = clients.map((client) => openPauses('{away}', {}, client)) as [PauseWorker, PauseWorker];
    await Promise.all(clients.map((client) => client.ping()));
    await server.stop();
    worker.pauses.report(refused());
    expect((await worker.pauses.enter('apns')).kind).toBe('paused');
    await waitFor(() => expect(worker.changes.map(({ by }) => by)).toEqual(['us']));
    const probe = await probeOf(worker);
    expect((await worker.pauses.enter('apns')).kind).toBe('paused');
    worker.pauses.report(refused(), probe);
    expect(pauseOf(worker).until - Date.now()).toBeGreaterThan(BASE_MS);
    expect(other.pauses.current('apns')).toBeUndefined();

    const { since } = pauseOf(worker);
    await server.start();
    await waitFor(() => pauseOf(other));
    expect(Math.abs(pauseOf(other).since - since)).toBeLessThan(2_500); // what lay about for a second was still done
    await Promise.any([probeOf(worker), probeOf(other)]);
  });

  it('an outage that a worker meets meanwhile is its own, and stops no other when Redis is back', async () => {
    const server = await openRedis();
    const client = await server.connect(options);
    const worker = openPauses('{away}', { baseMs: 60_000, maxMs: 60_000 }, client);
    await client.ping(); // its first reading was before this
    await server.stop();
    for (let failure = 0; failure < 5; failure++) worker.pauses.report(unreached());
    expect(pauseOf(worker).trouble).toBe('outage');
    await waitFor(() => expect(worker.changes).toHaveLength(1));
    await sleep(1_100); // what is younger than a second is still done when Redis is back
    await server.start();
    const watcher = await server.connect();
    await waitFor(() => expect(worker.pauses.current('apns')).toBeUndefined());
    expect(await watcher.exists('{away}:pause:apns')).toBe(0);
  });

  it('an end that a probe found is shared when Redis is back', async () => {
    const server = await openRedis();
    const worker = openPauses('{away}', {}, await server.connect(options));
    const watcher = await server.connect();
    worker.pauses.report(refused());
    const probe = await probeOf(worker);
    await watcher.client('PAUSE', 1_500);
    worker.pauses.report(accepted(), probe);
    expect(await worker.pauses.enter('apns')).toEqual({ kind: 'open' });
    await waitFor(() => expect(worker.changes).toHaveLength(2));
    expect(worker.changes.at(-1)).toMatchObject({ pause: undefined, by: 'us' });
    await waitFor(async () => expect(await watcher.exists('{away}:pause:apns')).toBe(0));
    expect(worker.pauses.current('apns')).toBeUndefined();
    expect(worker.changes).toHaveLength(2);
  });

  it('nothing hangs, nothing piles up', async () => {
    const server = await openRedis();
    const client = await server.connect(options);
    const worker = openPauses('{away}', {}, client);
    worker.pauses.report(refused());
    await waitFor(() => expect(worker.changes).toHaveLength(1));
    const watcher = await server.connect();
    await watcher.client('PAUSE', 2_500);
    await waitFor(() => expect(Date.now()).toBeGreaterThan(pauseOf(worker).until));
    const askedAt = performance.now();
    const probe = await probeOf(worker); // Redis is asked for a second, then not
    expect(performance.now() - askedAt).toBeLessThan(2_500);
    worker.pauses.report(refused(), probe);
    expect((Reflect.get(client, 'commandQueue') as { length: number }).length).toBeLessThanOrEqual(3);
    await waitFor(async () => expect(await watcher.hget('{away}:pause:apns', 'step')).toBe('1'));
    expect(pauseOf(worker).trouble).toBe('auth');
  });
});

it('what lay about in the client while Redis was away is not done by and by', async () => {
  const server = await openRedis();
  const client = await server.connect({ maxRetriesPerRequest: null });
  const worker = openPauses('{away}', {}, client);
  const watcher = await server.connect();
  await client.ping(); // its first reading was before this
  await watcher.client('PAUSE', 2_000);
  worker.pauses.report(refused());
  const probe = await probeOf(worker);
  worker.pauses.report(accepted(), probe); // over and done with, while the opening is still under way
  await watcher.ping();
  expect(worker.pauses.current('apns')).toBeUndefined();
  expect(await watcher.exists('{away}:pause:apns')).toBe(0);
});

it('leaves nothing on the event loop', async () => {
  const server = await openRedis();
  const client = await server.connect();
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const worker = openPauses('{away}', {}, client);
  worker.pauses.report(refused());
  await worker.pauses.close();
  expect(timers()).toBeLessThanOrEqual(before);
});
