import { Worker } from 'bullmq';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import type { Notification } from '../../src/notification/notification.ts';
import { RETRACTION } from '../../src/notification/retraction.ts';
import { findHolder } from '../../src/operations/story.ts';
import { cancellationIndexKey, RETRACT } from '../../src/queue/names.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { FAST, NONE, alertOf, goes, retractions, shown } from '../support/retracting.ts';
import { waitFor } from '../support/wait.ts';
import { deliver, ends, enqueueWaiting, openRunning } from '../support/waiting.ts';

// A retract beside dead letters, replays, killed workers, other clocks, an id that is used again, and AT_MOST_ONCE.

const KEY = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };

const lettersOf = ({ queue, deadQueue }: ReplicaBench) => createDeadLetters({ queue, deadQueue });

/** Resolves when it is a dead letter. */
async function dies(bench: ReplicaBench, notification: Notification): Promise<void> {
  await bench.producer.enqueue(notification);
  await waitFor(async () => expect(await lettersOf(bench).find(notification.id)).toBeDefined());
}

/** How many retracts are still to be done. */
async function orders({ queue }: ReplicaBench): Promise<number> {
  const jobs = await queue.getJobs(['active', 'delayed', 'prioritized', 'wait']);
  return jobs.filter(({ name }) => name === RETRACT).length;
}

test.each([
  ['by its key', KEY],
  ['by its id', { id: 'msg-1' }],
])(
  'a dead letter is removed %s, although its job is kept for an hour, and nothing is left to do',
  async (_, target) => {
    const bench = await openRunning(FAST);
    const device = makeDevice('fcm');
    bench.sandbox.setAnswers([{ token: device.token, reason: 'UNREGISTERED' }]);
    await dies(bench, alertOf('Trip', { id: 'msg-1', ...KEY, devices: [device] }));
    expect(await bench.producer.retract(target)).toEqual({ ...NONE, ended: 1 });
    expect(await lettersOf(bench).find('msg-1')).toBeUndefined();
    expect(await bench.producer.retract(target)).toEqual({ ...NONE, ended: 1 });
    expect(await orders(bench)).toBe(0);
  },
);

test.each([
  ['by its key', KEY],
  ['by its id', { id: 'msg-1' }],
])('the dead letter of an id that died before, and was used again, is removed %s', async (_, target) => {
  const bench = await openRunning(FAST);
  const device = makeDevice('fcm');
  bench.sandbox.setAnswers([{ token: device.token, reason: 'UNREGISTERED' }]);
  const one = alertOf('Trip', { id: 'msg-1', ...KEY, devices: [device] });
  await dies(bench, one);
  await connectRedis().del(bench.queue.toKey('msg-1')); // as an hour later
  await bench.producer.enqueue({ ...one, alert: { title: 'Another trip' } });
  await waitFor(async () => expect(await lettersOf(bench).find('msg-1#d1')).toBeDefined());
  await connectRedis().del(bench.queue.toKey('msg-1'));
  const [before, now] = await Promise.all(['msg-1', 'msg-1#d1'].map((id) => lettersOf(bench).find(id)));
  expect(now?.letter.deadAt).not.toBe(before?.letter.deadAt);
  expect(await bench.producer.status('msg-1')).toMatchObject({ state: 'dead-lettered', deadAt: now?.letter.deadAt });
  expect(await findHolder('msg-1', 'dead-lettered', [bench])).toMatchObject({ id: 'msg-1#d1' });
  await bench.producer.retract(target);
  expect(await lettersOf(bench).find('msg-1#d1')).toBeUndefined();
});

test.each([
  ['an hour later', true],
  ['at once', false],
])('a dead letter of what a phone shows, but whose answer was lost, is taken back %s', async (_, isLater) => {
  const bench = await openRunning({ ...FAST, LIMIT_RULES: '1/1h', LIMIT_MAX_WAIT: '1s', BACKOFF_BASE: '100ms' });
  const device = makeDevice('fcm');
  bench.sandbox.setAnswers([{ token: device.token, answer: 'reset-stream', alerted: true }]);
  await dies(bench, alertOf('Trip', { id: 'msg-1', devices: [device] }));
  bench.sandbox.setAnswers([]);
  expect((await lettersOf(bench).find('msg-1'))?.letter.reason).toBe('throttled-too-long');
  if (isLater) await connectRedis().del(bench.queue.toKey('msg-1'));
  expect(shown(bench)).toEqual(['Trip']);
  expect(await bench.producer.retract({ id: 'msg-1' })).toEqual({ ...NONE, retracting: 1 });
  await goes(bench);
});

test('what comes under a key while an earlier one is still being sent is not retracted with it', async () => {
  const bench = await openRunning(FAST);
  const [slow, quick] = [makeDevice('fcm'), makeDevice('fcm')];
  bench.sandbox.setAnswers([{ token: slow.token, answer: 'accept', delay: '2s' }]);
  const one = alertOf('The trip is off', { ...KEY, devices: [slow] });
  await bench.producer.enqueue(one);
  await waitFor(async () => expect(await bench.queue.getActiveCount()).toBe(1));
  expect(await bench.producer.retract(KEY)).toEqual({ ...NONE, retracting: 1 });
  await deliver(bench, alertOf('The trip is on', { ...KEY, devices: [quick] }));
  await ends(bench, one.id, 'delivered');
  await waitFor(async () => expect(await orders(bench)).toBe(0));
  await waitFor(() => expect(shown(bench)).toEqual(['The trip is on']));
  expect(retractions(bench)).toEqual([[one.id]]);
});

/** What a host does whose clock differs by so much. */
async function onHost<T>(differsMs: number, work: () => Promise<T>): Promise<T> {
  const { now } = Date;
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + differsMs);
  return work().finally(() => clock.mockRestore());
}

test.each([
  ['ahead', 20_000, 0],
  ['behind', -20_000, 0],
  ['right, and the one of the correction behind', 0, -20_000],
])('of an alert and its correction only the alert is retracted, if the clock is %s', async (_, retractMs, laterMs) => {
  const bench = await openRunning(FAST);
  const [slow, quick] = [makeDevice('fcm'), makeDevice('fcm')];
  bench.sandbox.setAnswers([{ token: slow.token, answer: 'accept', delay: '3s' }]);
  const wrong = alertOf('The trip is off', { ...KEY, devices: [slow] });
  const correction = alertOf('The trip is on', { ...KEY, devices: [quick] });
  await bench.producer.enqueue(wrong);
  await waitFor(async () => expect(await bench.queue.getActiveCount()).toBe(1));
  expect(await onHost(retractMs, () => bench.producer.retract(KEY))).toEqual({ ...NONE, retracting: 1 });
  await onHost(laterMs, () => bench.producer.enqueue(correction));
  await ends(bench, correction.id, 'delivered');
  await ends(bench, wrong.id, 'delivered');
  await waitFor(async () => expect(await orders(bench)).toBe(0));
  await waitFor(() => expect(shown(bench)).toEqual(['The trip is on']));
  expect(retractions(bench)).toEqual([[wrong.id]]);
});

/** Delivers two, and a host whose clock is ahead has retracted the first one. Resolves to the second one. */
async function retractAhead(bench: ReplicaBench): Promise<Notification> {
  const devices = [makeDevice('fcm')];
  const [one, two] = [alertOf('One', { devices }), alertOf('Two', { devices })];
  for (const each of [one, two]) await deliver(bench, each);
  await onHost(5_000, () => bench.producer.retract({ id: one.id }));
  await waitFor(() => expect(shown(bench)).toEqual(['Two']));
  return two;
}

test('of two that are retracted by hosts with different clocks, both are taken back', async () => {
  const bench = await openRunning(FAST);
  const two = await retractAhead(bench);
  await bench.producer.retract({ id: two.id });
  await goes(bench);
});

test('one whose retraction waits behind a newer one that was sent is retracted anew', async () => {
  const bench = await openReplicaBench();
  const replica = await bench.startHere(FAST);
  const two = await retractAhead(bench);
  await replica.stop();
  // What a host has added that did not see the newer one yet.
  const [sent] = (await bench.queue.getJobs(['completed'])).filter(({ name, data }) => {
    return name !== RETRACT && (data as Notification).pushType === 'background';
  });
  const data = sent?.data as Notification;
  const named = { pushpacer: { ...(data.data?.['pushpacer'] as object), retract: [two.id], tags: [] } };
  await bench.queue.add('push', { ...data, id: 'late', data: named }, { jobId: 'late', priority: 2 });
  await connectRedis().zadd(
    cancellationIndexKey(bench.prefix, two.recipientId, RETRACTION),
    Date.now() + 60_000,
    'late',
  );
  await bench.producer.retract({ id: two.id });
  await bench.startHere(FAST);
  await goes(bench);
});

/** A worker takes the job, and dies: its lock ends, and no other one has noticed that. */
async function takeAndDie({ queue, prefix }: ReplicaBench): Promise<void> {
  const connection = connectRedis();
  const worker = new Worker(queue.name, null, { connection, prefix, autorun: false, lockDuration: 100 });
  onTestFinished(() => worker.close(true));
  const job = await worker.getNextJob('a worker that dies');
  expect(job).toBeDefined();
  await waitFor(async () => expect(await connection.exists(`${queue.toKey(job.id ?? '')}:lock`)).toBe(0));
}

test('one whose worker died is not said to be canceled, and is taken back when another worker has it', async () => {
  const bench = await openReplicaBench();
  const one = alertOf('Trip');
  await bench.producer.enqueue(one);
  await takeAndDie(bench);
  expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, retracting: 1 });
  await bench.startHere({ ...FAST, LOCK_DURATION: '1s' });
  await waitFor(() => expect(retractions(bench)).toEqual([[one.id]]));
  await ends(bench, one.id, 'canceled');
});

test('a cancel of one whose worker died is too late, and it is sent', async () => {
  const bench = await openReplicaBench();
  const one = alertOf('Trip');
  await bench.producer.enqueue(one);
  await takeAndDie(bench);
  expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 0, tooLate: 1 });
  await bench.startHere({ ...FAST, LOCK_DURATION: '1s' });
  await ends(bench, one.id, 'delivered');
});

test.each([{ status: 500 }, { answer: 'reset-stream' as const }])(
  'after %j one that waits to be tried again is taken back, and a cancel is too late',
  async (answer) => {
    const bench = await openRunning({ ...FAST, BACKOFF_BASE: '1h', BACKOFF_MAX: '2h' });
    const device = makeDevice('fcm');
    bench.sandbox.setAnswers([{ token: device.token, alerted: true, ...answer }]);
    const one = alertOf('Trip', { devices: [device] });
    await enqueueWaiting(bench, [one]);
    bench.sandbox.setAnswers([]);
    expect(shown(bench)).toEqual(['Trip']);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 0, tooLate: 1 });
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, retracting: 1 });
    await goes(bench);
  },
);

test('one that was canceled before its worker took it and died stays canceled, also if it is canceled again', async () => {
  const bench = await openReplicaBench();
  const one = alertOf('Trip');
  await bench.producer.enqueue(one);
  expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
  await takeAndDie(bench);
  expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
  await bench.startHere({ ...FAST, LOCK_DURATION: '1s' });
  await ends(bench, one.id, 'canceled');
  expect(bench.sandbox.journal.all).toEqual([]);
});

test('one with an id that was retracted before is taken back too', async () => {
  const bench = await openRunning(FAST);
  const devices = [makeDevice('fcm')];
  await deliver(bench, alertOf('Trip', { id: 'msg-1', devices }));
  await bench.producer.retract({ id: 'msg-1' });
  await goes(bench);
  await (await bench.queue.getJob('msg-1'))?.remove(); // as after an hour
  await deliver(bench, alertOf('Trip again', { id: 'msg-1', devices }));
  await bench.producer.retract({ id: 'msg-1' });
  await goes(bench);
  expect(retractions(bench)).toEqual([['msg-1'], ['msg-1']]);
});

test('a Live Activity under the key gets neither a retraction nor the badge, and nothing is left to do', async () => {
  const bench = await openRunning(FAST);
  const device = makeDevice('fcm');
  await deliver(bench, alertOf('Trip', { ...KEY, devices: [device] }));
  const activity = makeNotification({
    ...KEY,
    ...{ pushType: 'liveactivity', liveActivity: { event: 'update', contentState: { score: 1 } } },
    devices: [{ ...device, liveActivityToken: 'ab'.repeat(40) }],
  });
  await deliver(bench, activity);
  expect(await bench.producer.retract({ ...KEY, badge: 0 })).toEqual({ ...NONE, retracting: 1, ended: 1 });
  await goes(bench);
  expect(retractions(bench)).toHaveLength(1);
  expect(await orders(bench)).toBe(0);
  expect(await bench.queue.getJobCounts('delayed', 'prioritized', 'wait')).toEqual({
    delayed: 0,
    prioritized: 0,
    wait: 0,
  });
});

test('under AT_MOST_ONCE a retraction whose answer is lost is sent again', async () => {
  const bench = await openRunning({ ...FAST, AT_MOST_ONCE: 'true', BACKOFF_BASE: '100ms' });
  const device = makeDevice('fcm');
  const one = alertOf('Trip', { devices: [device] });
  await deliver(bench, one);
  bench.sandbox.setAnswers([{ token: device.token, answer: 'reset-stream', times: 1 }]);
  await bench.producer.retract({ id: one.id });
  await goes(bench);
  expect(await bench.deadQueue.getWaitingCount()).toBe(0);
});

test('a second retract reaches the device that the first one has not', async () => {
  const bench = await openRunning({ ...FAST, ATTEMPTS: '1' });
  const [first, second] = [makeDevice('fcm'), makeDevice('fcm')];
  const one = alertOf('Trip', { devices: [first, second] });
  await deliver(bench, one);
  bench.sandbox.setAnswers([{ token: second.token, status: 500 }]);
  await bench.producer.retract({ id: one.id });
  await waitFor(async () => expect(await bench.queue.getCompletedCount()).toBe(2));
  expect(shown(bench)).toHaveLength(1);
  bench.sandbox.setAnswers([]);
  await bench.producer.retract({ id: one.id });
  await goes(bench);
});
