import { describe, expect, test, vi } from 'vitest';
import { pushId, tokenOf } from '../../src/notification/device.ts';
import { InputError } from '../../src/domain/faults.ts';
import type { Device, Notification } from '../../src/notification/notification.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { RETRACT } from '../../src/queue/names.ts';
import { retractionIn } from '../../sandbox/screen.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { FAST, NONE, alertOf, goes, retractions, shown } from '../support/retracting.ts';
import { waitFor } from '../support/wait.ts';
import { SLOW, blocked, deliver, ends, enqueueWaiting, openRunning, waits } from '../support/waiting.ts';

/**
 * Enqueues it, and resolves when it waits because of this device. On a busy machine it waits before that too: until its next slot,
 * if the request to the device could not leave in time.
 */
async function fail(bench: ReplicaBench, one: Notification, device: Device): Promise<void> {
  await bench.producer.enqueue(one);
  await waitFor(() => expect(bench.sandbox.journal.all.map(({ token }) => token)).toContain(tokenOf(device)));
  await waits(bench, one.id);
}

describe('by id', () => {
  test('one that waits ends as canceled, and no device hears of it', async () => {
    const bench = await openRunning(SLOW);
    const [one] = await blocked(bench, [{}]);
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, canceled: 1 });
    await ends(bench, one.id, 'canceled');
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, canceled: 1 });
    expect(bench.sandbox.journal.all).toHaveLength(1);
  });

  test('one that was sent is taken from each of its devices, once', async () => {
    const bench = await openRunning({ ...FAST, OUTCOMES_MAX: '100' });
    const devices = [
      makeDevice('apns'),
      makeDevice('fcm'),
      { platform: 'webpush' as const, ...bench.sandbox.webpush.subscription('ana') },
    ];
    const one = alertOf('Wrong class', { devices });
    await deliver(bench, one);
    expect(shown(bench)).toHaveLength(3);
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, retracting: 1 });
    await goes(bench);
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, retracting: 1 });
    expect(retractions(bench)).toEqual([[one.id], [one.id], [one.id]]);
    expect(bench.sandbox.journal.all.flatMap(({ ignored }) => ignored ?? [])).toEqual([]);
    await waitFor(async () => {
      const entries = await outcomesIn(connectRedis(), bench.prefix);
      expect(entries.map(({ outcome, retracted }) => [outcome, retracted])).toEqual([
        ['delivered', undefined],
        ['retracted', JSON.stringify([one.id])],
      ]);
    });
  });

  test('one that is being sent is taken back when its provider has answered', async () => {
    const bench = await openRunning(FAST);
    const device = makeDevice('fcm');
    bench.sandbox.setAnswers([{ token: device.token, answer: 'accept', delay: '700ms' }]);
    const one = alertOf('Wrong class', { devices: [device] });
    await bench.producer.enqueue(one);
    await waitFor(async () => expect(await bench.queue.getActiveCount()).toBe(1));
    await vi.waitFor(async () => {
      const { retracting, canceled } = await bench.producer.retract({ id: one.id });
      expect(retracting + canceled).toBe(1);
    });
    await ends(bench, one.id, 'delivered');
    await waitFor(() => expect(retractions(bench).length).toBeGreaterThan(0));
    await goes(bench);
  });

  test('one that waits to be tried again on its second phone is taken from the first, and not sent to the second', async () => {
    const bench = await openRunning({ ...FAST, BACKOFF_BASE: '1h', BACKOFF_MAX: '2h' });
    const [first, second] = [makeDevice('fcm'), makeDevice('fcm')];
    bench.sandbox.setAnswers([{ token: second.token, status: 503 }]);
    const one = alertOf('Wrong class', { devices: [first, second] });
    await fail(bench, one, second);
    expect(shown(bench)).toHaveLength(1);
    bench.sandbox.setAnswers([]);
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, retracting: 1 });
    await goes(bench);
    await ends(bench, one.id, 'delivered');
    const alerts = bench.sandbox.journal.accepted.filter(({ title }) => title !== undefined);
    expect(alerts.map(({ token }) => token)).toEqual([first.token]);
  });

  test('a background push that one phone has, and that waits for the other one, has ended: nothing was canceled', async () => {
    const bench = await openRunning({ ...FAST, BACKOFF_BASE: '1h', BACKOFF_MAX: '2h' });
    const [first, second] = [makeDevice('fcm'), makeDevice('fcm')];
    bench.sandbox.setAnswers([{ token: second.token, status: 503 }]);
    const silent = { pushType: 'background', alert: undefined, data: {} } as const;
    const one = makeNotification({ ...silent, devices: [first, second] });
    await fail(bench, one, second);
    bench.sandbox.setAnswers([]);
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, ended: 1 });
    await ends(bench, one.id, 'delivered');
    expect(bench.sandbox.journal.accepted.map(({ token }) => token)).toEqual([first.token]);
  });

  test('one that alerted one device, and perhaps another one, is taken from both', async () => {
    const bench = await openRunning({ ...FAST, AT_MOST_ONCE: 'true' });
    const [good, bad] = [makeDevice('fcm'), makeDevice('fcm')];
    bench.sandbox.setAnswers([{ token: bad.token, answer: 'reset-stream', alerted: true }]);
    const one = alertOf('Wrong class', { devices: [good, bad] });
    await bench.producer.enqueue(one);
    await ends(bench, one.id, 'delivered');
    await bench.producer.retract({ id: one.id });
    await goes(bench);
  });

  test('one that is a dead letter is not replayed any more', async () => {
    const bench = await openRunning({ ...FAST, ATTEMPTS: '1' });
    const device = makeDevice('fcm');
    bench.sandbox.setAnswers([{ token: device.token, status: 500 }]);
    const one = alertOf('Wrong class', { devices: [device] });
    await bench.producer.enqueue(one);
    const letters = createDeadLetters({ queue: bench.queue, deadQueue: bench.deadQueue });
    await waitFor(async () => expect(await letters.find(one.id)).toBeDefined());
    bench.sandbox.setAnswers([]);
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, retracting: 1 });
    expect(await letters.find(one.id)).toBeUndefined();
    await waitFor(() => expect(retractions(bench)).toEqual([[one.id]]));
  });

  test.each([1, 3])('an unknown one is not sent if it comes later, in %i shards', async (shards) => {
    const bench = await openReplicaBench(undefined, { shards });
    const one = makeNotification();
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, unknown: 1 });
    expect(await bench.producer.retract({ id: one.id })).toEqual({ ...NONE, unknown: 1 });
    expect(await bench.producer.enqueue(one)).toEqual({ id: one.id, added: false });
    await bench.startHere({ QUEUE_SHARDS: String(shards) });
    await waitFor(async () => {
      expect(await bench.producer.status(one.id)).toMatchObject({ state: 'ended', outcome: 'canceled' });
    });
    expect(await bench.producer.enqueue(one)).toEqual({ id: one.id, added: false });
    expect(bench.sandbox.journal.all).toEqual([]);
  });

  test('what came and was enqueued at the same time is retracted, or never sent', async () => {
    const bench = await openRunning(FAST);
    const all = Array.from({ length: 40 }, (_, index) => alertOf(`Message ${index}`));
    await Promise.all(all.flatMap((each) => [bench.producer.enqueue(each), bench.producer.retract({ id: each.id })]));
    await waitFor(async () =>
      expect(await bench.queue.getJobCountByTypes('active', 'prioritized', 'delayed', 'wait')).toBe(0),
    );
    await goes(bench);
  });
});

describe('by key', () => {
  const KEY = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };

  test('what waits is canceled, and what was sent is taken back by one push', async () => {
    const bench = await openRunning({ LIMIT_RULES: '3/1h', LIMIT_MIN_GAP: '0' });
    const all = Array.from({ length: 5 }, (_, index) => alertOf(`Message ${index}`, KEY));
    for (const each of all.slice(0, 3)) await deliver(bench, each);
    await enqueueWaiting(bench, all.slice(3));
    expect(await bench.producer.retract(KEY)).toEqual({ ...NONE, canceled: 2, retracting: 3 });
    await goes(bench);
    expect(retractions(bench)).toHaveLength(3); // one push to each of the three phones
    for (const ids of retractions(bench))
      expect(ids.toSorted()).toEqual(
        all
          .slice(0, 3)
          .map(({ id }) => id)
          .toSorted(),
      );
  });
});

test('retractions that wait become one push, which names all', async () => {
  const bench = await openRunning({ ...FAST, LIMIT_BACKGROUND_RULES: '1/3s' });
  const devices = [makeDevice('fcm')];
  const all = Array.from({ length: 6 }, (_, index) => alertOf(`Message ${index}`, { devices }));
  for (const each of all) await deliver(bench, each);
  await bench.producer.retract({ id: all[0]?.id ?? '' });
  await waitFor(() => expect(retractions(bench)).toHaveLength(1));
  await Promise.all(all.slice(1).map(({ id }) => bench.producer.retract({ id })));
  await goes(bench);
  expect(retractions(bench)).toHaveLength(2);
});

test('alerts to more devices than one push may have are taken from each device once, with the badge', async () => {
  const bench = await openRunning(FAST);
  const KEY = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };
  for (let number = 0; number < 2; number++) {
    const devices = Array.from({ length: 15 }, () => makeDevice('fcm'));
    await deliver(bench, alertOf(`Message ${number}`, { ...KEY, devices }));
  }
  expect(await bench.producer.retract({ ...KEY, badge: 2 })).toEqual({ ...NONE, retracting: 2 });
  await goes(bench);
  expect(await bench.producer.retract({ ...KEY, badge: 2 })).toEqual({ ...NONE, retracting: 2 });
  await waitFor(async () => expect(await bench.queue.getCompletedCount()).toBe(4));
  expect(await bench.queue.getJobCountByTypes('active', 'prioritized', 'delayed', 'wait')).toBe(0);
  expect(retractions(bench)).toHaveLength(30);
});

test('many alerts with long ids are taken back by few pushes', async () => {
  const bench = await openRunning(FAST);
  const KEY = { recipientId: 'teacher-42', cancellationKey: 'trip-77', devices: [makeDevice('fcm')] };
  const all = Array.from({ length: 48 }, (_, index) =>
    alertOf('Message', { ...KEY, id: `${index}`.padStart(128, 'm') }),
  );
  await bench.producer.enqueueMany(all);
  await waitFor(async () => expect(await bench.queue.getCompletedCount()).toBe(48));
  const { recipientId, cancellationKey } = KEY;
  expect(await bench.producer.retract({ recipientId, cancellationKey })).toEqual({ ...NONE, retracting: 48 });
  await goes(bench);
  expect(retractions(bench).flat().toSorted()).toEqual(all.map(({ id }) => id).toSorted());
  expect(retractions(bench).length).toBeLessThanOrEqual(4);
});

test('a retraction to a phone that is gone is no dead letter', async () => {
  const bench = await openRunning(FAST);
  const device = makeDevice('fcm');
  const one = alertOf('Wrong class', { devices: [device] });
  await deliver(bench, one);
  bench.sandbox.setAnswers([{ token: device.token, reason: 'UNREGISTERED' }]);
  await bench.producer.retract({ id: one.id });
  await waitFor(async () => {
    const jobs = await bench.queue.getJobs(['completed']);
    expect(jobs.map(({ returnvalue }) => (returnvalue as { outcome: string }).outcome).toSorted()).toEqual([
      'delivered',
      'retracted',
    ]);
  });
  expect(await bench.deadQueue.getWaitingCount()).toBe(0);
});

test('with a badge, the icon gets it', async () => {
  const bench = await openRunning(FAST);
  const devices = [makeDevice('apns'), makeDevice('fcm')];
  const one = alertOf('Read elsewhere', { devices, badge: 5 });
  await deliver(bench, one);
  await bench.producer.retract({ id: one.id, badge: 4 });
  await goes(bench);
  const { payload, pushType } =
    bench.sandbox.journal.accepted.find((entry) => entry.platform === 'apns' && retractionIn(entry)) ?? {};
  expect({ payload, pushType }).toEqual({
    payload: {
      aps: { 'content-available': 1, badge: 4 },
      pushpacer: { retract: [one.id], tags: [pushId(one.id, 0), pushId(one.id, 1)], badge: 4 },
    },
    pushType: 'alert',
  });
});

test('a job named retract of another client does the same', async () => {
  const bench = await openRunning(FAST);
  const one = alertOf('Wrong class');
  await deliver(bench, one);
  await bench.queue.add(RETRACT, { id: one.id }, { priority: 5 });
  await goes(bench);
  const bad = await bench.queue.add(RETRACT, { ide: one.id }, { priority: 5 });
  await bench.line(new RegExp(`${bad.id ?? ''}.*becomes a dead letter`));
});

test('a target that is not usable is refused by its path', async () => {
  const bench = await openReplicaBench();
  const refused = bench.producer.retract({ id: 'msg-1', badge: -1 });
  await expect(refused).rejects.toThrow(InputError);
  await expect(refused).rejects.toThrow('badge: expected');
});
