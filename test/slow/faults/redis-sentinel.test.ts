import { expect, it } from 'vitest';
import { startProcess } from '../../support/process.ts';
import { createProducer } from '../../../src/queue/producer.ts';
import { eventually, KEPT, openFaultBench, page, PATIENCE } from '../../support/fault-bench.ts';
import { makeNotification } from '../../support/push.ts';
import { GROUP, openSentinelGroup } from '../../support/redis-sentinel.ts';

it('workers go on at the new master when theirs is killed, and so do producers and commands', PATIENCE, async () => {
  const { master, env, sentinel, connection } = await openSentinelGroup();
  const bench = await openFaultBench({ connection, env });
  const [worker] = await Promise.all([bench.startWorker(), bench.startWorker()]);
  await bench.add(36);
  await bench.delivered(12);
  // What the replica had not heard of may be lost, as docs/redis.md says: no more is written until it has heard of all.
  await connection.call('CLIENT', 'PAUSE', 5_000, 'WRITE');
  expect(await connection.wait(1, 2_000)).toBe(1);

  process.kill(master.pid, 'SIGKILL');
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
  await eventually(async () => {
    expect(await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', GROUP)).not.toContain(String(master.port));
  });
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200), 10_000);

  await bench.completed();
  const { duplicates, ...verdict } = bench.verdict();
  expect(verdict).toMatchObject({ gapViolations: KEPT.gapViolations, windowViolations: KEPT.windowViolations });
  expect(duplicates).toBeLessThanOrEqual(2); // what the replica had not heard of yet

  const { REDIS_URL: redisUrl, REDIS_SENTINEL_PASSWORD: password } = env as Record<string, string>;
  const producer = createProducer({
    redisUrl: redisUrl ?? '',
    sentinel: { name: GROUP, password: password ?? '' },
    prefix: bench.prefix,
  });
  expect(await producer.enqueue(makeNotification({ id: 'by-producer' }))).toEqual({ id: 'by-producer', added: true });
  await producer.close();
  const flags = ['--recipient', 'teacher-9', '--fcm', 'some-token', '--title', 'Room 12', '--body', 'By command'];
  const command = startProcess({ args: ['scripts/enqueue.ts', ...flags], env: { ...env, QUEUE_PREFIX: bench.prefix } });
  expect(await command.waitForExit()).toMatchObject({ code: 0 });
  await bench.delivered(38);
});

it('a producer says which Sentinels do not answer', async () => {
  const redisUrl = 'redis://:s3cret@127.0.0.1:1,redis://127.0.0.1:2';
  const producer = createProducer({ redisUrl, sentinel: { name: GROUP } });
  await expect(producer.enqueue(makeNotification())).rejects.toThrow(
    /^Redis is away: mymaster by Sentinel 127\.0\.0\.1:1, 127\.0\.0\.1:2 \(All sentinels are unreachable/,
  );
  await producer.close();
});
