import { expect, it } from 'vitest';
import { pauseKey } from '../../src/pause/store.ts';
import { startProcess } from '../support/process.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import type { Act } from './worker.ts';

it('what one process meets, all keep; a killed one loses its probe to another, which ends the pause and itself', async () => {
  const prefix = testPrefix();
  const redis = connectRedis();
  const key = pauseKey(prefix, 'apns');
  const start = (act: Act) => startProcess({ args: ['test/pause/worker.ts', testRedisUrl(), prefix, act] });

  const holder = start('hold');
  await holder.waitForLine(/^ready$/);
  const refused = start('refuse');
  await refused.waitForLine(/^paused by us$/);
  await holder.waitForLine(/^paused by others$/);
  await holder.waitForLine(/^probe$/);
  holder.kill('SIGKILL');
  await holder.waitForExit();
  expect(await redis.hexists(key, 'probe')).toBe(1);

  const heir = start('end');
  await heir.waitForLine(/^paused by others$/);
  await redis.hset(key, 'lease', Date.now() - 1); // as if it were 20 s later
  const { code, stdout } = await heir.waitForExit();
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'ready\npaused by others\nprobe\nopen by us\n' });
  await refused.waitForLine(/^open by others$/);
  await waitFor(async () => expect(await redis.exists(key)).toBe(0));
});
