import { setTimeout as sleep } from 'node:timers/promises';
import { DelayedError, Queue, Worker, type Job } from 'bullmq';
import { expect, it, onTestFinished } from 'vitest';
import { tokenOf } from '../../src/notification/device.ts';
import { createProcessor, type ProcessorParts } from '../../src/delivery/deliver.ts';
import type { Watcher } from '../../src/delivery/context.ts';
import type { DeliverParts } from '../../src/delivery/parts.ts';
import { createPassCounter, createPassLog } from '../../src/delivery/watch.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { NewerFormatError } from '../../src/domain/format.ts';
import { createLog } from '../../src/observe/log.ts';
import { createCancellationIndex, type KeyPlace } from '../../src/queue/cancellation-index.ts';
import { ANOTHER_HAS_IT, createJobLock } from '../../src/queue/job-lock.ts';
import { cancellationIndexKey, QUEUE } from '../../src/queue/names.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { newLayout } from '../../src/queue/shards/layout.ts';
import { lockOf, lostAfter, openBench, place } from './support.ts';

/** A plain BullMQ worker with our processor, over a pipeline of real parts but for what is overridden. */
async function openProcessor(overrides: Partial<DeliverParts>, ...watchers: readonly Watcher[]) {
  const { parts, sandbox, limiter } = await openBench({ platforms: ['apns'] });
  const prefix = testPrefix();
  const queue = new Queue(QUEUE, { connection: connectRedis(), prefix });
  const lines: string[] = [];
  const ignore = () => undefined;
  const redis = connectRedis();
  const notes = createCancellationIndex(redis, () => newLayout({ prefix, shards: 1 }));
  const index = {
    ...notes,
    ids: ({ recipientId, cancellationKey }: KeyPlace) =>
      redis.zrange(cancellationIndexKey(prefix, recipientId, cancellationKey), '0', '-1'),
  };
  const counted = { newer: 0 };
  const processorParts: ProcessorParts = {
    ...parts,
    now: Date.now, // as BullMQ
    ...overrides,
    watchers: [
      ...watchers,
      createPassCounter({
        passEnded: ignore,
        woken: ignore,
        unprioritised: ignore,
        newerJob: () => (counted.newer += 1),
        withoutCredentials: ignore,
      }),
      createPassLog({
        log: createLog('info', { write: (line) => void lines.push(line) }),
        retry: parts.retry,
        onLockLost: ignore,
      }),
    ],
    index,
    signal: new AbortController().signal,
  };
  const { process } = createProcessor(processorParts);
  const lockMs = 30_000;
  const handle = (job: Job, token = '') => process(job, createJobLock(job, token, { queue, lockMs }), place);
  const worker = new Worker(QUEUE, handle, { connection: connectRedis(), prefix, lockDuration: lockMs });
  onTestFinished(async () => {
    await worker.close();
    await queue.close();
  });
  return { process, queue, sandbox, limiter, lines, counted, index };
}

function failingLimiter(error: Error): DeliverParts['limiter'] {
  const fail = () => Promise.reject(error);
  const asks = { admit: fail, peek: fail, moveUp: fail, foreseeFirst: fail };
  return { ...asks, ...{ refundAt: fail, release: fail, forget: fail } };
}

/** As `failingLimiter`, and when it was asked for a slot. */
function timedLimiter(error: Error) {
  const askedAt: number[] = [];
  const admit = () => {
    askedAt.push(Date.now());
    return Promise.reject(error);
  };
  return { askedAt, limiter: { ...failingLimiter(error), admit } };
}

/** A job whose first pass finds this progress, however long the machine takes to write it. */
async function addWithProgress(queue: Queue, data: object, progress: object | undefined): Promise<Job> {
  await queue.pause();
  const job = await queue.add('push', data);
  if (progress !== undefined) await job.updateProgress(progress);
  await queue.resume();
  return job;
}

/** A quota that does not answer the first ask, and has room. */
function quotaAwayOnce(): DeliverParts['quotas'] {
  let asks = 0;
  const take = () => {
    asks += 1;
    if (asks === 1) return Promise.reject(new LimiterUnavailableError('away'));
    return Promise.resolve({ kind: 'taken', useBy: Infinity } as const);
  };
  return new Map([['apns', { take }]]);
}

it('keeps a notification while the limiter does not answer: nothing is sent, no attempt is spent', async () => {
  const { queue, lines, sandbox } = await openProcessor({
    limiter: failingLimiter(new LimiterUnavailableError('away')),
  });
  const job = await queue.add('push', makeNotification());
  await waitFor(async () => expect(await job.getState()).toBe('delayed'));
  expect(lines.join()).toContain('"code":"limiter-unavailable","attempts":0');
  expect(sandbox.journal.accepted).toEqual([]);
});

it('keeps one slot, not two, where the quota does not answer after the slot was taken', async () => {
  const { queue, lines, sandbox, limiter } = await openProcessor({ quotas: quotaAwayOnce() });
  const job = await queue.add('push', makeNotification({ recipientId: 'teacher-7' }));
  await waitFor(async () => expect(await job.getState()).toBe('completed'));
  expect(lines.join()).toContain('"code":"limiter-unavailable","attempts":0');
  expect(sandbox.journal.accepted).toHaveLength(1);
  expect((await limiter.inspect('teacher-7')).sent).toHaveLength(1);
});

it('retries after an error that nothing foresaw, says where it came from, and shows neither token nor text', async () => {
  const notification = makeNotification({ alert: { body: 'A private word' } });
  const secret = notification.devices.map(tokenOf).join();
  const error = new TypeError(`cannot read ${secret} of "A private word"`);
  const { queue, lines } = await openProcessor({ limiter: failingLimiter(error) });
  const job = await queue.add('push', notification);
  await waitFor(async () => expect(await job.getState()).toBe('failed'));
  const failed = await queue.getJob(job.id ?? '');
  const stored = JSON.stringify([failed?.progress, failed?.failedReason, lines]);
  expect(failed?.progress).toMatchObject({ tries: 3, dead: { reason: 'attempts-exhausted' } });
  expect(stored).toContain('cannot read [redacted] of');
  expect(stored).not.toContain(secret);
  expect(stored).not.toContain('A private word');
  const line = lines.find((each) => /unexpected error; attempt 1 of 3, retry in \d\.\d s/.test(each)) ?? '{}';
  expect(JSON.parse(line)).toMatchObject({
    error: 'TypeError: cannot read [redacted] of "[redacted]"',
    where: expect.arrayContaining([expect.stringContaining('processor.test.ts')]) as string[],
  });
});

it('waits also where the job has come back before: a limiter that is away is not asked at once, again and again', async () => {
  const error = new LimiterUnavailableError('away');
  const { askedAt, limiter } = timedLimiter(error);
  const { queue } = await openProcessor({ limiter });
  await addWithProgress(queue, makeNotification(), { requeues: 1, dueAt: Date.now() });
  await waitFor(() => expect(askedAt.length).toBeGreaterThan(1));
  expect((askedAt[1] ?? 0) - (askedAt[0] ?? 0)).toBeGreaterThan(300);
});

it('sends nothing again where the refund after it fails in a way that nothing foresaw', async () => {
  const { limiter } = await openBench({ platforms: ['apns'] });
  let failures = 0;
  const refundAt = () => {
    failures += 1;
    return Promise.reject(new TypeError('unforeseen'));
  };
  const { queue, sandbox, lines } = await openProcessor({ limiter: { ...limiter, refundAt } });
  const notification = makeNotification();
  const token = notification.devices.map(tokenOf).join();
  sandbox.apns.script(token, [{ kind: 'refuse', status: 410, reason: 'Unregistered' }]);
  const job = await queue.add('push', notification);
  await waitFor(async () => expect(await job.getState()).toBe('failed'));
  expect(failures).toBeGreaterThan(0);
  expect(sandbox.journal.all.filter((entry) => entry.token === token)).toHaveLength(1);
  expect(lines.join()).not.toContain('unexpected-error');
});

it.each([
  ['data', { format: 2, whom: 'teacher-42' }, undefined],
  ['progress', makeNotification(), { format: 2, handled: { 'apns#0': 'delivered' } }],
])('puts a job back whose %s a newer version wrote, again and again, and leaves it as it is', async (...row) => {
  const [what, data, progress] = row;
  const { queue, sandbox, lines, counted } = await openProcessor({ random: () => 0 });
  const job = await addWithProgress(queue, data, progress);
  await waitFor(() => expect(counted.newer).toBeGreaterThanOrEqual(2));
  await waitFor(async () => expect(await job.getState()).toBe('delayed'));
  const kept = await queue.getJob(job.id ?? '');
  expect(kept).toMatchObject({ data, progress: progress ?? 0, attemptsMade: 0 });
  expect(sandbox.journal.accepted).toEqual([]);
  expect(lines.filter((line) => line.includes('a newer version of pushpacer wrote'))).toHaveLength(1);
  expect(lines.join()).toContain(`job ${what} in format 2; this version reads format 1`);
  expect(lines.join()).not.toContain('"outcome"');
});

it('puts a job back while a newer version wrote what the limiter needs, and sends it when it can be read', async () => {
  const { limiter } = await openBench({ platforms: [] });
  let asks = 0;
  const admit: DeliverParts['limiter']['admit'] = (ask) => {
    asks += 1;
    return asks === 1 ? Promise.reject(new NewerFormatError({ what: 'limiter state', format: 2 })) : limiter.admit(ask);
  };
  const { queue, sandbox, lines, counted } = await openProcessor({ limiter: { ...limiter, admit }, random: () => 0 });
  const job = await queue.add('push', makeNotification());
  await waitFor(async () => expect(await job.getState()).toBe('completed'));
  expect(sandbox.journal.accepted).toHaveLength(1);
  expect(counted.newer).toBe(1);
  expect(lines.join()).toContain('"outcome":"delivered"');
  expect(lines.join()).toContain('"attempts":1');
});

it('tells a watcher of each pass in order, and waits for it before the progress is saved and the job completed', async () => {
  const seen: unknown[] = [];
  const { queue } = await openProcessor(
    { quotas: quotaAwayOnce() },
    {
      taken: ({ before }) => void seen.push(['taken', before.traceparent]),
      async ended(context, { kind }, { attempts }) {
        await sleep(20);
        context.progress = { ...context.progress, traceparent: kind };
        seen.push(['ended', kind, attempts]);
      },
      async completing({ jobId, progress }, { outcome }) {
        await sleep(20);
        seen.push(['completing', outcome, progress.traceparent, await queue.getJobState(jobId)]);
      },
    },
  );
  const job = await queue.add('push', makeNotification());
  await waitFor(async () => expect(await job.getState()).toBe('completed'));
  expect(seen).toEqual([
    ['taken', undefined],
    ['ended', 'deferred', 0],
    ['taken', 'deferred'],
    ['ended', 'delivered', 1],
    ['completing', 'delivered', 'delivered', 'active'],
  ]);
});

it('tells a watcher if Redis does not take the result of a pass', async () => {
  const error = new Error('no longer the owner');
  const seen: string[] = [];
  const { process, queue } = await openProcessor(
    { limiter: failingLimiter(new LimiterUnavailableError('away')) },
    {
      ended: (_, { kind }) => void seen.push(kind),
      notAcked: (_, thrown) => void seen.push((thrown as Error).message),
      completing: () => Promise.reject(new Error('not to be called')),
    },
  );
  await queue.pause();
  const job = await queue.add('push', makeNotification());
  await expect(process(job, { ...lockOf(), putBack: () => Promise.reject(error) }, place)).rejects.toThrow(
    DelayedError,
  );
  expect(seen).toEqual(['deferred', error.message]);
});

it.each([
  ['before the pass ends', 1, ['yielded'], false],
  ['while its end is logged', 2, ['expired', ANOTHER_HAS_IT], false],
  ['while its key is noted', 3, ['expired', ANOTHER_HAS_IT], true],
  ['never', Infinity, ['expired', 'completing'], true],
])('writes no end of one that was not sent if its lock is lost: %s', async (_, looks, expected, isNoted) => {
  const seen: string[] = [];
  const { process, queue, index } = await openProcessor(
    {},
    {
      ended: (_, { kind }) => void seen.push(kind),
      notAcked: (_, thrown) => void seen.push((thrown as Error).message),
      completing: () => Promise.resolve(void seen.push('completing')),
    },
  );
  await queue.pause();
  const notification = makeNotification({ expiresAt: Date.now() - 1, cancellationKey: 'trip-77' });
  const job = await queue.add('push', notification);
  const place77 = { recipientId: notification.recipientId, cancellationKey: 'trip-77' };
  await index.waits(place77, job.id ?? '', 60_000);
  const processed = process(job, lostAfter(looks), place);
  if (looks === Infinity) await processed;
  else await expect(processed).rejects.toThrow(DelayedError);
  expect(seen).toEqual(expected);
  expect(await index.ids(place77)).toEqual(isNoted ? [] : [job.id]);
});
