import type { Job } from 'bullmq';
import { expect, it } from 'vitest';
import { main as replay } from '../../scripts/replay.ts';
import { apartOptions } from '../../src/limiter/limiter.ts';
import type { Notification } from '../../src/notification/notification.ts';
import type { Producer } from '../../src/producer/producer.ts';
import { outcomesKey } from '../../src/queue/names.ts';
import { act } from '../../src/operations/actions.ts';
import { runMain } from '../support/command.ts';
import { createWaitingLimiter } from '../support/limiters.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { liveActivity, makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';
import { waitFor } from '../support/wait.ts';
import { deliver, ends, openRunning, reset } from '../support/waiting.ts';

/** So far ahead that no test comes to it: what waits for a slot is sent when the test calls `reset`. */
const TEN_MINUTES_MS = 600_000;

/** Resolves when it waits for the slot after one that was given later than `before`. */
async function waitsLong(producer: Producer, id: string, before: number): Promise<void> {
  const until = async () => ((await producer.status(id)) as { until?: number }).until;
  await expect.poll(until).toBeGreaterThan(before + TEN_MINUTES_MS - 1_000);
}

it('each notification that ends is in the stream, and its status is the same', async () => {
  const { queue, prefix, producer, sandbox, startHere, line } = await openReplicaBench();
  const redis = connectRedis();
  const [phone, gone, refused] = [makeDevice(), makeDevice(), makeDevice()];
  sandbox.apns.script(gone.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered' }]);
  sandbox.apns.script(refused.token, [{ kind: 'refuse', status: 400, reason: 'BadTopic' }]);
  const busy = { recipientId: 'busy', onThrottle: 'drop' } as const;
  const notifications = [
    makeNotification({ id: 'plain', recipientId: 'a', category: 'messages' }),
    makeNotification({ id: 'partly', recipientId: 'b', devices: [gone, phone] }),
    makeNotification({ id: 'late', recipientId: 'c', expiresAt: Date.now() - 1_000 }),
    makeNotification({ id: 'first', ...busy }),
    makeNotification({ id: 'refused', recipientId: 'd', devices: [refused] }),
    { id: 'broken', recipientId: 'e', devices: 'none' },
    makeNotification({ id: 'second', ...busy }),
  ];
  const before = Date.now();
  const jobs = notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } }));
  const ended = (count: number) => waitFor(async () => expect(await redis.xlen(outcomesKey(prefix))).toBe(count));
  await queue.addBulk(jobs.slice(0, -1));
  await startHere({ OUTCOMES_MAX: '1000', LIMIT_MIN_GAP: '0', LIMIT_RULES: '1/1h' });
  await ended(jobs.length - 1);
  await queue.addBulk(jobs.slice(-1)); // now the other one has the slot, however busy the machine is
  await ended(jobs.length);

  const entries = await outcomesIn(redis, prefix);
  const byId = new Map(entries.map((entry) => [entry['id'], entry]));
  const outcomes = Object.fromEntries(
    [...byId].map(([id = '', { outcome, devices = '' }]) => [id, [outcome, JSON.parse(devices) as object]]),
  );
  expect(outcomes).toEqual({
    plain: ['delivered', { 'apns#0': 'delivered' }],
    partly: ['delivered', { 'apns#0': 'unregistered', 'apns#1': 'delivered' }],
    late: ['expired', {}],
    first: ['delivered', { 'apns#0': 'delivered' }],
    second: ['dropped', {}],
    refused: ['dead-lettered', { 'apns#0': expect.any(String) as string }],
    broken: ['dead-lettered', {}],
  });
  expect(byId.get('broken')).toMatchObject({ reason: 'invalid', recipientId: 'e', generation: '0' });
  const plain = byId.get('plain');
  expect(plain).toMatchObject({ recipientId: 'a', category: 'messages', generation: '0' });
  const [enqueuedAt, sentAt, waitMs] = ['enqueuedAt', 'sentAt', 'waitMs'].map((name) => Number(plain?.[name]));
  expect(enqueuedAt).toBeGreaterThanOrEqual(before);
  expect(sentAt).toBeGreaterThan(enqueuedAt ?? 0);
  expect(waitMs).toBe((sentAt ?? 0) - (enqueuedAt ?? 0));
  for (const id of ['late', 'second', 'refused', 'broken']) expect(byId.get(id)).not.toHaveProperty('sentAt');
  for (const { reason, outcome } of entries) expect(reason === undefined).toBe(outcome !== 'dead-lettered');

  await expect.poll(() => producer.status('plain')).toMatchObject({ state: 'ended', outcome: 'delivered', sentAt });
  expect(await producer.status('plain')).toMatchObject({ waitMs, devices: { 'apns#0': 'delivered' } });
  expect(await producer.status('partly')).toMatchObject({
    devices: { 'apns#0': 'unregistered', 'apns#1': 'delivered' },
  });
  expect(await producer.status('late')).toMatchObject({ state: 'ended', outcome: 'expired', devices: {} });
  expect(await producer.status('second')).toMatchObject({ state: 'ended', outcome: 'dropped' });
  const { reason } = byId.get('refused') ?? {};
  expect(await producer.status('refused')).toMatchObject({ state: 'dead-lettered', reason, generation: 0 });

  expect(await runMain(replay, ['--recipient', 'd', '--yes'], queueEnv(prefix))).toMatchObject({ code: 0 });
  await line(/"jobId":"refused#r1"/);
  await ended(jobs.length + 1);
  expect((await outcomesIn(redis, prefix)).at(-1)).toMatchObject({
    ...{ id: 'refused', outcome: 'delivered', generation: '1' },
  });
  await expect.poll(() => producer.status('refused')).toMatchObject({ state: 'ended', outcome: 'delivered' });
});

it.each([
  ['onThrottle', { LIMIT_RULES: '1/1h', LIMIT_MIN_GAP: '0' }],
  ['onQuiet', { LIMIT_MIN_GAP: '0' }],
] as const)(
  'what %s silenced says so in the log, the return value, the status, the stream and the metric',
  async (field, limits) => {
    const { queue, prefix, producer, sandbox, startHere, line, lines } = await openReplicaBench();
    const redis = connectRedis();
    const { url } = await startHere({ ...limits, OUTCOMES_MAX: '1000', METRICS_PORT: '0' });
    const loud = makeNotification({ id: 'loud', [field]: 'silence' });
    await producer.enqueue(loud);
    await line(/"jobId":"loud".*"outcome":"delivered"/);
    if (field === 'onQuiet') {
      const limiter = createWaitingLimiter({ redis, prefix, policy: { rules: [], minGapMs: 0 } });
      const [from = '', until = ''] = [-1, 1].map((hours) =>
        new Date(Date.now() + hours * 3_600_000).toISOString().slice(11, 16),
      );
      await limiter.quiet(loud.recipientId, { timezone: 'UTC', quietHours: [{ from, until }] });
    }
    await producer.enqueue(makeNotification({ id: 'silent', sound: 'default', [field]: 'silence' }));
    const logged: unknown = JSON.parse(await line(/"jobId":"silent".*"outcome":"delivered"/));
    expect(logged).toMatchObject({
      silenced: true,
      platform: 'apns',
      attempts: 1,
      waitMs: expect.any(Number) as number,
    });
    expect(lines.join('')).not.toMatch(/"jobId":"loud".*silenced/);
    expect(JSON.stringify(sandbox.journal.accepted.at(-1))).not.toContain('"sound"');

    await waitFor(async () => expect(await redis.xlen(outcomesKey(prefix))).toBe(2));
    expect(await outcomesIn(redis, prefix)).toMatchObject([
      expect.not.objectContaining({ silenced: expect.anything() as string }),
      { id: 'silent', outcome: 'delivered', silenced: 'true', platform: 'apns' },
    ]);
    await expect.poll(() => producer.status('silent')).toMatchObject({ outcome: 'delivered', silenced: true });
    expect(await producer.status('loud')).not.toHaveProperty('silenced');
    const job = (await queue.getJob('silent')) as Job | undefined;
    expect(job?.returnvalue).toMatchObject({ outcome: 'delivered', silenced: true });
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const labels = 'outcome="delivered",reason=""';
    expect(metrics).toContain(`pushpacer_outcomes_total{${labels},silenced="true",platform="apns"} 1`);
    expect(metrics).toContain(`pushpacer_outcomes_total{${labels},platform="apns"} 1`);
  },
);

it('what a newer one took the place of says by which', async () => {
  const { queue, prefix, producer, startHere } = await openReplicaBench();
  const redis = connectRedis();
  await startHere({ OUTCOMES_MAX: '1000', LIMIT_MIN_GAP: '10m' });
  const before = Date.now();
  const add = (id: string) => {
    const one = makeNotification({ id, recipientId: 'teacher-42', collapseId: 'thread-77', onThrottle: 'latest' });
    return queue.add('push', one, { jobId: id, priority: 10 });
  };
  await add('now');
  await expect.poll(() => producer.status('now')).toMatchObject({ state: 'ended' });
  for (const id of ['older', 'newer']) {
    await add(id);
    await waitsLong(producer, id, before);
  }
  await reset({ prefix });
  await waitFor(async () => expect(await redis.xlen(outcomesKey(prefix))).toBe(3));
  const written = (await outcomesIn(redis, prefix)).map(({ id, outcome, by }) => [id, outcome, by]);
  expect(written.toSorted()).toEqual([
    ['newer', 'delivered', undefined],
    ['now', 'delivered', undefined],
    ['older', 'superseded', 'newer'],
  ]);
  expect(await producer.status('older')).toMatchObject({ state: 'ended', outcome: 'superseded', by: 'newer' });
});

it('without OUTCOMES_MAX there is no stream', async () => {
  const { queue, deadQueue, prefix, startHere, line } = await openReplicaBench();
  await queue.add('push', { id: 'broken' }, { jobId: 'broken', priority: 10 });
  await queue.add('push', makeNotification(), { priority: 10 });
  await startHere();
  await line(/"outcome":"delivered"/);
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
  await waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1));
  expect(await connectRedis().exists(outcomesKey(prefix))).toBe(0);
});

it('of updates that come at once after one that was sent, the last one is sent', async () => {
  const bench = await openRunning({ LIMIT_LIVE_ACTIVITY_RULES: '1/10m' });
  const devices = [makeDevice('apns')];
  const updates = Array.from({ length: 10 }, (_, goals) => makeNotification({ devices, ...liveActivity(goals) }));
  const [first, ...rest] = updates as [Notification, ...Notification[]];
  const last = updates.at(-1)?.id ?? '';
  const before = Date.now();
  await deliver(bench, first);
  await bench.producer.enqueueMany(rest);
  await waitsLong(bench.producer, last, before);
  const sent = bench.sandbox.journal.accepted;
  expect(sent).toHaveLength(1);
  await expect.poll(() => Date.now() - (sent[0]?.at ?? 0)).toBeGreaterThan(1_000); // `timestamp` is in seconds
  // The command `reset` leaves Live Activities as they are.
  const options = apartOptions('liveactivity', [{ max: 1, perMs: TEN_MINUTES_MS }], bench.prefix);
  const limiter = createWaitingLimiter({ redis: connectRedis(), ...options });
  const limiters = { alert: limiter, background: limiter, liveactivity: limiter };
  await act('teacher-42', { kind: 'reset' }, { limiters, policy: options.policy, queues: [bench.queue] });
  await ends(bench, last, 'delivered');
  for (const { id } of rest.slice(0, -1)) await ends(bench, id, 'superseded');
  const aps = bench.sandbox.journal.accepted.map(({ payload }) => (payload as { aps: Record<string, unknown> }).aps);
  expect(aps.map((each) => each['content-state'])).toEqual([{ goals: 0 }, { goals: 9 }]);
  expect(Number(aps[1]?.['timestamp'])).toBeGreaterThan(Number(aps[0]?.['timestamp']));
});
