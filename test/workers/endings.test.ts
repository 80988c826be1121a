import type { Job } from 'bullmq';
import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { main as recipient } from '../../scripts/recipient.ts';
import { main as replay } from '../../scripts/replay.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import type { Notification } from '../../src/notification/notification.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { present } from '../queue/support.ts';
import { runMain } from '../support/command.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { waitFor } from '../support/wait.ts';
import { SLOW, blocked, ends, enqueueWaiting, openRunning, reset, waits } from '../support/waiting.ts';

// What a notification holds while it waits is handed on, whichever way it ends.

/** Nothing is held back. */
const OPEN = { LIMIT_RULES: '100/1h', LIMIT_MIN_GAP: '0' };
const DIGEST = { onThrottle: 'digest', digest: { key: 'thread-77', title: '{{count}} new' } } as const;

/** A replica that has credentials for APNs alone. */
function startWithoutFcm({ env, startHere }: ReplicaBench, more: Readonly<Record<string, string>> = {}) {
  const own = Object.keys(env).filter((name) => /^(FCM|GOOGLE|WEBPUSH)_/.test(name));
  const none = Object.fromEntries(own.map((name) => [name, '']));
  return startHere({ ...none, CREDENTIALS_WAIT: '0', ...more });
}

const isDead = (bench: ReplicaBench, id: string) =>
  waitFor(async () => expect(await bench.deadQueue.getJob(id)).toBeDefined());
const titles = ({ sandbox }: ReplicaBench) => sandbox.journal.accepted.map(({ title }) => title);

/** One that is delivered, and others that wait for their slots. */
const waiting = (bench: ReplicaBench, fields: readonly Partial<Notification>[]) =>
  blocked(bench, fields, { alert: { title: 'first' } });

test('a digest whose leader becomes a dead letter before its ask goes without it, and its replay is lost neither', async () => {
  const bench = await openReplicaBench();
  const healthy = await bench.startHere(SLOW);
  const leads = { ...DIGEST, devices: [makeDevice('fcm')], alert: { title: 'leader' } };
  const [leader, part, last] = (await waiting(bench, [leads, DIGEST, DIGEST])).map(({ id }) => id);
  await healthy.stop();
  await reset(bench);
  const lacking = await startWithoutFcm(bench, SLOW);
  await isDead(bench, present(leader));
  await ends(bench, present(part), 'delivered');
  await ends(bench, present(last), 'merged');
  expect(titles(bench)).toEqual(['first', '2 new']);
  await lacking.stop();
  await bench.startHere(OPEN);
  expect(await runMain(replay, ['--all', '--yes'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  await ends(bench, `${leader}#r1`, 'delivered');
  expect(titles(bench).slice(2)).toEqual(['leader']);
});

test.each([
  ['a token that is gone', 'Unregistered'],
  ['a provider that has no time', 'ServiceUnavailable'],
] as const)('the slot of %s goes to those that wait, at once and in their order', async (_, reason) => {
  const bench = await openRunning({ ...SLOW, BACKOFF_BASE: '5m', BACKOFF_MAX: '5m' });
  const device = makeDevice();
  bench.sandbox.setAnswers([{ token: device.token, reason, delay: '3s' }]);
  await bench.producer.enqueue(makeNotification({ devices: [device], alert: { title: 'first' } }));
  await waitFor(() => expect(bench.sandbox.journal.all).toHaveLength(1));
  const [second, third] = [makeNotification({ alert: { title: 'second' } }), makeNotification()];
  await enqueueWaiting(bench, [second, third]);
  await ends(bench, second.id, 'delivered'); // not in an hour
  expect(titles(bench)).toEqual(['second']);
  const delayed = await bench.queue.getJob(third.id);
  const dueAt = (delayed?.timestamp ?? 0) + (delayed?.delay ?? Infinity);
  expect(dueAt).toBeLessThan(Date.now() + 3_600_000); // not in two
});

test('a digest that was tried is the dead letter of all that have ended in it, and its replay sends it', async () => {
  const bench = await openRunning({ ...SLOW, BACKOFF_BASE: '100ms' });
  const leader = await deadDigest(bench);
  const letter = (await bench.deadQueue.getJob(leader)) as Job<object>;
  expect(letter.data).toMatchObject({ reason: 'rejected', digest: { count: 2, own: true } });
  expect(await runMain(replay, ['--all', '--yes'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  await ends(bench, `${leader}#r1`, 'delivered');
  expect(titles(bench)).toEqual(['first', '2 new']);
});

/** A digest of two, tried once, that is a dead letter. */
async function deadDigest(bench: ReplicaBench): Promise<string> {
  const device = makeDevice('apns');
  const [leader, part] = (await waiting(bench, [{ ...DIGEST, devices: [device] }, DIGEST])).map(({ id }) =>
    present(id),
  );
  bench.sandbox.setAnswers([{ token: device.token, reason: 'InternalServerError' }]);
  await reset(bench);
  await ends(bench, present(part), 'merged');
  bench.sandbox.setAnswers([{ token: device.token, reason: 'BadTopic' }]);
  await reset(bench);
  await isDead(bench, present(leader));
  bench.sandbox.setAnswers([]);
  return present(leader);
}

test('the dead letter of a digest stays if the one that leads it is taken back by its id: it stands for the others too', async () => {
  const bench = await openRunning({ ...SLOW, BACKOFF_BASE: '100ms' });
  const leader = await deadDigest(bench);
  expect(await bench.producer.retract({ id: leader })).toMatchObject({ ended: 1 });
  expect(await bench.deadQueue.getJob(leader)).toBeDefined();
  expect(await runMain(replay, ['--all', '--yes'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  await ends(bench, `${leader}#r1`, 'delivered');
  expect(titles(bench)).toEqual(['first', '2 new']);
});

test('a digest that was replayed is not canceled by the id of the one that led it, not even after a week', async () => {
  const bench = await openReplicaBench();
  const replica = await bench.startHere({ ...SLOW, BACKOFF_BASE: '100ms' });
  const leader = await deadDigest(bench);
  await replica.stop();
  expect(await runMain(replay, ['--all', '--yes'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  await connectRedis().del(recipientKeys(bench.prefix, 'teacher-42').waiting); // as after 8 days
  expect(await bench.producer.cancel({ id: leader })).toEqual({ canceled: 0, tooLate: 1 });
  await bench.startHere(OPEN);
  await ends(bench, `${leader}#r1`, 'delivered');
  expect(titles(bench)).toEqual(['first', '2 new']);
});

test('what was canceled is canceled, also where it would become a dead letter', async () => {
  const bench = await openReplicaBench();
  const healthy = await bench.startHere(SLOW);
  const [one] = await waiting(bench, [{ devices: [makeDevice('fcm')] }]);
  const { id } = present(one);
  await healthy.stop();
  expect(await bench.producer.cancel({ id })).toEqual({ canceled: 1, tooLate: 0 });
  await startWithoutFcm(bench, SLOW);
  await ends(bench, id, 'canceled');
  expect(await bench.deadQueue.getJob(id)).toBeUndefined();
});

test('a replay of an old `latest` does not take the place of a newer one that waits', async () => {
  const bench = await openRunning(SLOW);
  const device = makeDevice('apns');
  const latest = { onThrottle: 'latest', collapseId: 'score' } as const;
  bench.sandbox.setAnswers([{ token: device.token, reason: 'BadTopic' }]);
  const old = makeNotification({ ...latest, devices: [device], alert: { title: '1 : 0' } });
  await bench.producer.enqueue(old);
  await isDead(bench, old.id);
  bench.sandbox.setAnswers([]);
  const [newer] = await waiting(bench, [{ ...latest, devices: [device], alert: { title: '2 : 0' } }]);
  expect(await runMain(replay, ['--all', '--yes'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  await ends(bench, `${old.id}#r1`, 'superseded');
  await reset(bench);
  await ends(bench, present(newer).id, 'delivered');
  expect(titles(bench)).toEqual(['first', '2 : 0']);
});

test('what waits for another one is told at once when the line moves to earlier', async () => {
  const bench = await openRunning({ LIMIT_RULES: '1/3s', LIMIT_MIN_GAP: '0' });
  const blockArgs = ['block', 'teacher-42', '--for', '2h', '--reason', 'a trip'];
  const latest = { onThrottle: 'latest', collapseId: 'score' } as const;
  await waiting(bench, []);
  expect(await runMain(recipient, blockArgs, queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  const all = [latest, latest, DIGEST, DIGEST].map((fields) => makeNotification(fields));
  await enqueueWaiting(bench, all);
  const [old, newer, leader, part] = all;
  expect(await runMain(recipient, ['unblock', 'teacher-42'], queueEnv(bench.prefix))).toMatchObject({
    code: 0,
  });
  await ends(bench, present(old).id, 'superseded');
  await ends(bench, present(newer).id, 'delivered');
  await ends(bench, present(leader).id, 'delivered');
  await ends(bench, present(part).id, 'merged');
});

test.each(['drop', 'silence'] as const)(
  'what `%s` makes wait for the end of the quiet hours goes when these are removed',
  async (onThrottle) => {
    const bench = await openRunning({ LIMIT_RULES: '100/1h', LIMIT_MIN_GAP: '1h' });
    const [from = '', until = ''] = [-1, 2].map((hours) =>
      new Date(Date.now() + hours * 3_600_000).toISOString().slice(11, 16),
    );
    const quiet = ['quiet', 'teacher-42', '--timezone', 'UTC', '--from', from, '--until', until];
    expect(await runMain(recipient, quiet, queueEnv(bench.prefix))).toMatchObject({ code: 0 });
    const two = [{ onThrottle }, { onThrottle }].map((fields) => makeNotification(fields));
    await enqueueWaiting(bench, two);
    expect(bench.sandbox.journal.all).toEqual([]);
    expect(await runMain(recipient, ['unquiet', 'teacher-42'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
    for (const { id } of two) await waitFor(async () => expect(await bench.queue.getJobState(id)).toBe('completed'));
    expect(bench.sandbox.journal.accepted).toHaveLength(onThrottle === 'drop' ? 1 : 2); // the limits decide then
  },
);

test('what a cancel costs grows with what is canceled, not with its square', async () => {
  const redis = await startEmbeddedRedis();
  onTestFinished(() => redis.close());
  const client = new Redis(redis.url);
  onTestFinished(() => client.disconnect());
  const bench = await openRunning({ LIMIT_RULES: '1/1m', LIMIT_MIN_GAP: '0', REDIS_URL: redis.url, HISTORY_MAX: '0' });
  const producer = createProducer({ redisUrl: redis.url, prefix: bench.prefix });
  onTestFinished(() => producer.close());
  const calls = async (): Promise<number> => {
    const stats = await client.info('commandstats');
    return [...stats.matchAll(/calls=(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const costOf = async (recipientId: string, count: number): Promise<number> => {
    const canceled = { recipientId, cancellationKey: 'trip-77' };
    const all = Array.from({ length: count }, (_, n) => makeNotification(n % 5 === 1 ? canceled : { recipientId }));
    await producer.enqueueMany(all);
    const delayed = (): Promise<number> => client.zcard(`${bench.prefix}:notifications:delayed`);
    const before = await delayed();
    await waitFor(async () => expect(await delayed()).toBeGreaterThanOrEqual(before + count - 1));
    const start = await calls();
    expect(await producer.cancel(canceled)).toEqual({ canceled: count / 5, tooLate: 0 });
    await waitFor(async () => {
      const ended = await Promise.all(
        all
          .filter((_, n) => n % 5 === 1)
          .map(({ id }) => client.hget(`${bench.prefix}:notifications:${id}`, 'finishedOn')),
      );
      expect(ended).not.toContain(null);
    });
    return (await calls()) - start;
  };
  const [few, many] = [await costOf('teacher-1', 100), await costOf('teacher-2', 400)];
  expect(many / few).toBeLessThan(8); // 16 for a square
});

test('a canceled replay whose workers die, and that is replayed again, is not sent', async () => {
  const bench = await openReplicaBench();
  const worker = await bench.startHere(SLOW);
  const device = makeDevice('apns');
  bench.sandbox.setAnswers([{ token: device.token, reason: 'BadTopic' }]);
  const one = makeNotification({ devices: [device], alert: { title: 'canceled' } });
  await bench.producer.enqueue(one);
  await isDead(bench, one.id);
  bench.sandbox.setAnswers([]);
  await waiting(bench, []);
  expect(await runMain(replay, ['--all', '--yes'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  await waits(bench, `${one.id}#r1`);
  await worker.stop();
  expect(await bench.producer.cancel({ id: one.id })).toEqual({ canceled: 1, tooLate: 0 });
  // Its workers died too often.
  const client = (await bench.queue.getBackend().client) as unknown as Redis;
  await client.hset(bench.queue.toKey(`${one.id}#r1`), 'stc', '99');
  await bench.startHere(SLOW);
  await isDead(bench, `${one.id}#r1`);
  expect(await runMain(replay, ['--all', '--yes'], queueEnv(bench.prefix))).toMatchObject({ code: 0 });
  await ends(bench, `${one.id}#r2`, 'canceled');
  expect(titles(bench)).toEqual(['first']);
});

test('a digest whose leader has no device any more goes to the devices of the others', async () => {
  const bench = await openRunning(SLOW);
  const gone = makeDevice('apns');
  bench.sandbox.setAnswers([{ token: gone.token, reason: 'Unregistered' }]);
  const [leader, part, last] = (await waiting(bench, [{ ...DIGEST, devices: [gone] }, DIGEST, DIGEST])).map(({ id }) =>
    present(id),
  );
  await reset(bench);
  await isDead(bench, present(leader));
  await ends(bench, present(part), 'delivered');
  await ends(bench, present(last), 'merged');
  expect(titles(bench)).toEqual(['first', '2 new']);
  const { data } = present((await bench.deadQueue.getJob(present(leader))) as Job<object> | undefined);
  expect(data).toMatchObject({ reason: 'unregistered' });
  expect(data).not.toHaveProperty('digest');
});

test('what has ended leaves nothing in the limiter', async () => {
  const bench = await openRunning(SLOW);
  const latest = { onThrottle: 'latest', collapseId: 'score' } as const;
  const kinds = [DIGEST, DIGEST, latest, latest, {}];
  const all = await waiting(bench, kinds);
  expect(await bench.producer.cancel({ id: present(all[4]).id })).toEqual({ canceled: 1, tooLate: 0 });
  const outcomes = ['delivered', 'merged', 'superseded', 'delivered', 'canceled'];
  await reset(bench);
  await ends(bench, present(all[0]).id, 'delivered');
  await reset(bench);
  for (const [index, { id }] of all.entries()) await ends(bench, id, present(outcomes[index]));
  const { waiting: key } = recipientKeys(bench.prefix, present(all[0]).recipientId);
  // Of a `latest`, the newest one is known for a week.
  await waitFor(async () => expect(await connectRedis().hkeys(key)).toEqual(['latest::score']));
});
