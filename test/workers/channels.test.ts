import { expect, test } from 'vitest';
import type { Job } from 'bullmq';
import { main as replay } from '../../scripts/replay.ts';
import type { EnqueueInput } from '../../src/producer/producer.ts';
import { present } from '../queue/support.ts';
import { runMain } from '../support/command.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { waitFor } from '../support/wait.ts';
import { ends } from '../support/waiting.ts';

// A push to a channel goes the way of every other notification; the channel is its recipient.

/** A gap of 2 s, as it arrives: this process is not measured, and other tests judge the pace itself. */
const LEAST_GAP_MS = 1_500;
const LIMITS = { LIMIT_LIVE_ACTIVITY_RULES: '1/2s', LIMIT_MIN_GAP: '2s', BACKOFF_BASE: '100ms' };
async function open(env: Readonly<Record<string, string>>, policy: 0 | 1 = 0) {
  const bench = await openReplicaBench();
  await bench.startHere(env);
  return { bench, id: createIn(bench, policy) };
}

const createIn = ({ sandbox }: ReplicaBench, policy: 0 | 1 = 0) => present(sandbox.apns.channels().create(policy));

const update = (channelId: string, id: string, goals: number, more: Partial<EnqueueInput> = {}): EnqueueInput => ({
  ...{ id, recipientId: channelId, channel: { id: channelId } },
  ...{ pushType: 'liveactivity', liveActivity: { event: 'update', contentState: { goals } } },
  ...more,
});

const letterOf = (bench: ReplicaBench, id: string) =>
  waitFor(async () => present((await bench.deadQueue.getJob(id)) as Job<object> | undefined));

test('a phone that subscribed shows all updates, and two of one channel keep the gap; another channel waits for none', async () => {
  const { bench, id } = await open(LIMITS);
  const [phone, other] = [bench.sandbox.apns.subscribe(id), createIn(bench)];
  for (const goals of [1, 2]) await bench.producer.enqueue(update(id, `goal-${goals}`, goals));
  await bench.producer.enqueue(update(other, 'other', 1));
  for (const each of ['goal-1', 'goal-2', 'other']) await ends(bench, each, 'delivered');
  expect(phone.shown.map(({ contentState }) => contentState)).toEqual([{ goals: 1 }, { goals: 2 }]);
  const at = (of: string) => bench.sandbox.journal.accepted.filter(({ channel }) => channel === of).map((e) => e.at);
  const [first = 0, second = 0] = at(id);
  expect(second - first).toBeGreaterThan(LEAST_GAP_MS);
  expect(at(other)[0]).toBeLessThan(second);
});

test('of a deleted channel it becomes a dead letter, the producer learns of it, and a replay sends it again', async () => {
  const { bench, id } = await open(LIMITS);
  bench.sandbox.apns.channels().delete(id);
  await bench.producer.enqueue(update(id, 'goal-1', 1));
  const { data } = await letterOf(bench, 'goal-1');
  expect(data).toMatchObject({
    reason: 'unregistered',
    notification: { channel: { id } },
    attempts: [{ device: 'apns#0', error: 'ChannelNotRegistered' }],
  });
  const gone = await connectRedis().xrange(`${bench.prefix}:invalid-tokens`, '-', '+');
  expect(gone.map(([, fields]) => fields)).toEqual([
    expect.arrayContaining(['token', id, 'meaning', 'gone', 'reason', 'ChannelNotRegistered']),
  ]);
  expect(await runMain(replay, ['--recipient', id, '--yes'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  const again = await letterOf(bench, 'goal-1#r1');
  expect(again.data).toMatchObject({ reason: 'unregistered', generation: 1 });
});

test('it is tried again with the same id after an overload, and what the channel keeps reaches a phone later', async () => {
  const { bench, id } = await open(LIMITS, 1);
  const phone = bench.sandbox.apns.subscribe(id);
  phone.setOnline(false);
  bench.sandbox.setAnswers([{ token: id, reason: 'ServiceUnavailable', times: 1 }]);
  await bench.producer.enqueue(update(id, 'goal-1', 1, { channel: { id, storage: 'most-recent' } }));
  await ends(bench, 'goal-1', 'delivered');
  const [first, second] = bench.sandbox.journal.of('goal-1');
  expect([first?.status, second?.status]).toEqual([503, 200]);
  expect(second?.apnsId).toBe(first?.apnsId);
  phone.setOnline(true);
  expect(phone.shown).toMatchObject([{ contentState: { goals: 1 } }]);
});
