import { expect, test } from 'vitest';
import { main } from '../../scripts/redis.ts';
import { runMain } from '../support/command.ts';
import { startProcess } from '../support/process.ts';
import { connectRedis } from '../support/redis.ts';

test.each(['SIGINT', 'SIGTERM'] as const)('npm run redis serves until %s, and ends with 0', async (signal) => {
  const command = startProcess({ args: ['scripts/redis.ts', '--hz', '50'] });
  const url = (await command.waitForLine(/^REDIS_URL=/)).replace('REDIS_URL=', '');
  expect(await connectRedis(url).config('GET', 'hz')).toEqual(['hz', '50']);
  command.kill(signal);
  expect(await command.waitForExit()).toMatchObject({ code: 0, stdout: `REDIS_URL=${url}\n`, stderr: '' });
});

test('a server that ends by itself is a failure', async () => {
  const command = startProcess({ args: ['scripts/redis.ts'] });
  const url = (await command.waitForLine(/^REDIS_URL=/)).replace('REDIS_URL=', '');
  const info = await connectRedis(url).info('server');
  process.kill(Number(/process_id:(\d+)/.exec(info)?.[1]), 'SIGKILL');
  expect(await command.waitForExit()).toMatchObject({ code: 1, stderr: 'error: the Redis server ended by itself\n' });
});

test.each([
  [['--port', '0'], '--port: expected an integer from 1 to 65535, found "0"'],
  [['--hz', 'many'], '--hz: expected an integer from 1 to 500, found "many"'],
  [['--nope'], "unknown option '--nope'"],
])('%j is bad usage', async (flags, message) => {
  const { code, stderr } = await runMain(main, flags);
  expect(stderr).toContain(message);
  expect(code).toBe(2);
});
