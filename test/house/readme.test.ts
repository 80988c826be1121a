import { readFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { startProcess } from '../support/process.ts';
import { openSandbox } from '../support/providers.ts';
import { runSnippet } from '../support/snippet.ts';

const readme = await readFile('README.md', 'utf8');

async function ownRedis(): Promise<string> {
  const redis = await startEmbeddedRedis();
  onTestFinished(() => redis.close());
  return redis.url;
}

describe('the README', () => {
  it('is 250 lines or less', () => expect(readme.split('\n').length).toBeLessThanOrEqual(251));

  it('has no snippet in JavaScript that is not run here', () => {
    expect([...readme.matchAll(/<!-- test: ([a-z-]+) -->\n```js/g)].map(([, name]) => name)).toEqual([
      'enqueue',
      'plain-bullmq',
    ]);
    expect(readme.match(/```(js|ts)\n/g)).toHaveLength(2);
  });

  it('names no npm script that is missing', async () => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    const named = [...readme.matchAll(/npm run (?:--silent )?([a-z:-]+)/g)].map(([, name]) => name ?? '');
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });

  it('has a worker deliver what both producers of its quick start add', async () => {
    const redisUrl = await ownRedis();
    const sandbox = await openSandbox();
    const env = { ...sandbox.env(), REDIS_URL: redisUrl, METRICS_PORT: '0', LIMIT_MIN_GAP: '100ms' };
    const worker = startProcess({ args: ['workers/notifications.ts'], env });
    await worker.waitForLine(/"msg":"ready"/);
    expect(await runSnippet('README.md', 'enqueue', redisUrl)).toMatchObject({
      code: 0,
      stdout: 'msg-8841 true\n',
      stderr: '',
    });
    expect(await runSnippet('README.md', 'plain-bullmq', redisUrl)).toMatchObject({ code: 0, stderr: '' });
    await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(2), { timeout: 10_000 });
    expect(sandbox.journal.accepted.map(({ body }) => body)).toEqual([
      'Field trip forms are due',
      'The bus leaves at half past eight',
    ]);
  });
});
