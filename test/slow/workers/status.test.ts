import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import type { SeenWorker } from '../../../src/queue/workers.ts';
import { workersKey } from '../../../src/queue/names.ts';
import { startProcess } from '../../support/process.ts';
import { makeNotification } from '../../support/push.ts';
import { connectRedis, queueEnv } from '../../support/redis.ts';
import { runOnTerminal } from '../../support/terminal.ts';
import { openWorkerBench } from '../../support/worker.ts';

interface Status {
  readonly wrong: readonly { readonly kind: string; readonly text: string }[];
  readonly workersAlive: number;
  readonly workers: readonly SeenWorker[];
}

async function status(prefix: string): Promise<Status> {
  const command = startProcess({ args: ['scripts/status.ts', '--json'], env: queueEnv(prefix) });
  const { code, stdout, stderr } = await command.waitForExit();
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Status;
}

test('a worker that was killed or frozen is not seen; one that goes on is back; one that ends is not there', async () => {
  const { startWorker, prefix, queue } = await openWorkerBench();
  const [killed, frozen, living] = [await startWorker(), await startWorker(), await startWorker()];
  const at = (shown: Status, { pid }: { readonly pid: number }) => shown.workers.find((worker) => worker.pid === pid);
  expect(await status(prefix)).toMatchObject({ workersAlive: 3, wrong: [] });
  killed.kill('SIGKILL');
  frozen.kill('SIGSTOP');
  await sleep(16_000);
  const gone = await status(prefix);
  expect(gone.workersAlive).toBe(1);
  expect(gone.wrong.map(({ kind }) => kind)).toEqual(['worker-silent']);
  expect(gone.wrong[0]?.text).toMatch(/^2 workers are not seen/);
  expect(at(gone, killed)).toMatchObject({ alive: false });
  expect(at(gone, frozen)?.silentMs).toBeGreaterThanOrEqual(15_000);
  const page = await (await fetch(`${living.url}/metrics`)).text();
  expect(page).toMatch(/^pushpacer_workers_alive 1$/m);
  expect(page).toMatch(/^pushpacer_due_oldest_age_seconds 0$/m);

  frozen.kill('SIGCONT');
  await vi.waitFor(async () => expect(at(await status(prefix), frozen)).toMatchObject({ alive: true }), {
    timeout: 20_000,
    interval: 500,
  });
  frozen.kill('SIGTERM');
  await frozen.waitForExit();
  expect(at(await status(prefix), frozen)).toBeUndefined();

  living.kill('SIGKILL');
  await living.waitForExit();
  await queue.add('push', makeNotification(), { priority: 10 });
  const redis = connectRedis();
  for (const [field, line] of Object.entries(await redis.hgetall(workersKey(prefix)))) {
    if (!field.startsWith('policy:'))
      await redis.hset(workersKey(prefix), field, line.replace(/^\d+/, String(Date.now() - 40_000)));
  }
  const last = await status(prefix);
  expect(last.wrong.map(({ kind }) => kind)).toEqual(['no-worker']);
  expect(last.wrong[0]?.text).toMatch(/was seen last, 4\d(\.\d)?s ago; start one: (npx )?pushpacer worker$/);
}, 90_000);

test.each([100, 60, 40])(
  'on a terminal of %d columns no line is longer, and the verdict is the last',
  async (columns) => {
    const { prefix, startWorker, queue } = await openWorkerBench();
    await startWorker({ LIMIT_MIN_GAP: '1h', LIMIT_RULES: '10/1m,20/2m,30/3m,40/4m,50/5m,60/6m,70/7m,80/8m' });
    const recipientId = 'a-recipient-with-a-name-that-is-as-long-as-names-of-recipients-may-well-be';
    for (let at = 0; at < 3; at++) await queue.add('push', makeNotification({ recipientId }), { priority: 10 });
    await vi.waitFor(async () => expect(await queue.getDelayedCount()).toBe(2), { timeout: 10_000 });
    const { code, lines } = await runOnTerminal({ command: 'node scripts/status.ts', columns, env: queueEnv(prefix) });
    expect(code).toBe(0);
    expect(lines.filter((line) => line.length > columns)).toEqual([]);
    const words = lines.join(' ').replaceAll(/ +/g, ' ');
    expect(words).toContain('80/8m, gap 1h (1 worker)');
    expect(words).toMatch(/ALL IS WELL 1 worker is alive, 2 wait, nothing is late, .* hour$/);
  },
);
