import { expect, test, vi } from 'vitest';
import fc from 'fast-check';
import {
  SLOTS,
  crc16,
  isUnprioritised,
  jobIdOf,
  KEEP_COMPLETED,
  notificationIdOf,
  protect,
  replayIdOf,
  shardOf,
  shardPrefixes,
} from '../../src/queue/names.ts';
import { consume, die, notification, openQueues, present } from './support.ts';
import { waitFor } from '../support/wait.ts';

test('a notification id is the job id', () => {
  for (const id of ['msg-8841', '007', '1e3', 'a.b_c~d-e', '12345678901234567890']) expect(jobIdOf(id)).toBe(id);
});

test('what BullMQ refuses, or takes for a key of its own, gets a #', () => {
  for (const id of ['0', '123', '-5', 'NaN', 'meta', 'id', 'wait', 'active', 'delayed', 'stalled-check', 'marker']) {
    expect(jobIdOf(id)).toBe(`#${id}`);
  }
});

test('a replay keeps the id and counts', () => {
  expect(replayIdOf('msg-1', 1)).toBe('msg-1#r1');
  expect(replayIdOf('msg-1#r1', 2)).toBe('msg-1#r2');
  expect(replayIdOf('msg-1#d1', 1)).toBe('msg-1#r1');
  expect(replayIdOf('#123', 1)).toBe('#123#r1');
});

test('every id that the schema allows goes through the queue, also names of BullMQ keys', async () => {
  const { prefix, queue } = openQueues();
  const ids = [...Object.keys(queue.keys).filter((key) => key !== ''), '1', '-1', '0', 'NaN', 'ordinary'];
  for (const id of ids) await queue.add('push', notification({ id }), { jobId: jobIdOf(id), priority: 10 });
  expect(await queue.getPrioritizedCount()).toBe(ids.length);

  const seen: string[] = [];
  const worker = consume(prefix, (job) => Promise.resolve(seen.push((job.data as { id: string }).id)));
  await new Promise<void>((resolve) => worker.on('completed', () => seen.length === ids.length && resolve()));
  expect(seen.sort()).toEqual(ids.sort());
});

test.each([
  ['msg-1', 'msg-1'],
  ['msg-1#r2', 'msg-1'],
  ['#123#r1', '123'],
  ['#meta', 'meta'],
  ['msg-1#d1#r3', 'msg-1'],
])('the notification of the job %s is %s', (jobId, id) => {
  expect(notificationIdOf(jobId)).toBe(id);
});

test('the hash is that of Redis Cluster', () => {
  expect(crc16('123456789')).toBe(0x31c3); // the check value of CRC-16/XMODEM
});

test.each(['{pushpacer}', '{push}', 'plain', '{Łódź 🎒}'])(
  'masters with equal ranges of slots have equal numbers of shards of %s, or differ by one',
  (prefix) => {
    const uneven: string[] = [];
    for (let shards = 1; shards <= 64; shards++) {
      const slots = shardPrefixes(prefix, shards).map(slotOf);
      for (let masters = 1; masters <= 16; masters++) {
        // As `redis-cli --cluster create` gives them.
        const last = (master: number): number => Math.round(((master + 1) * SLOTS) / masters) - 1;
        const counts = Array.from({ length: masters }, (_, master) => {
          const from = master === 0 ? 0 : last(master - 1) + 1;
          return slots.filter((slot) => slot >= from && slot <= last(master)).length;
        });
        if (Math.max(...counts) - Math.min(...counts) > 1) uneven.push(`${shards} on ${masters}: ${counts.join()}`);
      }
    }
    expect(uneven).toEqual([]);
  },
);

test('a prefix that was in use is not used again', () => {
  const [first = '', second = ''] = shardPrefixes('{push}', 2);
  const others = shardPrefixes('{push}', 2, new Set([first]));
  expect(others[0]).not.toBe(first);
  expect(others[1]).toBe(second);
});

test('a recipient has one shard, whoever asks, and all shards have recipients', () => {
  // Pinned: under another answer the same id would be two notifications while a release rolls out.
  expect(['teacher-42', 'teacher-43', 'Łukasz'].map((id) => shardOf(id, 16))).toEqual([5, 4, 2]);
  fc.assert(fc.property(fc.string(), (id) => shardOf(id, 1) === 0 && shardOf(id, 7) < 7 && shardOf(id, 7) >= 0));
  const shards = Array.from({ length: 8_000 }, (_, n) => shardOf(`teacher-${n}`, 8));
  for (let shard = 0; shard < 8; shard++) expect(shards.filter((each) => each === shard).length).toBeGreaterThan(700);
});

function slotOf(prefix: string): number {
  return crc16(/\{(.+?)\}/.exec(prefix)?.[1] ?? prefix) % SLOTS;
}

const FOREIGN = { removeOnFail: true, removeOnComplete: true, attempts: 5, lifo: true };

test('a job is protected from its producer’s removeOnFail', async () => {
  const { prefix, queue } = openQueues();
  consume(prefix, (job) => die(job)).on('active', protect);
  for (const removeOnFail of [true, 0, { count: 0 }, { age: 1, count: 1 }, 1])
    await queue.add('push', {}, { ...FOREIGN, removeOnFail });
  await waitFor(async () => expect(await queue.getFailedCount()).toBe(5));
});

test('also where it stalled too often, and never reaches the processor again', async () => {
  const { prefix, queue } = openQueues();
  await queue.add('push', notification({ id: 's' }), { jobId: 's', ...FOREIGN });
  const processor = vi.fn(() => new Promise<void>(() => undefined));
  const killed = consume(prefix, processor, { lockDuration: 200, skipLockRenewal: true, skipStalledCheck: true });
  await waitFor(() => expect(processor).toHaveBeenCalledOnce());
  await killed.close(true);

  const other = vi.fn(() => Promise.resolve());
  consume(prefix, other, { stalledInterval: 100, maxStalledCount: 0 }).on('active', protect);
  await vi.waitFor(async () => expect(await queue.getFailedCount()).toBe(1), { timeout: 10_000 });
  expect(other).not.toHaveBeenCalled();
  expect(present(await queue.getJob('s')).failedReason).toBe('job stalled more than allowable limit');
});

test('a job stays for an hour where its producer wanted it removed at once', async () => {
  const { prefix, queue } = openQueues();
  consume(prefix, () => Promise.resolve()).on('active', protect);
  for (const removeOnComplete of [true, 0, { count: 0 }]) await queue.add('push', {}, { ...FOREIGN, removeOnComplete });
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(3));
});

test('other jobs that ended stay, whatever the producer of one wanted', async () => {
  const { prefix, queue } = openQueues();
  consume(prefix, () => Promise.resolve()).on('active', protect);
  await queue.add('push', {}, { removeOnComplete: KEEP_COMPLETED });
  for (const removeOnComplete of [1, { age: 0 }, { count: 1 }])
    await queue.add('push', {}, { ...FOREIGN, removeOnComplete });
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(4));
});

test('a job without a priority is recognised', async () => {
  const { queue } = openQueues();
  expect(isUnprioritised(await queue.add('push', {}))).toBe(true);
  expect(isUnprioritised(await queue.add('push', {}, { priority: 0 }))).toBe(true);
  expect(isUnprioritised(await queue.add('push', {}, { priority: 10 }))).toBe(false);
});
