import { expect, test } from 'vitest';
import { main as reshard } from '../../scripts/reshard.ts';
import { main as status } from '../../scripts/status.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { hasQueue, readLayout, takeLease, type Layout } from '../../src/queue/shards/layout.ts';
import { layoutKey, shardPrefixes } from '../../src/queue/names.ts';
import { openQueues } from '../queue/support.ts';
import { runMain } from '../support/command.ts';
import { enterWorker } from '../support/presence.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

// The whole way, with workers and under load, is in test/slow/e2e/reshard.test.ts.

async function open(layout?: Partial<Layout>) {
  const redis = connectRedis();
  const { prefix, queue } = openQueues();
  await waitFor(async () => expect(await hasQueue(redis, prefix)).toBe(true)); // BullMQ writes it a little later
  if (layout !== undefined) {
    const record = { version: 1, phase: 'steady', prefixes: shardPrefixes(prefix, 2), former: [[prefix]], ...layout };
    await redis.set(layoutKey(prefix), JSON.stringify(record));
  }
  const run = (to: number | string) => runMain(reshard, ['--to', String(to)], queueEnv(prefix));
  return { redis, prefix, queue, run };
}

test.each(['0', '65', 'x', ''])('refuses %j shards', async (to) => {
  const { run } = await open();
  const found = `error: --to: expected an integer from 1 to 64, found ${JSON.stringify(to)}`;
  expect(await run(to)).toMatchObject({ code: 2, stderr: expect.stringContaining(found) as string });
});

test('refuses where there is no queue', async () => {
  const { prefix } = await open();
  const other = prefix.replace('test', 'test-none');
  const { code, stderr } = await runMain(reshard, ['--to', '2'], queueEnv(other));
  expect([code, stderr]).toEqual([1, expect.stringContaining(`no queue ${other} on this Redis`)]);
});

test('refuses while the queue is paused, while another one runs, and while another number is not done', async () => {
  const { redis, prefix, queue, run } = await open();
  await queue.pause();
  expect(await run(2)).toMatchObject({ code: 1, stderr: 'error: the queue is paused: resume it first\n' });
  await queue.resume();
  await queue.upsertJobScheduler('daily', { every: 86_400_000 });
  expect((await run(2)).stderr).toContain('the queue has job schedulers of BullMQ, which cannot be moved');
  await queue.removeJobScheduler('daily');
  const lease = await takeLease(redis, prefix, 60_000);
  expect((await run(2)).stderr).toBe('error: another reshard of this queue runs: wait until it has ended\n');
  await lease?.release();
  const record = { version: 7, phase: 'move', prefixes: shardPrefixes(prefix, 3), former: [[prefix]] };
  await redis.set(layoutKey(prefix), JSON.stringify(record));
  expect((await run(2)).stderr).toBe('error: a reshard to 3 is not done: end it first, with --to 3\n');
  expect(await redis.exists(`${layoutKey(prefix)}:lease`)).toBe(0);
});

test('waits for a worker that moves jobs, which gives the lease up after a while', async () => {
  const { redis, prefix, run } = await open({});
  const lease = await takeLease(redis, prefix, 60_000);
  const running = run(2);
  await expect.poll(() => redis.get(`${layoutKey(prefix)}:fence`)).toBe('1');
  await lease?.release();
  expect(await running).toMatchObject({ code: 0, stdout: '2 shards already: nothing to do\n' });
});

test('refuses while a worker is alive that does not follow, and names it', async () => {
  const { redis, prefix, run } = await open();
  await enterWorker(prefix);
  expect((await run(2)).stderr).toBe(
    'error: the worker web-1 (process 7) is of version 0.1.0, which does not follow the number of shards: replace it by the ' +
      'present version first\n',
  );
  expect(await readLayout(redis, prefix)).toBeUndefined();
});

test('with the present number there is nothing to do, or what is left in former queues is moved', async () => {
  const { redis, prefix, queue, run } = await open({});
  expect(await run(2)).toMatchObject({ code: 0, stdout: '2 shards already: nothing to do\n' });
  await queue.add('push', { recipientId: 'teacher-42' }, { jobId: 'x', delay: 60_000 });
  const shown = JSON.parse((await runMain(status, ['--json'], queueEnv(prefix))).stdout) as { shards: unknown };
  expect(shown.shards).toEqual({ version: 1, phase: 'steady', from: 2, to: 2, left: 1 });
  expect((await runMain(status, [], queueEnv(prefix))).stdout).toMatch(
    /^shards +2 \(1 in former queues, which workers move\)$/m,
  );
  expect(await run(2)).toMatchObject({ code: 0, stdout: '2 shards already: moved 1 from former queues\n' });
  expect((await createAudit(redis, prefix).read({ count: 1 }))[0]).toMatchObject({
    ...{ action: 'reshard', on: prefix, facts: { from: 2, to: 2, moved: 1, dropped: 0 } },
  });
  expect(await redis.exists(queue.toKey('events'))).toBe(0);
  expect(await readLayout(redis, prefix)).toMatchObject({ version: 1 });
});

test('a change that was only prepared is given up with the present number', async () => {
  const { redis, prefix, run } = await open();
  const record = { version: 1, phase: 'prepare', prefixes: [prefix], next: shardPrefixes(prefix, 3), former: [] };
  await redis.set(layoutKey(prefix), JSON.stringify(record));
  const { stdout } = await runMain(status, [], queueEnv(prefix));
  expect(stdout).toMatch(/^shards +1 \(a reshard to 3 begins\)$/m);
  expect(await run(1)).toMatchObject({ code: 0, stdout: '1 shard already: nothing to do\n' });
  expect(await readLayout(redis, prefix)).toEqual({ version: 2, phase: 'steady', prefixes: [prefix], former: [] });
});
