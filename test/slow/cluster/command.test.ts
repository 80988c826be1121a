import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { Cluster } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { main as redis } from '../../../scripts/redis.ts';
import { startEmbeddedCluster } from '../../../sandbox/index.ts';
import { expectDocumented } from '../../house/documented.ts';
import { runMain } from '../../support/command.ts';
import { startProcess } from '../../support/process.ts';
import { connectRedis } from '../../support/redis.ts';
import { waitFor } from '../../support/wait.ts';

interface Server {
  readonly pid: number;
  readonly folder: string;
}

async function serversAt(ports: readonly number[]): Promise<Server[]> {
  return Promise.all(
    ports.map(async (port) => {
      const node = connectRedis(`redis://127.0.0.1:${port}`);
      const [info, [, folder = '']] = await Promise.all([node.info('server'), node.config('GET', 'dir')]);
      node.disconnect();
      return { pid: Number(/process_id:(\d+)/.exec(info)?.[1]), folder };
    }),
  );
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

const expectGone = (servers: readonly Server[]) =>
  waitFor(() => {
    expect(servers.filter(({ pid, folder }) => isAlive(pid) || existsSync(folder))).toEqual([]);
  });

test.each(['SIGTERM', 'SIGKILL'] as const)('redis --cluster serves until %s, and leaves nothing', async (signal) => {
  const command = startProcess({ args: ['scripts/redis.ts', '--cluster'] });
  const line = await command.waitForLine(/^REDIS_CLUSTER=/);
  const url = (await command.waitForLine(/^REDIS_URL=/)).replace('REDIS_URL=', '');
  expect(line).toBe('REDIS_CLUSTER=true');
  const ports = url.split(',').map((each) => Number(new URL(each).port));
  const cluster = new Cluster(ports.map((port) => ({ host: '127.0.0.1', port })));
  onTestFinished(() => cluster.disconnect());
  await cluster.set('a', '1');
  const nodes = (await cluster.cluster('NODES')) as string;
  expect([nodes.match(/\bmaster\b/g), nodes.match(/\bslave\b/g)].map((found) => found?.length)).toEqual([3, 3]);
  cluster.disconnect();
  const servers = await serversAt(ports);
  expect(servers.filter(({ pid, folder }) => isAlive(pid) && existsSync(folder))).toHaveLength(6);
  command.kill(signal);
  const exit = await command.waitForExit();
  if (signal === 'SIGTERM') {
    expect(exit).toMatchObject({ code: 0, stdout: `REDIS_URL=${url}\nREDIS_CLUSTER=true\n`, stderr: '' });
  }
  await expectGone(servers);
});

/** The first of so many ports in a row that nobody listens on. None is one that systems give to clients: those begin at 32,768 or later. */
async function freePorts(count: number): Promise<number> {
  for (;;) {
    const first = 10_000 + Math.floor(20_000 * Math.random());
    const servers = Array.from({ length: count }, (_, more) => createServer().listen(first + more, '127.0.0.1'));
    const tried = await Promise.allSettled(servers.map((server) => once(server, 'listening')));
    const listening = servers.filter((server) => server.listening);
    await Promise.all(listening.map((server) => once(server.close(), 'close')));
    if (tried.every(({ status }) => status === 'fulfilled')) return first;
  }
}

test('with a port the nodes have that one and the next five, and the JSON is that of the page', async () => {
  const port = await freePorts(6);
  const command = startProcess({ args: ['scripts/redis.ts', '--cluster', '--json', '--port', String(port)] });
  const answer = JSON.parse(await command.waitForLine(/^\{/)) as { ports: number[] };
  expect(answer).toEqual({
    url: answer.ports.map((each) => `redis://127.0.0.1:${each}`).join(),
    ports: [0, 1, 2, 3, 4, 5].map((more) => port + more),
    cluster: true,
  });
  await expectDocumented('redis', answer, { url: '', port: 1 });
});

test('it goes on without one of its servers, and fails when none is left', async () => {
  const command = startProcess({ args: ['scripts/redis.ts', '--cluster', '--json'] });
  const { ports } = JSON.parse(await command.waitForLine(/^\{/)) as { ports: number[] };
  const servers = await serversAt(ports);
  for (const { pid } of servers.slice(1)) process.kill(pid, 'SIGKILL');
  await waitFor(() => expect(servers.slice(1).filter(({ pid }) => isAlive(pid))).toEqual([]));
  expect(await connectRedis(`redis://127.0.0.1:${ports[0] ?? 0}`).ping()).toBe('PONG');
  process.kill(servers[0]?.pid ?? 0, 'SIGKILL');
  expect(await command.waitForExit()).toMatchObject({ code: 1, stderr: 'error: the Redis server ended by itself\n' });
  await expectGone(servers);
});

test('what does not go together is bad usage, and says why', async () => {
  expect(await runMain(redis, ['--cluster', '--dir', '/nowhere'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--dir: expected none with --cluster') as string,
  });
  expect(await runMain(redis, ['--cluster', '--port', '65533'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('port: expected a whole number from 1 to 65530, found 65533') as string,
  });
  await expect(startEmbeddedCluster({ masters: 0, nodes: 3 } as object)).rejects.toThrow(
    /nodes: .*did you mean masters.*\n.*masters: expected a whole number from 1 to 100, found 0/,
  );
});
