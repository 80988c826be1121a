import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Job } from 'bullmq';
import type { Notification } from '../../src/domain/notification.ts';
import { InputError } from '../../src/domain/faults.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { RedisAwayError } from '../../src/redis/connection.ts';
import { outcomesKey } from '../../src/queue/names.ts';
import { present } from '../queue/support.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { blocked, ends, SLOW, waits, WITHIN } from '../support/waiting.ts';

type Two = [Notification, Notification];
type Four = [...Two, ...Two];

async function jobOf(bench: ReplicaBench, id: string): Promise<Job> {
  return present((await bench.queue.getJob(id)) as Job | undefined);
}

const dueOf = ({ timestamp, delay }: Job) => timestamp + delay;

describe('by id', () => {
  test('one that waits for its slot ends as canceled at once, and its slot is free', async () => {
    const bench = await openReplicaBench();
    await bench.startHere(SLOW);
    const [one, two] = await blocked(bench, [{}, {}]);
    const before = await jobOf(bench, two.id);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, one.id, 'canceled');
    // The one behind it moves up: from two hours to one.
    await vi.waitFor(async () => {
      const after = await jobOf(bench, two.id);
      expect(dueOf(after)).toBeLessThan(dueOf(before) - 3_000_000);
    }, WITHIN);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    expect(bench.sandbox.journal.accepted).toHaveLength(1);
  });

  test('an unknown one is neither, and one that was delivered is too late', async () => {
    const bench = await openReplicaBench();
    await bench.startHere();
    expect(await bench.producer.cancel({ id: 'nobody-knows-it' })).toEqual({ canceled: 0, tooLate: 0 });
    const sent = makeNotification();
    await bench.producer.enqueue(sent);
    await ends(bench, sent.id, 'delivered');
    expect(await bench.producer.cancel({ id: sent.id })).toEqual({ canceled: 0, tooLate: 1 });
  });

  test('one that no worker has seen, or that is to be sent next year, is canceled while no worker runs', async () => {
    const bench = await openReplicaBench();
    const now = makeNotification();
    const later = makeNotification({ sendAfter: Date.now() + 300 * 86_400_000 });
    for (const each of [now, later]) {
      await bench.producer.enqueue(each);
      expect(await bench.producer.cancel({ id: each.id })).toEqual({ canceled: 1, tooLate: 0 });
      expect(await bench.producer.cancel({ id: each.id })).toEqual({ canceled: 1, tooLate: 0 });
    }
    await bench.startHere();
    await ends(bench, now.id, 'canceled');
    await ends(bench, later.id, 'canceled');
    expect(bench.sandbox.journal.all).toEqual([]);
  });

  test('where the limiter has a Redis of its own, that one decides', async () => {
    const redis = await startEmbeddedRedis();
    onTestFinished(() => redis.close());
    const bench = await openReplicaBench(undefined, { limiterRedisUrl: redis.url });
    await bench.startHere({ ...SLOW, LIMITER_REDIS_URL: redis.url });
    const [one] = await blocked(bench, [{}]);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, one.id, 'canceled');
  });

  test('in several shards it is found by id and by key', async () => {
    const bench = await openReplicaBench(undefined, { shards: 3 });
    const inputs = Array.from({ length: 6 }, (_, n) =>
      makeNotification({ recipientId: `teacher-${n}`, cancellationKey: 'trip-77' }),
    );
    await bench.producer.enqueueMany(inputs);
    for (const { id } of inputs.slice(0, 3)) {
      expect(await bench.producer.cancel({ id })).toEqual({ canceled: 1, tooLate: 0 });
    }
    for (const { recipientId } of inputs.slice(3, 5)) {
      const target = { recipientId, cancellationKey: 'trip-77' };
      expect(await bench.producer.cancel(target)).toEqual({ canceled: 1, tooLate: 0 });
    }
    await bench.startHere({ QUEUE_SHARDS: '3' });
    await vi.waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(1), WITHIN);
    await vi.waitFor(() => {
      expect(bench.lines.filter((line) => line.includes('"outcome":"canceled"'))).toHaveLength(5);
    }, WITHIN);
    expect(bench.sandbox.journal.all).toHaveLength(1);
  });

  test('a background push is canceled in the limits of background pushes', async () => {
    const bench = await openReplicaBench();
    await bench.startHere({ LIMIT_BACKGROUND_RULES: '1/1h' });
    const [first, second] = [1, 2].map(() => makeNotification({ pushType: 'background', alert: undefined })) as Two;
    await bench.producer.enqueue(first);
    await ends(bench, first.id, 'delivered');
    await bench.producer.enqueue(second);
    await waits(bench, second.id);
    expect(await bench.producer.cancel({ id: second.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, second.id, 'canceled');
  });

  test('one that waits for a retry after a 503 is canceled', async () => {
    const bench = await openReplicaBench();
    await bench.startHere({ BACKOFF_BASE: '1h', BACKOFF_MAX: '2h' });
    const device = makeDevice();
    bench.sandbox.setAnswers([{ token: device.token, status: 503 }]);
    const one = makeNotification({ devices: [device] });
    await bench.producer.enqueue(one);
    await waits(bench, one.id);
    expect(bench.sandbox.journal.all).toHaveLength(1);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, one.id, 'canceled');
    expect(bench.sandbox.journal.all).toHaveLength(1);
  });

  test('for one that waits for a retry after an ambiguous answer it is too late', async () => {
    const bench = await openReplicaBench();
    await bench.startHere({ BACKOFF_BASE: '1h', BACKOFF_MAX: '2h', LIMIT_RULES: '100/1s', LIMIT_MIN_GAP: '0' });
    const device = makeDevice();
    bench.sandbox.setAnswers([{ token: device.token, answer: 'reset-stream' }]);
    const one = makeNotification({ devices: [device] });
    await bench.producer.enqueue(one);
    await waits(bench, one.id);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 0, tooLate: 1 });
  });

  test('for one whose provider takes longer to answer than the limits look back it is too late', async () => {
    const bench = await openReplicaBench();
    await bench.startHere({ LIMIT_RULES: '5/200ms', LIMIT_MIN_GAP: '0' });
    const one = makeNotification();
    bench.sandbox.setAnswers([{ answer: 'accept', delay: '1500ms' }]);
    await bench.producer.enqueue(one);
    await vi.waitFor(() => expect(bench.sandbox.journal.all).toHaveLength(1), WITHIN);
    const { waiting, ...slots } = recipientKeys(bench.prefix, one.recipientId);
    await vi.waitFor(async () => expect(await connectRedis().exists(...Object.values(slots))).toBe(0), WITHIN);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 0, tooLate: 1 });
    await ends(bench, one.id, 'delivered');
    expect(await connectRedis().exists(waiting)).toBe(1);
  });

  test('one whose provider is down is canceled while the breaker is open', async () => {
    const bench = await openReplicaBench();
    await bench.startHere({ BACKOFF_BASE: '1h', BACKOFF_MAX: '2h' });
    bench.sandbox.setAnswers([{ platform: 'apns', status: 403, reason: 'InvalidProviderToken' }]);
    const [first, second] = [makeNotification(), makeNotification({ recipientId: 'teacher-2' })];
    await bench.producer.enqueue(first);
    await waits(bench, first.id);
    await bench.producer.enqueue(second);
    await waits(bench, second.id);
    expect(bench.lines.filter((line) => line.includes(second.id)).join()).toContain('"outcome":"held"');
    expect(await bench.producer.cancel({ id: second.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, second.id, 'canceled');
  });

  test('a part of a digest is taken out of it, until the digest is sent', async () => {
    const bench = await openReplicaBench();
    await bench.startHere({ LIMIT_RULES: '1/3s', LIMIT_MIN_GAP: '0', OUTCOMES_MAX: '100' });
    const fields = {
      onThrottle: 'digest',
      digest: { key: 'thread-77', title: '{{count}} new' },
      category: 'chat',
    } as const;
    const [first, holder, one, two] = Array.from({ length: 4 }, () => makeNotification(fields)) as Four;
    await bench.producer.enqueue(first);
    await ends(bench, first.id, 'delivered');
    await bench.producer.enqueue(holder);
    await waits(bench, holder.id);
    for (const part of [one, two]) {
      await bench.producer.enqueue(part);
      await ends(bench, part.id, 'merged');
    }
    const merged = await bench.producer.status(one.id);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, holder.id, 'delivered');
    expect(bench.sandbox.journal.accepted.map(({ title }) => title)).toEqual([first.alert?.title, '2 new']);
    expect(await bench.producer.cancel({ id: two.id })).toEqual({ canceled: 0, tooLate: 1 });

    const status = await bench.producer.status(one.id);
    expect(status).toMatchObject({ state: 'ended', outcome: 'canceled', devices: {} });
    expect(status).not.toHaveProperty('by');
    expect((status as { endedAt: number }).endedAt).toBeGreaterThan((merged as { endedAt: number }).endedAt);
    expect(await bench.producer.status(two.id)).toMatchObject({ outcome: 'merged', by: holder.id });
    const entries = (await outcomesIn(connectRedis(), bench.prefix)).filter(({ id }) => id === one.id);
    expect(entries.map(({ outcome }) => outcome)).toEqual(['merged', 'canceled']); // once, however often it is canceled
    const told = { recipientId: one.recipientId, category: 'chat', platform: 'apns', generation: '0', devices: '{}' };
    expect(entries[1]).toMatchObject(told);
    expect(entries[1]?.['enqueuedAt']).toBe(entries[0]?.['enqueuedAt']);
  });

  test('where the stream of outcomes cannot be written, a part of a digest is told as canceled when it is canceled again', async () => {
    const bench = await openReplicaBench();
    const redis = connectRedis();
    await bench.startHere(SLOW);
    const fields = { onThrottle: 'digest', digest: { key: 'thread-77', title: '{{count}} new' } } as const;
    const [holder] = await blocked(bench, [fields]);
    const part = makeNotification(fields);
    await bench.producer.enqueue(part);
    await ends(bench, part.id, 'merged');
    await redis.set(outcomesKey(bench.prefix), 'of another program');
    await expect(bench.producer.cancel({ id: part.id })).rejects.toThrow('WRONGTYPE');
    expect(await bench.producer.status(part.id)).toMatchObject({ outcome: 'merged', by: holder.id });
    await redis.del(outcomesKey(bench.prefix));
    expect(await bench.producer.cancel({ id: part.id })).toEqual({ canceled: 1, tooLate: 0 });
    expect(await bench.producer.status(part.id)).toMatchObject({ outcome: 'canceled' });
    expect(await redis.exists(outcomesKey(bench.prefix))).toBe(0); // there is no stream without OUTCOMES_MAX
  });

  test('one whose slot a digest of others has is canceled, also when that is sent and it is canceled again', async () => {
    const bench = await openReplicaBench();
    await bench.startHere({ LIMIT_RULES: '1/2s', LIMIT_MIN_GAP: '0' });
    const fields = { onThrottle: 'digest', digest: { key: 'thread-77', title: '{{count}} new' } } as const;
    const [first, holder, part] = Array.from({ length: 3 }, () => makeNotification(fields)) as [...Two, Notification];
    await bench.producer.enqueue(first);
    await ends(bench, first.id, 'delivered');
    await bench.producer.enqueue(holder);
    await waits(bench, holder.id);
    await bench.producer.enqueue(part);
    await ends(bench, part.id, 'merged');
    for (let repeats = 0; repeats < 2; repeats++)
      expect(await bench.producer.cancel({ id: holder.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, holder.id, 'delivered');
    expect(bench.sandbox.journal.accepted.map(({ title }) => title)).toEqual([first.alert?.title, '1 new']);
    expect(await bench.producer.cancel({ id: holder.id })).toEqual({ canceled: 1, tooLate: 0 });
    expect(await bench.producer.status(holder.id)).toMatchObject({ outcome: 'delivered', forOthers: true });
  });

  test('a dead letter does not wait; its replay does', async () => {
    const bench = await openReplicaBench();
    await bench.startHere();
    const device = makeDevice();
    bench.sandbox.setAnswers([{ token: device.token, reason: 'BadTopic' }]);
    const one = makeNotification({ devices: [device], recipientId: 'teacher-7' });
    await bench.producer.enqueue(one);
    const letters = createDeadLetters({ queue: bench.queue, deadQueue: bench.deadQueue });
    const letter = await vi.waitFor(async () => {
      const found = await letters.find(one.id);
      return present(found);
    }, WITHIN);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 0, tooLate: 1 });
    await connectRedis().unlink(bench.queue.toKey(one.id)); // as an hour later
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 0, tooLate: 1 });
    await bench.queue.pause();
    await letters.replay(letter);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    await bench.queue.resume();
    await ends(bench, `${one.id}#r1`, 'canceled');
    expect(bench.sandbox.journal.all).toHaveLength(1);
  });
});

describe('by key', () => {
  test('all that wait under it are canceled, and no other; a second call answers the same', async () => {
    const bench = await openReplicaBench();
    await bench.startHere(SLOW);
    const key = { cancellationKey: 'trip-77' };
    const [one, two, other, stranger] = await blocked(bench, [key, key, { cancellationKey: 'trip-78' }, {}]);
    const elsewhere = makeNotification({ recipientId: 'teacher-43', sendAfter: Date.now() + 3_600_000, ...key });
    await bench.producer.enqueue(elsewhere);
    const target = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };
    expect(await bench.producer.cancel(target)).toEqual({ canceled: 2, tooLate: 0 });
    await ends(bench, one.id, 'canceled');
    await ends(bench, two.id, 'canceled');
    expect(await bench.producer.cancel(target)).toEqual({ canceled: 2, tooLate: 0 });
    for (const { id } of [other, stranger, elsewhere]) {
      expect(await bench.queue.getJob(id).then((job) => job?.getState())).toBe('delayed');
    }
  });

  test('it forgets what was delivered, so no key is left', async () => {
    const bench = await openReplicaBench();
    await bench.startHere();
    const one = makeNotification({ cancellationKey: 'trip-77' });
    await bench.producer.enqueue(one);
    await ends(bench, one.id, 'delivered');
    expect(await connectRedis().keys(`${bench.prefix}:cancellation:*`)).toEqual([]);
    const target = { recipientId: one.recipientId, cancellationKey: 'trip-77' };
    expect(await bench.producer.cancel(target)).toEqual({ canceled: 0, tooLate: 0 });
  });

  test('it finds a job of another client once a worker has looked at it', async () => {
    const bench = await openReplicaBench();
    const data = makeNotification({ cancellationKey: 'trip-77', sendAfter: Date.now() + 3_600_000 });
    await bench.queue.add('push', data, { jobId: data.id, priority: 10 });
    const target = { recipientId: data.recipientId, cancellationKey: 'trip-77' };
    expect(await bench.producer.cancel(target)).toEqual({ canceled: 0, tooLate: 0 });
    await bench.startHere();
    await waits(bench, data.id);
    expect(await bench.producer.cancel(target)).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, data.id, 'canceled');
  });
});

describe('what a producer is told', () => {
  test.each([
    [{}, 'an object with an id, or with a recipientId and a cancellationKey'],
    [{ id: 'a b' }, '1 to 128 of A-Z a-z 0-9 . _ ~ -'],
    [{ recipientId: 'teacher-42' }, 'cancellationKey'],
  ])('%o is not usable', async (target, expected) => {
    const { producer } = await openReplicaBench();
    const error = await producer.cancel(target as never).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(InputError);
    expect((error as InputError).message).toContain(expected);
  });

  test('a limiter that is away is RedisAwayError, and is asked only by a cancel', async () => {
    const bench = await openReplicaBench(undefined, { limiterRedisUrl: 'redis://127.0.0.1:1', timeoutMs: 500 });
    const one = makeNotification();
    await bench.producer.enqueue(one);
    const error = await bench.producer.cancel({ id: one.id }).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(RedisAwayError);
    expect((error as Error).message).toContain('127.0.0.1:1');
    expect(await connectRedis().exists(recipientKeys(bench.prefix, one.recipientId).waiting)).toBe(0);
  });
});
