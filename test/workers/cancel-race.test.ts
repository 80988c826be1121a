import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { race, RACE_LIMITS } from '../support/cancel-race.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';
import { blocked, SLOW } from '../support/waiting.ts';

/** As at the real providers: a median of 40 ms and a 99th percentile of 250 ms. */
const REAL_LATENCY = {};

test('of a cancel and a send exactly one wins', async () => {
  const bench = await openReplicaBench(REAL_LATENCY);
  await bench.startHere(RACE_LIMITS);
  const { producer, queue, sandbox } = bench;
  const accepted = () => sandbox.journal.accepted.map(({ token }) => token);
  const { canceled, tooLate } = await race({ producer, queue, recipients: 20, notifications: 10, accepted });
  expect(canceled).toBeGreaterThan(20);
  expect(tooLate).toBeGreaterThan(20);
});

test('what is canceled just as it joins a digest is told as canceled, in its status and in the stream', async () => {
  const bench = await openReplicaBench();
  await bench.startHere({ ...SLOW, OUTCOMES_MAX: '1000' });
  const fields = { onThrottle: 'digest', digest: { key: 'thread-77', title: '{{count}} new' } } as const;
  await blocked(bench, [fields]);
  const redis = connectRedis();
  const parts = Array.from({ length: 90 }, () => makeNotification(fields));
  const answers = await Promise.all(
    parts.map(async (part) => {
      await bench.producer.enqueue(part);
      // A worker has taken it: it asks for its slot, and joins, within milliseconds.
      const taken = () => redis.hexists(bench.queue.toKey(part.id), 'processedOn');
      while ((await taken()) === 0) await sleep(1);
      await sleep(40 * Math.random());
      return bench.producer.cancel({ id: part.id });
    }),
  );
  expect(answers).toEqual(parts.map(() => ({ canceled: 1, tooLate: 0 })));
  await expect.poll(() => bench.queue.getActiveCount()).toBe(0);
  await expect.poll(() => bench.queue.getDelayedCount()).toBe(1); // the digest itself
  const entries = await outcomesIn(redis, bench.prefix);
  let merged = 0;
  for (const { id } of parts) {
    expect(await bench.producer.status(id)).toMatchObject({ outcome: 'canceled' });
    const told = entries.filter((entry) => entry['id'] === id).map(({ outcome }) => outcome);
    expect(told.at(-1)).toBe('canceled');
    expect(told.filter((outcome) => outcome === 'canceled')).toHaveLength(1);
    if (told.includes('merged')) merged += 1;
  }
  expect(merged).toBeGreaterThan(5);
});
