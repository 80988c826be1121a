import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { addToken } from '../../../api/tokens.ts';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { temporaryFolder } from '../../support/program.ts';
import { startProcess } from '../../support/process.ts';
import { queueEnv } from '../../support/redis.ts';

it.each([
  ['api/api.ts', 'the API is ready'],
  ['console/serve.ts', 'the API and the console are ready'],
])('%s says that it is ready only when Redis answers', async (program, ready) => {
  const redis = await startEmbeddedRedis();
  await redis.close();
  const tokensFile = join(await temporaryFolder(), 'tokens.json');
  await addToken(tokensFile, { name: 'all', scopes: ['send', 'read', 'operate'] });
  const env = { ...queueEnv('{ready}'), REDIS_URL: redis.url, API_TOKENS_FILE: tokensFile };
  const served = startProcess({ args: [program], env: { ...env, API_PORT: '0', CONSOLE_PORT: '0' } });
  await served.waitForLine(/has no connection to Redis: what needs it is refused \(503\)/);
  const again = await startEmbeddedRedis({ port: redis.port });
  onTestFinished(() => again.close());
  await served.waitForLine(new RegExp(`"msg":"${ready}"`));
  served.kill('SIGTERM');
  const { code, stdout } = await served.waitForExit();
  expect(code).toBe(0);
  const messages = stdout
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { readonly msg: string }).msg);
  const first = messages.findIndex((msg) => msg.includes('no connection to Redis'));
  expect(first).toBeGreaterThanOrEqual(0);
  expect(messages.indexOf(ready)).toBeGreaterThan(first);
  expect(messages.filter((msg) => msg === ready)).toHaveLength(1);
});
