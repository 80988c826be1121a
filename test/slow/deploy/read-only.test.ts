import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { addToken } from '../../../api/tokens.ts';
import { NO_LATENCY } from '../../../sandbox/loopback/timing.ts';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { queueEnv, testPrefix } from '../../support/redis.ts';
import { openWorkerBench } from '../../support/worker.ts';

/** Node refuses each write to a file, and each child process. */
const NO_WRITES = ['--permission', '--allow-fs-read=*', '--allow-addons', '--allow-worker'];

describe('where no file can be written, as on the read-only root of a pod', () => {
  test('a write fails', async () => {
    const file = join(await temporaryFolder(), 'written');
    const write = `require('node:fs').writeFileSync(${JSON.stringify(file)}, '')`;
    const { code, stderr } = await startProcess({ args: [...NO_WRITES, '-e', write] }).waitForExit();
    expect(code).toBe(1);
    expect(stderr).toContain('ERR_ACCESS_DENIED');
  });

  test('a worker sends, answers on its pages, and stops', async () => {
    const { sandbox, queue, startWorker } = await openWorkerBench({ latency: NO_LATENCY });
    const worker = await startWorker({ HISTORY_MAX: '10', OUTCOMES_MAX: '10' }, NO_WRITES);
    const platforms = ['apns', 'fcm', 'webpush'] as const;
    const devices = platforms.map((platform) => makeDevice(platform, sandbox.env()['WEBPUSH_ORIGINS']));
    const notification = makeNotification({ devices });
    await queue.add('notification', notification, { jobId: notification.id, priority: 10 });
    const sent = await sandbox.journal.waitFor(3);
    expect(sent.map(({ platform }) => platform).toSorted()).toEqual([...platforms]);
    for (const page of ['metrics', 'healthz', 'readyz']) {
      expect((await fetch(new URL(page, worker.url))).status).toBe(200);
    }
    worker.kill('SIGTERM');
    const { code, stdout, stderr } = await worker.waitForExit();
    expect(stdout + stderr).not.toContain('ERR_ACCESS_DENIED');
    expect(code).toBe(0);
  });

  test('the API and the console answer, and stop', async () => {
    const tokens = join(await temporaryFolder(), 'api-tokens.json');
    await addToken(tokens, { name: 'school-app', scopes: ['read'] });
    const env = { ...queueEnv(testPrefix()), API_TOKENS_FILE: tokens, API_PORT: '0', CONSOLE_PORT: '0' };
    const serve = startProcess({ args: [...NO_WRITES, 'console/serve.ts'], env });
    const line = await serve.waitForLine(/the API and the console are ready/);
    const urls = JSON.parse(line) as { api: string; console: string };
    expect((await fetch(new URL('readyz', urls.api))).status).toBe(200);
    expect((await fetch(urls.console)).status).toBe(200);
    serve.kill('SIGTERM');
    const { code, stdout, stderr } = await serve.waitForExit();
    expect(stdout + stderr).not.toContain('ERR_ACCESS_DENIED');
    expect(code).toBe(0);
  });
});
