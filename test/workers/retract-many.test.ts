import { expect, onTestFinished, test, vi } from 'vitest';
import { createProducer } from '../../src/producer/producer.ts';
import { makeDevice } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { FAST, NONE, alertOf, goes } from '../support/retracting.ts';
import { waitFor } from '../support/wait.ts';

// Many retracts of one person at the same time.

/** Delivers alerts to one phone, stops the worker, and resolves to their ids. */
async function delivered(bench: ReplicaBench, count: number): Promise<string[]> {
  const replica = await bench.startHere(FAST);
  const devices = [makeDevice('fcm')];
  const all = Array.from({ length: count }, (_, index) => alertOf(`Message ${index}`, { id: `m-${index}`, devices }));
  await bench.producer.enqueueMany(all);
  await waitFor(async () => expect(await bench.queue.getCompletedCount()).toBe(count));
  await replica.stop();
  return all.map(({ id }) => id);
}

/** How many commands retracts of these alerts need, spread evenly over so many producers, all at once. */
async function commandsOf(bench: ReplicaBench, ids: readonly string[], producers: number): Promise<number> {
  const connections = Array.from({ length: producers }, () => connectRedis());
  const each = connections.map((connection) => createProducer({ connection, prefix: bench.prefix }));
  onTestFinished(async () => {
    for (const producer of each) await producer.close();
  });
  await Promise.all(each.map((producer) => producer.status('nobody'))); // opens the queues
  const sent = connections.map((connection) => vi.spyOn(connection, 'sendCommand'));
  const answers = await Promise.all(ids.flatMap((id, index) => each[index % producers]?.retract({ id }) ?? []));
  expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(
    new Set([JSON.stringify({ ...NONE, retracting: 1 })]),
  );
  return sent.reduce((sum, { mock }) => sum + mock.calls.length, 0);
}

// Measured: 3 retractions and 23 commands for each, and 25 and 33; before they went in turn, 300 retractions.
test.each([
  ['one producer', 1, 10, 40],
  ['ten producers', 10, 80, 120],
])('of 100 alerts at once by %s need few retractions and few commands', async (_, producers, most, each) => {
  const bench = await openReplicaBench();
  const ids = await delivered(bench, 100);
  const commands = await commandsOf(bench, ids, producers);
  const waiting = await bench.queue.getJobCountByTypes('prioritized', 'wait', 'delayed');
  expect(waiting).toBeLessThanOrEqual(most);
  expect(commands).toBeLessThanOrEqual(100 * each);
  await bench.startHere(FAST);
  await goes(bench);
});
