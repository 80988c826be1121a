import { expect, onTestFinished, test } from 'vitest';
import { main } from '../../scripts/cancel.ts';
import { createProducer } from '../../src/queue/producer.ts';
import { notification, openQueues } from '../queue/support.ts';
import { runMain } from '../support/command.ts';
import { queueEnv, testRedisUrl } from '../support/redis.ts';

function openCommand() {
  const { prefix, queue } = openQueues();
  const producer = createProducer({ redisUrl: testRedisUrl(), prefix });
  onTestFinished(() => producer.close());
  const cancel = (...args: string[]) => runMain(main, args, queueEnv(prefix));
  return { queue, producer, cancel };
}

test('cancels by id, and says the same when it is repeated', async () => {
  const { producer, cancel } = openCommand();
  await producer.enqueue(notification({ id: 'msg-1' }));
  const canceled = { code: 0, stdout: 'canceled 1\n', stderr: '' };
  expect(await cancel('--id', 'msg-1')).toEqual(canceled);
  expect(await cancel('--id', 'msg-1')).toEqual(canceled);
});

test('cancels all that wait under a key', async () => {
  const { producer, cancel } = openCommand();
  const input = notification({ cancellationKey: 'trip-77' });
  await producer.enqueueMany([input, input, notification()]);
  const args = ['--recipient', input.recipientId, '--key', 'trip-77', '--json'];
  expect(await cancel(...args)).toEqual({ code: 0, stdout: '{"canceled":2,"tooLate":0}\n', stderr: '' });
});

test('says what is not there, and what it is too late for', async () => {
  const { queue, cancel } = openCommand();
  expect((await cancel('--id', 'msg-1')).stdout).toBe(
    'canceled 0: no notification with the id msg-1 waits, or ended within the last hour\n',
  );
  expect((await cancel('--recipient', 'teacher-42', '--key', 'trip-77')).stdout).toBe(
    'canceled 0: nothing waits for teacher-42 under trip-77\n',
  );
  const job = await queue.add('push', notification(), { jobId: 'msg-2', delay: 60_000 });
  await job.updateProgress({ devices: { 'apns#0': 'delivered' } });
  expect((await cancel('--id', 'msg-2')).stdout).toBe(
    'canceled 0; too late for 1, which is being sent, may have alerted a device, or has ended\n',
  );
});

test.each([
  [[], 'expected --id, or --recipient and --key together'],
  [['--id', 'msg-1', '--key', 'trip-77'], 'expected --id, or --recipient and --key together'],
  [['--recipient', 'teacher-42'], 'expected --id, or --recipient and --key together'],
  [['--id', 'a b'], '--id: expected 1 to 128 of A-Z a-z 0-9 . _ ~ -, found "a b"'],
  [['--recipient', 'teacher-42', '--key', ''], '--key: expected 1 to 128 printable characters, found ""'],
])('%j is bad usage', async (args, message) => {
  const { cancel } = openCommand();
  const exit = await cancel(...args);
  expect(exit).toMatchObject({ code: 2, stdout: '' });
  expect(exit.stderr).toContain(message);
});
