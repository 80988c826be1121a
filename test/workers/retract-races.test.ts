import { UnrecoverableError, Worker } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { forEachKind } from '../../src/limiter/limiter.ts';
import { retract, type RetractParts } from '../../src/producer/retract.ts';
import { RETRACT } from '../../src/queue/names.ts';
import { createCanceller } from '../support/limiters.ts';
import { makeDevice } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { FAST, NONE, alertOf, goes, retractions, shown } from '../support/retracting.ts';
import { waitFor } from '../support/wait.ts';
import { SLOW, blocked, deliver, ends, openRunning, reset, waits } from '../support/waiting.ts';

// A retract while the notification dies, is replayed or is moved; and what a retract must reach.

const KEY = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };
const TARGETS = [
  ['by its key', KEY],
  ['by its id', { id: 'msg-1' }],
] as const;

const lettersOf = ({ queue, deadQueue }: ReplicaBench) => createDeadLetters({ queue, deadQueue });
const unused = (): Promise<never> => Promise.reject(new Error('expected no job to be added'));

/** What a retract is given. `onCancel` runs when the limiter has stopped a notification. */
function partsOf({ queue, deadQueue, prefix }: ReplicaBench, onCancel = () => Promise.resolve()): RetractParts {
  const connection = connectRedis();
  const deciders = forEachKind(prefix, (ofKind) => {
    const canceller = createCanceller({ redis: connection, prefix: ofKind });
    const cancel: typeof canceller.cancel = async (request) => {
      const answer = await canceller.cancel(request);
      await onCancel();
      return answer;
    };
    return { ...canceller, cancel };
  });
  return { connection, deciders, queues: [queue], homes: () => [prefix], deadQueue: () => deadQueue, add: unused };
}

/** The job fails for good, as in the hands of a worker, and becomes a dead letter. */
async function die(bench: ReplicaBench): Promise<void> {
  const { queue, prefix } = bench;
  const worker = new Worker(queue.name, null, { connection: connectRedis(), prefix, autorun: false });
  onTestFinished(() => worker.close(true));
  const job = await worker.getNextJob('a worker');
  await job.moveToFailed(new UnrecoverableError('provider-rejected: no'), 'a worker', false);
  expect(await lettersOf(bench).bury(job.id ?? '')).toBe(true);
}

test.each(TARGETS)('one that dies while it is retracted %s leaves no dead letter', async (_, target) => {
  const bench = await openReplicaBench();
  await bench.producer.enqueue(alertOf('Trip', { id: 'msg-1', ...KEY }));
  expect(
    await retract(
      target,
      partsOf(bench, () => die(bench)),
    ),
  ).toMatchObject({ isOpen: true });
  expect(await lettersOf(bench).find('msg-1')).toBeDefined();
  expect(await retract(target, partsOf(bench))).toMatchObject({ retracted: { ...NONE, ended: 1 }, isOpen: false });
  expect(await lettersOf(bench).find('msg-1')).toBeUndefined();
});

test.each(TARGETS)('one that is replayed while it is retracted %s is not sent', async (_, target) => {
  const bench = await openReplicaBench();
  await bench.producer.enqueue(alertOf('Trip', { id: 'msg-1', ...KEY }));
  await die(bench);
  const letters = lettersOf(bench);
  const letter = await letters.find('msg-1');
  const parts = partsOf(bench);
  const replaying = async () => {
    if (letter !== undefined) await letters.replay(letter);
    return bench.deadQueue;
  };
  expect(await retract(target, { ...parts, deadQueue: replaying })).toMatchObject({ isOpen: false });
  await bench.startHere(FAST);
  await ends(bench, 'msg-1#r1', 'canceled');
  expect(bench.sandbox.journal.all).toEqual([]);
});

test('a replay of one that was enqueued after the retract is sent', async () => {
  const bench = await openReplicaBench();
  const before = Date.now() - 1;
  await bench.producer.enqueue(alertOf('Trip', { id: 'msg-1', ...KEY }));
  await die(bench);
  const letter = await lettersOf(bench).find('msg-1');
  if (letter !== undefined) await lettersOf(bench).replay(letter);
  expect(await retract(KEY, partsOf(bench), { until: before })).toMatchObject({ retracted: NONE, isOpen: false });
  await bench.startHere(FAST);
  await ends(bench, 'msg-1#r1', 'delivered');
});

test('one that a reshard moves while it is retracted is not said to be canceled', async () => {
  const bench = await openReplicaBench();
  await bench.producer.enqueue(alertOf('Trip', { id: 'msg-1' }));
  const key = bench.queue.toKey('msg-1');
  const moved = async (): Promise<void> => {
    const redis = connectRedis();
    await redis.multi().del(key).hset(key, 'pushpacer:moved', '1').exec();
  };
  const open = { retracted: { ...NONE, retracting: 1 }, isOpen: true };
  expect(await retract({ id: 'msg-1' }, partsOf(bench, moved))).toMatchObject(open);
});

test('the alert of another app of the same phone is taken back by a push to that app', async () => {
  const bench = await openRunning(FAST);
  const devices = [makeDevice('apns')];
  const topic = `${bench.env['APNS_TOPIC'] ?? ''}.clip`;
  const of = { ...KEY, devices };
  await deliver(bench, alertOf('One', of));
  await deliver(bench, alertOf('Two', { ...of, apns: { topic } }));
  await bench.producer.retract(KEY);
  await goes(bench);
  expect(bench.sandbox.journal.accepted.slice(2).map((entry) => entry.topic)).toEqual(
    expect.arrayContaining([bench.env['APNS_TOPIC'], topic]),
  );
  expect(await bench.deadQueue.getWaitingCount()).toBe(0);
});

test('what a phone shows although it expired is taken back by its key', async () => {
  const bench = await openRunning({ ...FAST, LIMIT_MIN_GAP: '1h' });
  const device = makeDevice('fcm');
  bench.sandbox.setAnswers([{ token: device.token, answer: 'reset-stream', alerted: true }]);
  const one = alertOf('Trip', { ...KEY, devices: [device], expiresAt: Date.now() + 1_800_000 });
  await bench.producer.enqueue(one);
  await ends(bench, one.id, 'expired');
  bench.sandbox.setAnswers([]);
  expect(shown(bench)).toEqual(['Trip']);
  expect(await bench.producer.retract(KEY)).toEqual({ ...NONE, retracting: 1 });
  await goes(bench);
});

test('a retraction also names what an earlier one named that is a dead letter', async () => {
  const bench = await openRunning({ ...FAST, ATTEMPTS: '1' });
  const device = makeDevice('fcm');
  const [one, two] = [alertOf('One', { devices: [device] }), alertOf('Two', { devices: [device] })];
  for (const each of [one, two]) await deliver(bench, each);
  bench.sandbox.setAnswers([{ token: device.token, status: 500 }]);
  await bench.producer.retract({ id: one.id });
  await waitFor(async () => expect(await bench.deadQueue.getWaitingCount()).toBe(1));
  bench.sandbox.setAnswers([]);
  await bench.producer.retract({ id: two.id });
  await goes(bench);
  expect(retractions(bench)).toEqual([[two.id, one.id]]);
});

test('a digest that was sent stays on the screen if one of it is retracted by its id, and goes by the key', async () => {
  const bench = await openRunning(SLOW);
  const digest = { onThrottle: 'digest', digest: { key: 'thread-77', title: '{{count}} new' } } as const;
  const of = { ...KEY, ...digest, devices: [makeDevice('fcm')] };
  const [leader, part] = await blocked(bench, [of, of]);
  await reset(bench);
  await ends(bench, leader.id, 'delivered');
  // The job of the part comes back up to two seconds later.
  expect(await bench.producer.retract({ id: part.id })).toEqual({ ...NONE, ended: 1 });
  expect(await bench.producer.retract({ id: leader.id })).toEqual({ ...NONE, ended: 1 });
  const jobs = await bench.queue.getJobs(['active', 'completed', 'delayed', 'prioritized', 'wait']);
  expect(jobs.map(({ name }) => name)).not.toContain(RETRACT);
  expect(retractions(bench)).toEqual([]);
  expect(shown(bench)).toContain('2 new');
  expect(await bench.producer.retract(KEY)).toEqual({ ...NONE, retracting: 1, ended: 1 });
  await waitFor(() => expect(shown(bench)).not.toContain('2 new'));
  await ends(bench, part.id, 'merged');
});

test('an older one that a newer one replaced has ended, also before its job comes back', async () => {
  const bench = await openRunning(SLOW);
  const latest = { onThrottle: 'latest', collapseId: 'score' } as const;
  const [older] = await blocked(bench, [latest, latest]);
  expect(await bench.producer.retract({ id: older.id })).toEqual({ ...NONE, ended: 1 });
  const jobs = await bench.queue.getJobs(['active', 'delayed', 'prioritized', 'wait']);
  expect(jobs.map(({ name }) => name)).not.toContain(RETRACT);
});

test('a digest that waits to be sent again has ended for the id of the one that leads it', async () => {
  const bench = await openRunning({ ...SLOW, BACKOFF_BASE: '1h', BACKOFF_MAX: '2h' });
  const device = makeDevice('fcm');
  const digest = { onThrottle: 'digest', digest: { key: 'thread-77', title: '{{count}} new' } } as const;
  const [leader, part] = await blocked(bench, [{ ...digest, devices: [device] }, digest]);
  bench.sandbox.setAnswers([{ token: device.token, status: 503 }]);
  await reset(bench);
  await ends(bench, part.id, 'merged');
  await waits(bench, leader.id);
  expect(await bench.producer.retract({ id: leader.id })).toEqual({ ...NONE, ended: 1 });
  const jobs = await bench.queue.getJobs(['active', 'delayed', 'prioritized', 'wait']);
  expect(jobs.map(({ name }) => name)).not.toContain(RETRACT);
});
