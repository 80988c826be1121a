import { mkdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { startConsole } from '../console/start.ts';
import { openRedis } from '../sandbox/redis/embedded-redis.ts';
import { startSandbox } from '../sandbox/sandbox.ts';
import { loadConfig, loadConsoleConfig } from '../src/config/config.ts';
import type { EnqueueInput } from '../src/producer/add-jobs.ts';
import { createLog } from '../src/observe/log.ts';
import { createProducer } from '../src/producer/producer.ts';
import { startReplica } from '../workers/replica.ts';
import { launchBrowser } from './browser.ts';

/** Where docs/console.md finds them. */
const OUT = 'docs/images';
const SCHEMES = ['light', 'dark'] as const;
/** So long the worker has for a first part of the work, and the console for its charts. */
const RUN_MS = 75_000;

/** The pages, by the name of their picture. */
const PAGES: Readonly<Record<string, (page: Page, url: string) => Promise<unknown>>> = {
  now: (page, url) => page.goto(url),
  recipient: (page, url) => page.goto(`${url}/recipients/teacher-7`),
  notification: async (page, url) => {
    await page.goto(`${url}/recipients/teacher-7`);
    await page.locator('a[href^="/notifications/"]').nth(2).click();
  },
  'dead-letters': (page, url) => page.goto(`${url}/dead-letters`),
};

/**
 * `node tools/screenshots.ts`: the pictures of docs/console.md, light and dark, of a real console at a real worker, which sends to
 * the loopback.
 */
async function main(): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  const redis = cleanup.adopt(await openRedis({ say }), (it) => it.close());
  const sandbox = cleanup.adopt(
    await startSandbox({ answers: [{ platform: 'fcm', token: 'gone', reason: 'UNREGISTERED' }] }),
    (it) => it.close(),
  );
  const limits = { LIMIT_RULES: '5/1m,30/1h', LIMIT_MIN_GAP: '3s' };
  const env = {
    ...sandbox.env(),
    ...limits,
    REDIS_URL: redis.url,
    METRICS_PORT: 'off',
    HISTORY_MAX: '1000',
    OUTCOMES_MAX: '1000',
  };
  const log = createLog('silent');
  const { signal } = new AbortController();
  const replica = await startReplica(loadConfig(env), log, { env, signal });
  cleanup.defer(() => replica.stop());
  const console = await startConsole(loadConsoleConfig({ REDIS_URL: redis.url, CONSOLE_PORT: '0' }), log);
  cleanup.defer(() => console.close());
  const producer = cleanup.adopt(createProducer({ redisUrl: redis.url }), (it) => it.close());
  await producer.enqueueMany(morning());
  say(`a worker sends for ${RUN_MS / 1_000} s`);
  await sleep(RUN_MS);

  const browser = cleanup.adopt(await launchBrowser(), (it) => it.close());
  mkdirSync(OUT, { recursive: true });
  for (const colorScheme of SCHEMES) {
    const page = await browser.newPage({ colorScheme, viewport: { width: 1180, height: 1000 } });
    for (const [name, open] of Object.entries(PAGES)) {
      await open(page, console.url);
      await page.waitForLoadState('networkidle');
      const file = `${OUT}/console-${name}${colorScheme === 'dark' ? '-dark' : ''}.png`;
      await page.screenshot({ path: file });
      say(file);
    }
    await page.close();
  }
}

/** A morning at a school: one teacher gets many messages, 40 others some; a few devices are gone. */
function morning(): EnqueueInput[] {
  return Array.from({ length: 300 }, (_, index): EnqueueInput => {
    const recipientId = index < 40 ? 'teacher-7' : `teacher-${index % 41}`;
    const isGone = index % 29 === 0;
    return {
      id: `msg-${8_000 + index}`,
      recipientId,
      category: index % 3 === 0 ? 'homework' : 'chat',
      devices: [{ platform: 'fcm', token: isGone ? 'gone' : `token-of-${recipientId}` }],
      alert: { title: 'Class 7b', body: 'A new message' },
      ...(index % 5 === 0 && { cancellationKey: `lesson-${index % 7}` }),
    };
  });
}

await main();
