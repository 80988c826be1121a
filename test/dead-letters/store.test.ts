import { expect, test, vi } from 'vitest';
import { readProgress } from '../../src/delivery/progress.ts';
import { createDeadLetters, type DeadLetters, type DeadLettersOptions } from '../../src/dead-letters/store.ts';
import { outcomesKey, protect } from '../../src/queue/names.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { outcomesIn } from '../support/outcomes.ts';
import { connectRedis } from '../support/redis.ts';
import { ATTEMPTS, consume, die, notification, openQueues, present } from '../queue/support.ts';
import { NewerFormatError } from '../../src/domain/format.ts';
import { takeAll, walkChosen } from '../../src/dead-letters/take.ts';
import { addDead, deadLetter, manyLetters } from './letters.ts';
import { waitFor } from '../support/wait.ts';

interface Bench extends ReturnType<typeof openQueues> {
  readonly deadLetters: DeadLetters;
}

function open(): Bench {
  const queues = openQueues();
  return { ...queues, deadLetters: createDeadLetters(queues) };
}

/** Adds jobs and has them all fail, as workers that were killed before they could bury them. */
async function failAll({ queue, prefix }: Bench, data: object[], options: object = {}): Promise<void> {
  const jobs = data.map((each, n) => ({
    name: 'push',
    data: each,
    opts: { jobId: (each as { id?: string }).id ?? `job-${n}`, priority: 10, ...options },
  }));
  await queue.addBulk(jobs);
  const worker = consume(prefix, (job) => die(job), { concurrency: 50 });
  worker.on('active', protect);
  await vi.waitFor(async () => expect(await queue.getFailedCount()).toBe(data.length), { timeout: 10_000 });
  await worker.close();
}

const numbered = (count: number) => Array.from({ length: count }, (_, n) => notification({ id: `n${n}` }));

test('a failed job becomes a dead letter, with all that docs/dead-letters.md shows', async () => {
  const bench = open();
  const { queue, deadQueue, deadLetters } = bench;
  const data = { ...notification({ id: 'n0' }), unknownField: [1, { a: null }] }; // as handed over, also what is wrong
  await failAll(bench, [data]);
  const failed = await queue.getJob('n0');

  expect(await deadLetters.bury('n0')).toBe(true);
  const [dead, ...rest] = await deadQueue.getJobs();
  expect(rest).toEqual([]);
  expect(dead).toMatchObject({ id: 'n0', name: 'push' });
  expect(present(dead).data).toEqual({
    notification: data,
    reason: 'rejected',
    message: 'rejected by the provider',
    attempts: ATTEMPTS,
    deadAt: present(failed).finishedOn,
    enqueuedAt: present(failed).timestamp,
    generation: 0,
  });
  expect(await queue.getFailedCount()).toBe(0);
  expect(await deadLetters.bury('n0')).toBe(false);
  expect(await deadLetters.bury('never there')).toBe(false);
  expect(await deadLetters.count()).toBe(1);
});

test('the id stays taken for an hour', async () => {
  const bench = open();
  await failAll(bench, numbered(1));
  await bench.deadLetters.bury('n0');
  const producer = createProducer({ connection: connectRedis(), prefix: bench.prefix });
  expect(await producer.enqueue(notification({ id: 'n0' }))).toEqual({ id: 'n0', added: false });
  await producer.close();
  const ttl = await connectRedis().ttl(bench.queue.toKey('n0'));
  expect(ttl).toBeGreaterThan(3_590);
  expect(ttl).toBeLessThanOrEqual(3_600);
});

test('an id that died twice has two dead letters', async () => {
  const bench = open();
  for (let death = 0; death < 3; death++) {
    await connectRedis().del(bench.queue.toKey('n0')); // an hour has passed
    await failAll(bench, numbered(1));
    expect(await bench.deadLetters.bury('n0')).toBe(true);
  }
  const page = await bench.deadLetters.page(0, 10);
  expect(page.map(({ id }) => id)).toEqual(['n0', 'n0#d1', 'n0#d2']);
  const replayed = await Promise.all(page.map((stored) => bench.deadLetters.replay(stored)));
  expect(replayed).toEqual(['n0#r1', 'n0#r2', 'n0#r3']);
});

test('a sweep takes all pages, and many sweeps at once bury each job once', async () => {
  const bench = open();
  await failAll(bench, numbered(250));
  const others = Array.from({ length: 3 }, () => {
    const { queue, deadQueue } = openQueues(bench.prefix);
    return createDeadLetters({ queue, deadQueue });
  });
  const swept = await Promise.all([bench.deadLetters, ...others].map((each) => each.sweep()));
  expect(swept.reduce((sum, each) => sum + each)).toBe(250);
  const ids = (await bench.deadQueue.getJobs()).map((job) => present(job.id));
  expect(ids).toHaveLength(250);
  expect(new Set(ids).size).toBe(250);
});

test('a replay is the notification again, one generation on, until it dies again', async () => {
  const bench = open();
  const { queue, deadLetters } = bench;
  await failAll(bench, [notification({ id: 'n0', priority: 'high' })]);
  for (let generation = 0; generation < 3; generation++) {
    await deadLetters.sweep();
    const [stored] = await deadLetters.page(0, 10);
    expect(present(stored).letter.generation).toBe(generation);
    const id = `n0#r${generation + 1}`;
    expect(await deadLetters.replay(present(stored))).toBe(id);
    expect(await deadLetters.replay(present(stored))).toBeUndefined();

    const job = present(await queue.getJob(id));
    expect(job.data).toEqual(notification({ id: 'n0', priority: 'high' }));
    expect(job.priority).toBe(2);
    expect(await job.getState()).toBe('prioritized');
    expect(await deadLetters.count()).toBe(0);
    const worker = consume(bench.prefix, (each) => die(each));
    await waitFor(async () => expect(await queue.getFailedCount()).toBe(1));
    await worker.close();
  }
});

test('sweeps that race with replays leave each notification in one place', async () => {
  const bench = open();
  const { queue, deadQueue, deadLetters } = bench;
  await failAll(bench, numbered(200));
  let isOver = false;
  const sweeping = Promise.all(
    [1, 2, 3].map(async () => {
      const { queue: ownQueue, deadQueue: ownDeadQueue } = openQueues(bench.prefix);
      const own = createDeadLetters({ queue: ownQueue, deadQueue: ownDeadQueue });
      while (!isOver) await own.sweep();
    }),
  );
  let replayed = 0;
  while (replayed < 200) {
    const page = await deadLetters.page(0, 20);
    const twice = [...page, ...page].map((stored) => deadLetters.replay(stored));
    replayed += (await Promise.all(twice)).filter((id) => id !== undefined).length;
  }
  isOver = true;
  await sweeping;
  expect(replayed).toBe(200);
  const ids = (await queue.getPrioritized(0, -1)).map((job) => (job.data as { id: string }).id);
  expect(ids).toHaveLength(200);
  expect(new Set(ids).size).toBe(200);
  expect([await queue.getFailedCount(), (await deadQueue.getJobs()).length]).toEqual([0, 0]);
});

test('what cannot be a notification can be replayed too', async () => {
  const bench = open();
  for (const data of [null, 'text', 42, [], {}]) {
    await bench.queue.add('push', data, { priority: 10 });
  }
  consume(bench.prefix, (job) => die(job, 'invalid'));
  await waitFor(async () => expect(await bench.queue.getFailedCount()).toBe(5));
  await bench.deadLetters.sweep();
  const page = await bench.deadLetters.page(0, 10);
  expect(page.map(({ letter }) => letter.notification)).toEqual([null, 'text', 42, [], {}]);
  expect(await Promise.all(page.map((each) => bench.deadLetters.replay(each)))).toEqual([
    '1#r1',
    '2#r1',
    '3#r1',
    '4#r1',
    '5#r1',
  ]);
});

test('a replay goes only to the devices that were not alerted before it died', async () => {
  const bench = open();
  const { queue, deadLetters } = bench;
  const [token, other] = ['ab'.repeat(32), 'cd'.repeat(32)];
  const devices = [token, other].map((each) => ({ platform: 'apns' as const, token: each }));
  await queue.add('push', notification({ devices }), { jobId: 'n0', priority: 10 });
  const dying = consume(bench.prefix, async (job) => {
    await job.updateProgress({ devices: { 'apns#0': 'delivered' }, attempts: ATTEMPTS });
    throw Object.assign(new Error('job stalled more than allowable limit'), { name: 'UnrecoverableError' });
  });
  await vi.waitFor(async () => expect(await queue.getFailedCount()).toBe(1), { timeout: 10_000 });
  await dying.close();
  await deadLetters.sweep();
  const [stored] = await deadLetters.page(0, 1);
  expect(stored?.letter).toMatchObject({ reason: 'stalled', delivered: ['apns#0'], attempts: ATTEMPTS });

  await deadLetters.replay(present(stored));
  const planned = vi.fn<(open: string[]) => void>();
  consume(bench.prefix, (job) => {
    const done = readProgress(job.progress).devices;
    planned(['apns#0', 'apns#1'].filter((label) => !(label in done)));
    return Promise.resolve();
  });
  await vi.waitFor(() => expect(planned).toHaveBeenCalledWith(['apns#1']), { timeout: 10_000 });
});

test('ids whose jobs were deleted by hand stop no sweep, and are forgotten', async () => {
  const bench = open();
  const redis = connectRedis();
  await failAll(bench, numbered(1));
  const ghosts = Array.from({ length: 150 }, (_, n) => [n, `ghost-${n}`]).flat(); // more than a page, and the oldest
  await redis.zadd(bench.queue.toKey('failed'), ...ghosts);
  expect(await bench.deadLetters.sweep()).toBe(1);
  expect(await redis.zcard(bench.queue.toKey('failed'))).toBe(0);
});

test('a job that cannot be read stops no sweep: it becomes a dead letter as it is', async () => {
  const bench = open();
  const redis = connectRedis();
  await failAll(bench, numbered(2));
  await redis.hset(bench.queue.toKey('n0'), { data: '{"id":', opts: 'not JSON', progress: '{' });
  expect(await bench.deadLetters.sweep()).toBe(2);
  const page = await bench.deadLetters.page(0, 10);
  expect(page.find(({ id }) => id === 'n0')?.letter).toMatchObject({
    notification: '{"id":',
    reason: 'invalid',
    generation: 0,
  });
});

test('each dead letter has one outcome, also one that BullMQ itself failed and several processes bury', async () => {
  const bench = open();
  const { queue, deadQueue, prefix } = bench;
  const [stalled, whole] = [{ id: 'n0', recipientId: 7 }, notification({ id: 'n1', category: 'messages' })];
  await failAll(bench, [stalled, whole]);
  const redis = connectRedis();
  await redis.hdel(queue.toKey('n0'), 'progress');
  await redis.hset(queue.toKey('n0'), 'failedReason', 'job stalled more than allowable limit');
  const [sentAt, enqueuedAt] = [1_784_000_000_000, 1_783_999_999_000];
  const progress = { dead: { reason: 'rejected', message: 'no' }, sentAt, devices: { 'apns#0': 'delivered' } };
  await redis.hset(queue.toKey('n1'), { timestamp: enqueuedAt, progress: JSON.stringify(progress) });

  const unseen: unknown[] = [];
  const onDiedUnseen: DeadLettersOptions['onDiedUnseen'] = (died) => void unseen.push(died);
  const options = { queue, deadQueue, outcomesMax: 100, onDiedUnseen };
  const several = Array.from({ length: 5 }, () => createDeadLetters(options));
  await Promise.all(several.map((each) => each.sweep()));
  // A pass of a worker has logged and counted the other one.
  const outcome = expect.objectContaining({ id: 'n0', reason: 'stalled' }) as object;
  const message = 'job stalled more than allowable limit';
  expect(unseen).toEqual([{ jobId: 'n0', name: 'push', reason: 'stalled', message, outcome }]);
  const written = await outcomesIn(redis, prefix);
  expect(written.toSorted((a, b) => (a['id'] ?? '').localeCompare(b['id'] ?? ''))).toEqual([
    expect.objectContaining({ id: 'n0', outcome: 'dead-lettered', reason: 'stalled', devices: '{}' }),
    {
      ...{ id: 'n1', recipientId: whole.recipientId, category: 'messages', outcome: 'dead-lettered' },
      ...{
        reason: 'rejected',
        generation: '0',
        enqueuedAt: String(enqueuedAt),
        sentAt: String(sentAt),
        waitMs: '1000',
      },
      ...{ platform: 'apns', devices: '{"apns#0":"delivered"}' },
    },
  ]);
  expect(written.find(({ id }) => id === 'n0')).not.toHaveProperty('recipientId'); // a number is none
});

test('where another program uses the key of the outcomes, the dead letter is written all the same', async () => {
  const bench = open();
  const { queue, deadQueue, prefix } = bench;
  await failAll(bench, numbered(1));
  await connectRedis().set(outcomesKey(prefix), 'of another program');
  await expect(createDeadLetters({ queue, deadQueue, outcomesMax: 100 }).bury('n0')).rejects.toThrow(/WRONGTYPE/);
  expect(await bench.deadLetters.page(0, 10)).toMatchObject([{ id: 'n0', letter: { reason: 'rejected' } }]);
  expect(await queue.getFailedCount()).toBe(0);
});

const ids = (from: number, to: number) => Object.keys(manyLetters(to)).slice(from);

async function openWith(count: number): Promise<Bench> {
  const bench = open();
  await addDead(bench.deadQueue, manyLetters(count));
  return bench;
}

async function idsOf(pages: AsyncIterable<{ readonly id: string }[]>): Promise<string[]> {
  const seen: string[] = [];
  for await (const page of pages) seen.push(...page.map(({ id }) => id));
  return seen;
}

test('a walk sees all of them, oldest first', async () => {
  const { deadLetters } = await openWith(250);
  expect(await idsOf(deadLetters.walk())).toEqual(ids(0, 250));
});

test('a walk goes on where it was, whatever is taken away behind it or added before it', async () => {
  const { deadQueue, deadLetters } = await openWith(350);
  const seen: string[] = [];
  for await (const page of deadLetters.walk()) {
    seen.push(...page.map(({ id }) => id));
    if (seen.length === 100) for (const id of ids(0, 90)) await deadLetters.discard(id);
    if (seen.length === 200) for (const id of [...ids(92, 95), ...ids(150, 200)]) await deadLetters.discard(id);
    if (seen.length === 300)
      await addDead(deadQueue, Object.fromEntries(ids(350, 360).map((id) => [id, deadLetter(id)])));
  }
  expect(seen).toEqual(ids(0, 360));
});

test('a walk begins with the oldest that is left where all that it saw is gone', async () => {
  const { deadLetters } = await openWith(450);
  const seen: string[] = [];
  for await (const page of deadLetters.walk()) {
    seen.push(...page.map(({ id }) => id));
    for (const { id } of page) await deadLetters.discard(id);
  }
  expect(seen).toEqual(ids(0, 450));
});

test('ids without a job, a page and more of them, are no dead letters, and are taken out', async () => {
  const { deadQueue, deadLetters } = await openWith(0);
  const redis = connectRedis();
  await redis.lpush(deadQueue.toKey('wait'), ...ids(1_000, 1_150));
  await addDead(deadQueue, manyLetters(20));
  expect(await deadLetters.count()).toBe(170);
  expect(await idsOf(deadLetters.walk())).toEqual(ids(0, 20));
  expect(await deadLetters.count()).toBe(20);
});

test('what a newer version wrote is neither replayed nor discarded, and grows old like the others', async () => {
  const { deadQueue, deadLetters } = open();
  const buriedUntilMs = Date.now() + 60_000;
  const ofNextVersion = { format: 2, said: 'what only the next version understands' };
  const withNextNotification = deadLetter('b', { notification: { format: 2, recipientId: 'recipient-b' } });
  await addDead(deadQueue, { a: ofNextVersion, b: withNextNotification, c: deadLetter('c') });
  const [first, second] = await deadLetters.page(0, 2);
  for (const each of [present(first), present(second)]) {
    await expect(deadLetters.replay(each)).rejects.toThrow(NewerFormatError);
    expect(each.newer).toMatchObject({ format: 2 });
  }
  expect(present(first).letter.message).toContain('dead letter in format 2; this version reads format 1');
  expect(present(first).letter.deadAt).toBe(present(first).buriedAt);

  let newer = 0;
  const chosen: string[] = [];
  const which = ['a', 'b', 'c'].map((id) => ({ shard: 0, id }));
  for await (const { id } of walkChosen([deadLetters], { which, buriedUntilMs }, { onNewer: () => (newer += 1) }))
    chosen.push(id);
  expect({ chosen, newer }).toEqual({ chosen: ['c'], newer: 2 });

  const take = async ({ id }: { id: string }) => (await deadLetters.discard(id)) === 'discarded';
  expect(await takeAll([deadLetters], { which: {}, buriedUntilMs, take })).toMatchObject({
    seen: 3,
    taken: 1,
    newer: 2,
  });
  const [kept] = await deadQueue.getJobs(['wait'], 0, 0, true);
  expect(kept?.data).toEqual(ofNextVersion);
  expect(await deadLetters.count()).toBe(2);
});
