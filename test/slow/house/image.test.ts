import { copyFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { freePort } from '../../../sandbox/redis/embedded-redis.ts';
import { commandAt, workerEnv } from '../../house/compose.ts';
import { startProcess } from '../../support/process.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';
import { testPrefix, testRedisUrl } from '../../support/redis.ts';

const ROOT = process.cwd();

test('the image runs a worker that gets ready, is healthy, and stops with 0', async () => {
  const image = await temporaryFolder();
  await runProgram('node', ['tools/build.ts', '--out', join(image, 'dist')], ROOT);
  await copyFile('package.json', join(image, 'package.json'));
  await symlink(join(ROOT, 'node_modules'), join(image, 'node_modules'));
  const env = {
    ...workerEnv(),
    REDIS_URL: testRedisUrl(),
    QUEUE_PREFIX: testPrefix(),
    METRICS_PORT: String(await freePort()),
    ALLOW_NO_CREDENTIALS: 'true',
  };
  const [node, ...args] = commandAt(/^CMD (.*)$/m);
  expect(node).toBe('node');
  const worker = startProcess({ args, cwd: image, env });
  await vi.waitFor(
    async () => {
      const answer = await fetch(`http://127.0.0.1:${env.METRICS_PORT}/readyz`);
      expect(await answer.json()).toMatchObject({ ok: true });
    },
    { timeout: 20_000, interval: 50 },
  );
  const [, ...check] = commandAt(/^HEALTHCHECK .*CMD (.*)$/m);
  expect(await startProcess({ args: check, env }).waitForExit()).toMatchObject({ code: 0, stderr: '' });
  expect(await startProcess({ args: check, env: { METRICS_PORT: '1' } }).waitForExit()).toMatchObject({ code: 1 });
  worker.kill('SIGTERM');
  expect(await worker.waitForExit()).toMatchObject({ code: 0 });
});
