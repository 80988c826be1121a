import { expect, onTestFinished, test } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { createProducer, type Enqueued, type EnqueueInput, type Producer } from '../../src/queue/producer.ts';
import { connectRedis, testRedisUrl } from '../support/redis.ts';
import { notification, openQueues } from './support.ts';

function produce(prefix: string): Producer {
  const producer = createProducer({ redisUrl: testRedisUrl(), prefix });
  onTestFinished(() => producer.close());
  return producer;
}

/** A sequence of so many, one for each recipient, which tells how many were taken from it. */
function sequence(count: number, more: Partial<EnqueueInput> = {}, failAt = Infinity) {
  const taken = { count: 0 };
  async function* inputs(): AsyncGenerator<EnqueueInput> {
    for (let index = 0; index < count; index++) {
      await Promise.resolve();
      if (index === failAt) throw new Error('the database went away');
      taken.count += 1;
      yield notification({ id: `term-start.${index}`, recipientId: `parent-${index}`, ...more });
    }
  }
  return { inputs: inputs(), taken };
}

test('takes a sequence with 500 in memory, and tells each result in order', async () => {
  const { prefix, queue } = openQueues();
  const { inputs, taken } = sequence(1_300);
  const results: [kind: Enqueued['kind'], index: number, taken: number][] = [];
  const onResult = (result: Enqueued, index: number) => void results.push([result.kind, index, taken.count]);
  const ended = await produce(prefix).enqueueMany(inputs, { onResult });
  expect(ended).toEqual({ read: 1_300, added: 1_300, duplicates: 0, invalid: 0, skipped: 0 });
  expect(results.map(([, index]) => index)).toEqual(Array.from({ length: 1_300 }, (_, index) => index));
  expect(results.every(([, index, then]) => then <= index + 500)).toBe(true);
  expect(await queue.getJobCountByTypes('prioritized')).toBe(1_300);
});

test('tells duplicates and what does not fit, and adds the others', async () => {
  const { prefix } = openQueues();
  const producer = produce(prefix);
  const inputs = [notification({ id: 'a' }), notification({ id: 'a' }), notification({ badge: -1 })];
  expect(await producer.enqueueMany(inputs, {})).toEqual({ read: 3, added: 1, duplicates: 1, invalid: 1, skipped: 0 });
});

test('a broadcast goes on where it stopped, also after its ids are forgotten', async () => {
  const { prefix, queue } = openQueues();
  const producer = produce(prefix);
  const broadcastId = 'term-start';
  const broken = sequence(1_300, {}, 1_200);
  await expect(producer.enqueueMany(broken.inputs, { broadcastId })).rejects.toThrow('the database went away');
  expect(await queue.getJobCountByTypes('prioritized')).toBe(1_000);
  await queue.obliterate({ force: true }); // as if they had been delivered, and their ids were free again

  const skipped: number[] = [];
  const onSkipped = (index: number) => void skipped.push(index);
  const again = await producer.enqueueMany(sequence(1_300).inputs, { broadcastId, onSkipped });
  expect(again).toEqual({ read: 1_300, added: 300, duplicates: 0, invalid: 0, skipped: 1_000 });
  expect([skipped.length, skipped[0], skipped.at(-1)]).toEqual([1_000, 0, 999]);

  const third = await produce(prefix).enqueueMany(sequence(1_300).inputs, { broadcastId });
  expect(third).toMatchObject({ added: 0, skipped: 1_300 });
  expect(await connectRedis().ttl(`${prefix}:broadcast:${broadcastId}`)).toBeGreaterThan(6 * 86_400);
});

test('spreads the alerts over a time, each at an instant of its own', async () => {
  const { prefix, queue } = openQueues();
  const spreadOverMs = 3_600_000;
  const before = Date.now();
  await produce(prefix).enqueueMany(sequence(600, { priority: 'high' }).inputs, { spreadOverMs });
  const jobs = await queue.getDelayed();
  const offsets = jobs.map(({ timestamp, delay }) => timestamp + delay - before).sort((a, b) => a - b);
  expect(offsets).toHaveLength(600);
  expect(offsets[0]).toBeGreaterThanOrEqual(0);
  expect(offsets.at(-1)).toBeLessThanOrEqual(spreadOverMs + 60_000); // `before` is a little before the call's own start
  // Of 600 at random, each quarter of the hour has about 150; fewer than 90 would come up less than once in a million runs.
  for (const quarter of [0, 1, 2, 3]) {
    const from = (quarter * spreadOverMs) / 4;
    expect(offsets.filter((at) => at >= from && at < from + spreadOverMs / 4).length).toBeGreaterThan(90);
  }
  expect(jobs.every(({ opts }) => opts.priority === 5)).toBe(true);
});

test('refuses what would expire only because of the spread', async () => {
  const { prefix } = openQueues();
  const results: Enqueued[] = [];
  const { inputs } = sequence(1, { expiresAt: Date.now() + 1_800_000 });
  await produce(prefix).enqueueMany(inputs, {
    spreadOverMs: 3_600_000,
    onResult: (result) => void results.push(result),
  });
  expect(results).toMatchObject([{ kind: 'invalid', faults: [{ path: 'expiresAt' }] }]);
});

test('stops after the batch under way when it is told to', async () => {
  const { prefix, queue } = openQueues();
  const stop = new AbortController();
  const onResult = () => {
    stop.abort(new Error('enough'));
  };
  const ended = produce(prefix).enqueueMany(sequence(1_300).inputs, { onResult, signal: stop.signal });
  await expect(ended).rejects.toThrow('enough');
  expect(await queue.getJobCountByTypes('prioritized')).toBe(500);
});

test('names every option that is not usable, and takes nothing from the sequence', async () => {
  const { prefix } = openQueues();
  const { inputs, taken } = sequence(3);
  const error: unknown = await produce(prefix)
    .enqueueMany(inputs, { broadcastId: 'a b', spreadOverMs: -1 })
    .catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(InputError);
  expect((error as InputError).faults.map(({ path }) => path)).toEqual(['broadcastId', 'spreadOverMs']);
  expect(taken.count).toBe(0);
});
