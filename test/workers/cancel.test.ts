import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Job } from 'bullmq';
import type { Notification } from '../../src/notification/notification.ts';
import { InputError } from '../../src/domain/faults.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { cancellationIndexKey } from '../../src/queue/names.ts';
import { RedisAwayError } from '../../src/redis/connection.ts';
import { consume, present } from '../queue/support.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { liveActivity, makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { SLOW, blocked, deliver, ends, enqueueWaiting, openRunning, reset, waits } from '../support/waiting.ts';
import { main as recipient } from '../../scripts/recipient.ts';
import { runMain } from '../support/command.ts';
import { RACE_LIMITS, race } from '../support/cancel-race.ts';
import { createWaitingLimiter } from '../support/limiters.ts';
import { waitFor } from '../support/wait.ts';

const DIGEST = { onThrottle: 'digest', digest: { key: 'thread-77', title: '{{count}} new' } } as const;

type Two = [Notification, Notification];
type Four = [...Two, ...Two];

async function jobOf(bench: ReplicaBench, id: string): Promise<Job> {
  return present((await bench.queue.getJob(id)) as Job | undefined);
}

const dueOf = ({ timestamp, delay }: Job) => timestamp + delay;

describe('by id', () => {
  test('one that waits for its slot ends as canceled at once, and its slot is free', async () => {
    const bench = await openRunning(SLOW);
    const [one, two] = await blocked(bench, [{}, {}]);
    const before = await jobOf(bench, two.id);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, one.id, 'canceled');
    // The one behind it moves up: from two hours to one.
    await waitFor(async () => {
      const after = await jobOf(bench, two.id);
      expect(dueOf(after)).toBeLessThan(dueOf(before) - 3_000_000);
    });
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    expect(bench.sandbox.journal.accepted).toHaveLength(1);
  });

  test('an unknown one is neither, and one that was delivered is too late', async () => {
    const bench = await openRunning();
    expect(await bench.producer.cancel({ id: 'nobody-knows-it' })).toEqual({ canceled: 0, tooLate: 0 });
    const sent = makeNotification();
    await deliver(bench, sent);
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
    await waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(1));
    await waitFor(() => {
      expect(bench.lines.filter((line) => line.includes('"outcome":"canceled"'))).toHaveLength(5);
    });
    expect(bench.sandbox.journal.all).toHaveLength(1);
  });

  test.each([
    ['background', 'LIMIT_BACKGROUND_RULES', { alert: undefined }],
    ['liveactivity', 'LIMIT_LIVE_ACTIVITY_RULES', liveActivity(1)],
  ] as const)('a %s push is canceled in the limits of its kind', async (pushType, variable, fields) => {
    const bench = await openRunning({ [variable]: '1/1h' });
    const [first, second] = [1, 2].map(() => makeNotification({ pushType, ...fields })) as Two;
    await deliver(bench, first);
    await enqueueWaiting(bench, [second]);
    expect(await bench.producer.cancel({ id: second.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, second.id, 'canceled');
    expect(bench.sandbox.journal.accepted).toHaveLength(1);
  });

  test('one that waits for a retry after a 503 is canceled', async () => {
    const bench = await openRunning({ BACKOFF_BASE: '1h', BACKOFF_MAX: '2h' });
    const device = makeDevice();
    bench.sandbox.setAnswers([{ token: device.token, status: 503 }]);
    const one = makeNotification({ devices: [device] });
    await enqueueWaiting(bench, [one]);
    expect(bench.sandbox.journal.all).toHaveLength(1);
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, one.id, 'canceled');
    expect(bench.sandbox.journal.all).toHaveLength(1);
  });

  test('for one whose provider takes longer to answer than the limits look back it is too late', async () => {
    const bench = await openRunning({ LIMIT_RULES: '5/200ms', LIMIT_MIN_GAP: '0' });
    const one = makeNotification();
    bench.sandbox.setAnswers([{ answer: 'accept', delay: '1500ms' }]);
    await bench.producer.enqueue(one);
    await waitFor(() => expect(bench.sandbox.journal.all).toHaveLength(1));
    const { waiting, ...slots } = recipientKeys(bench.prefix, one.recipientId);
    await waitFor(async () => expect(await connectRedis().exists(...Object.values(slots))).toBe(0));
    expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 0, tooLate: 1 });
    await ends(bench, one.id, 'delivered');
    expect(await connectRedis().exists(waiting), 'what is left of the cancel').toBe(0);
  });

  test('one whose provider is down is canceled while the breaker is open', async () => {
    const bench = await openRunning({ BACKOFF_BASE: '1h', BACKOFF_MAX: '2h' });
    bench.sandbox.setAnswers([{ platform: 'apns', status: 403, reason: 'InvalidProviderToken' }]);
    const [first, second] = [makeNotification(), makeNotification({ recipientId: 'teacher-2' })];
    await enqueueWaiting(bench, [first, second]);
    expect(bench.lines.filter((line) => line.includes(second.id)).join()).toContain('"outcome":"held"');
    expect(await bench.producer.cancel({ id: second.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, second.id, 'canceled');
  });

  test('a part of a digest is taken out of it, until the digest is sent', async () => {
    const bench = await openRunning({ ...SLOW, OUTCOMES_MAX: '100' });
    const [first, leader, one, two] = Array.from({ length: 4 }, () => makeNotification(DIGEST)) as Four;
    await deliver(bench, first);
    await enqueueWaiting(bench, [leader, one, two]);
    for (let repeats = 0; repeats < 2; repeats++)
      expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, one.id, 'canceled');
    await reset(bench);
    await ends(bench, leader.id, 'delivered');
    expect(bench.sandbox.journal.accepted.map(({ title }) => title)).toEqual([first.alert?.title, '2 new']);
    expect(await bench.producer.cancel({ id: two.id })).toEqual({ canceled: 0, tooLate: 1 });
    await ends(bench, two.id, 'merged');

    expect(await bench.producer.status(one.id)).toMatchObject({ state: 'ended', outcome: 'canceled', devices: {} });
    expect(await bench.producer.status(two.id)).toMatchObject({ outcome: 'merged', by: leader.id });
    const entries = await outcomesIn(connectRedis(), bench.prefix);
    expect(entries.map(({ id, outcome }) => [id, outcome]).toSorted()).toEqual(
      [
        [first.id, 'delivered'],
        [leader.id, 'delivered'],
        [one.id, 'canceled'],
        [two.id, 'merged'],
      ].toSorted(),
    );
  });

  test('the leader of a digest is canceled, and the next one goes for the rest, in the same slot', async () => {
    const bench = await openRunning(SLOW);
    const [first, leader, part, last] = Array.from({ length: 4 }, () => makeNotification(DIGEST)) as Four;
    await deliver(bench, first);
    await enqueueWaiting(bench, [leader, part, last]);
    const slot = dueOf(await jobOf(bench, leader.id));
    for (let repeats = 0; repeats < 2; repeats++)
      expect(await bench.producer.cancel({ id: leader.id })).toEqual({ canceled: 1, tooLate: 0 });
    await ends(bench, leader.id, 'canceled');
    // A part alone comes two seconds after the slot.
    await waitFor(async () => expect(dueOf(await jobOf(bench, part.id))).toBeLessThan(slot + 1_000));
    await reset(bench);
    await ends(bench, part.id, 'delivered');
    await ends(bench, last.id, 'merged');
    expect(bench.sandbox.journal.accepted.map(({ title }) => title)).toEqual([first.alert?.title, '2 new']);
  });

  test('one whose pass knows of the cancel, and ends only seconds later on a slow machine, is said to be canceled', async () => {
    const bench = await openReplicaBench();
    const redis = connectRedis();
    const one = makeNotification();
    const { recipientId, id } = one;
    const limiter = createWaitingLimiter({ redis, policy: { rules: [], minGapMs: 0 }, prefix: bench.prefix });
    await bench.producer.enqueue(one);
    const taken = Promise.withResolvers<undefined>();
    const going = Promise.withResolvers<undefined>();
    consume(bench.prefix, async ({ timestamp }) => {
      taken.resolve(undefined);
      const { waiting } = recipientKeys(bench.prefix, recipientId);
      await waitFor(async () => expect(await redis.hlen(waiting)).toBeGreaterThan(0));
      const answer = await limiter.admit({ recipientId, id: `${id}/0`, enqueuedAt: timestamp });
      await going.promise;
      return { outcome: 'how' in answer ? answer.how : answer.kind };
    });
    await taken.promise;
    expect(await bench.producer.cancel({ id })).toEqual({ canceled: 1, tooLate: 0 });
    going.resolve(undefined);
    await ends(bench, id, 'canceled');
  });

  test('a dead letter does not wait; its replay does', async () => {
    const bench = await openRunning();
    const device = makeDevice();
    bench.sandbox.setAnswers([{ token: device.token, reason: 'BadTopic' }]);
    const one = makeNotification({ devices: [device], recipientId: 'teacher-7' });
    await bench.producer.enqueue(one);
    const letters = createDeadLetters({ queue: bench.queue, deadQueue: bench.deadQueue });
    const letter = await waitFor(async () => {
      const found = await letters.find(one.id);
      return present(found);
    });
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
  test('a duplicate under another key leaves nothing in the index of that key', async () => {
    const { producer, prefix } = await openReplicaBench();
    const one = makeNotification({ cancellationKey: 'trip-77' });
    expect(await producer.enqueue(one)).toMatchObject({ added: true });
    expect(await producer.enqueue({ ...one, cancellationKey: 'trip-78' })).toMatchObject({ added: false });
    const keys = ['trip-77', 'trip-78'].map((key) => cancellationIndexKey(prefix, one.recipientId, key));
    expect(await Promise.all(keys.map((key) => connectRedis().exists(key)))).toEqual([1, 0]);
  });

  test('one whose id an earlier one had under another key is left alone by that key', async () => {
    const { producer, prefix } = await openReplicaBench();
    const one = makeNotification({ cancellationKey: 'trip-78' });
    await producer.enqueue(one);
    const former = { recipientId: one.recipientId, cancellationKey: 'trip-77' };
    const index = cancellationIndexKey(prefix, former.recipientId, former.cancellationKey);
    await connectRedis().zadd(index, Date.now() + 3_600_000, one.id);
    expect(await producer.cancel(former)).toEqual({ canceled: 0, tooLate: 0 });
    expect(await producer.cancel({ ...former, cancellationKey: 'trip-78' })).toEqual({ canceled: 1, tooLate: 0 });
  });

  test('all that wait under it are canceled, and no other; a second call answers the same', async () => {
    const bench = await openRunning(SLOW);
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

  test('what was delivered is no business of a cancel, and is forgotten within the hour in which its id is kept', async () => {
    const bench = await openRunning();
    const one = makeNotification({ cancellationKey: 'trip-77' });
    await deliver(bench, one);
    const redis = connectRedis();
    const [key = ''] = await redis.keys(`${bench.prefix}:cancellation:*`);
    expect(await redis.pttl(key)).toBeLessThanOrEqual(3_600_000);
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

describe('what a producer is answered', () => {
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

describe('a job named cancel', () => {
  test('cancels by id and by key, and its return value says what came of it', async () => {
    const bench = await openRunning(SLOW);
    const [one, two] = await blocked(bench, [{}, { cancellationKey: 'trip-77' }]);
    const targets = [{ id: one.id }, { recipientId: 'teacher-42', cancellationKey: 'trip-77' }];
    for (const target of targets) {
      const { id = '' } = await bench.queue.add('cancel', target, { priority: 1 });
      await waitFor(async () => {
        const job = (await bench.queue.getJob(id)) as Job | undefined;
        expect(job?.returnvalue).toEqual({ canceled: 1, tooLate: 0 });
      });
    }
    await ends(bench, one.id, 'canceled');
    await ends(bench, two.id, 'canceled');
    expect(bench.lines.join('')).toContain('canceled what waits');
  });

  test('that does not fit becomes a dead letter', async () => {
    const bench = await openRunning();
    await bench.queue.add('cancel', { id: 'msg-1', recipientId: 'teacher-42' }, { jobId: 'bad', priority: 1 });
    const letters = createDeadLetters({ queue: bench.queue, deadQueue: bench.deadQueue });
    await waitFor(async () => {
      expect((await letters.find('bad'))?.letter).toMatchObject({
        reason: 'invalid',
        message: 'recipientId: expected no such field, found one',
      });
    });
  });
});

/** As at the real providers: a median of 40 ms and a 99th percentile of 250 ms. */
const REAL_LATENCY = {};

test('of a cancel and a send exactly one wins', { timeout: 120_000 }, async () => {
  const bench = await openReplicaBench(REAL_LATENCY);
  await bench.startHere(RACE_LIMITS);
  const { producer, queue, sandbox } = bench;
  const accepted = () => sandbox.journal.accepted.map(({ token }) => token);
  let [canceled, tooLate] = [0, 0];
  // A busy machine sends later than planned; then all cancels come too early, and those of the next round come later.
  for (let lateMs = 0; lateMs <= 1_000 && (canceled <= 20 || tooLate <= 20); lateMs += 200) {
    const round = await race({ producer, queue, recipients: 20, notifications: 10, accepted, lateMs });
    canceled += round.canceled;
    tooLate += round.tooLate;
  }
  expect(canceled).toBeGreaterThan(20);
  expect(tooLate).toBeGreaterThan(20);
});

test('what is canceled just as it joins a digest is canceled, once', async () => {
  const bench = await openRunning({ ...SLOW, OUTCOMES_MAX: '1000' });
  await blocked(bench, [DIGEST]);
  const redis = connectRedis();
  const parts = Array.from({ length: 90 }, () => makeNotification(DIGEST));
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
  for (const { id } of parts) await ends(bench, id, 'canceled');
  expect(await bench.queue.getDelayedCount()).toBe(1); // the digest itself
  const entries = await outcomesIn(redis, bench.prefix);
  for (const { id } of parts) {
    const outcomes = entries.filter((entry) => entry['id'] === id).map(({ outcome }) => outcome);
    expect(outcomes).toEqual(['canceled']);
  }
});

describe('a block whose end was interrupted', () => {
  const unblock = async (bench: ReplicaBench, at: 'onMoving' | 'onMoved') => {
    const policy = { rules: [{ max: 100, perMs: 3_600_000 }], minGapMs: 0 };
    const limiter = createWaitingLimiter({ redis: connectRedis(), policy, prefix: bench.prefix });
    const dies = limiter.unblock('teacher-42', { [at]: () => Promise.reject(new Error('killed')) });
    await expect(dies).rejects.toThrow('killed');
  };

  test('is ended by the next one that has to wait: all are delivered', async () => {
    const bench = await openRunning({ LIMIT_RULES: '100/1h', LIMIT_MIN_GAP: '0' });
    const args = ['block', 'teacher-42', '--for', '2h', '--reason', 'trip'];
    expect(await runMain(recipient, args, queueEnv(bench.prefix))).toMatchObject({ code: 0 });
    const waiting = [makeNotification(), makeNotification(), makeNotification()];
    await enqueueWaiting(bench, waiting);
    await unblock(bench, 'onMoving');
    const next = makeNotification();
    await bench.producer.enqueue(next);
    for (const { id } of [...waiting, next]) await ends(bench, id, 'delivered');
  });
});
