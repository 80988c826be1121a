import { expect, test } from 'vitest';
import { jobIdOf, notificationIdOf, replayIdOf } from '../../src/queue/names.ts';
import { consume, notification, openQueues } from './support.ts';

test('a notification id is the job id', () => {
  for (const id of ['msg-8841', '007', '1e3', 'a.b_c~d-e', '12345678901234567890']) expect(jobIdOf(id)).toBe(id);
});

test('what BullMQ refuses, or takes for a key of its own, is told apart by a #', () => {
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

test('BullMQ itself would swallow them', async () => {
  const { queue } = openQueues();
  await queue.getVersion();
  await queue.add('push', {}, { jobId: 'meta', priority: 10 });
  expect(await queue.getPrioritizedCount()).toBe(0);
  await expect(queue.add('push', {}, { jobId: '123' })).rejects.toThrow('integers');
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
