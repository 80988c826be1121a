import { expect, test, vi } from 'vitest';
import { main } from '../../scripts/status.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { consume, die, notification, openQueues, present } from '../queue/support.ts';
import { outputOf, runMain } from '../support/command.ts';
import { queueEnv } from '../support/redis.ts';

const MINUTE = 60_000;
const SECRETS = ['Room 12', 'Field trip', 'ab'.repeat(16), 's3cret'];

/** A queue, and what the command says of it: as text, and as JSON. */
function open() {
  const queues = openQueues();
  const said = async (...args: string[]): Promise<string> => {
    const stdout = await outputOf(runMain(main, args, queueEnv(queues.prefix)));
    for (const secret of SECRETS) expect(stdout).not.toContain(secret);
    return stdout;
  };
  const statusOf = async (id: string) => JSON.parse(await said(id, '--json')) as unknown;
  return { ...queues, said, statusOf };
}

test('an id that nobody knows, and one that none can have', async () => {
  const { prefix, said, statusOf } = open();
  expect(await said('msg-1')).toContain('unknown: no notification has this id, or it ended more than an hour ago');
  expect(await statusOf('msg-1')).toMatchObject({ id: 'msg-1', state: 'unknown' });
  const stderr = 'error: ID: expected 1 to 128 of A-Z a-z 0-9 . _ ~ -, found "a b"\n';
  expect(await runMain(main, ['a b'], queueEnv(prefix))).toEqual({ code: 2, stdout: '', stderr });
});

test('a new one: whose it is, and how many are taken before it', async () => {
  const { queue, said, statusOf } = open();
  await queue.add('push', notification({ id: 'first' }), { jobId: 'first', priority: 10 });
  const fields = { id: '123', category: 'messages', data: { key: 's3cret' } };
  await queue.add('push', notification(fields), { jobId: '#123', priority: 10 });
  const text = await said('123');
  expect(text).toMatch(/^123, job #123\n/);
  expect(text).toMatch(/\nstate +waits for a worker; 1 is taken before it\n/);
  expect(text).toMatch(/\nrecipient +teacher-42\n/);
  expect(text).toMatch(/\ncategory +messages\n/);
  expect(text).toMatch(/\ndevices +apns#0 to do\n/);
  expect(await statusOf('123')).toMatchObject({
    ...{ id: '123', state: 'waiting', ahead: 1, jobId: '#123', recipientId: 'teacher-42', category: 'messages' },
    ...{ attempts: 0, requeues: 0, devices: { 'apns#0': 'to do' }, failures: [] },
  });
});

test('one that waits, with the attempts that failed, in a job whose data has another id', async () => {
  const { queue, said, statusOf } = open();
  const job = await queue.add('push', notification({ id: 'msg-1' }), { jobId: 'job-17', delay: 10 * MINUTE });
  const attempts = [{ at: Date.now() - 1_000, device: 'apns#0', error: 'InternalServerError' }];
  await job.updateProgress({ rule: 'gap', requeues: 2, tries: 1, attempts });
  const text = await said('job-17');
  expect(text).toMatch(/^job-17\n[^]*\nnotification +msg-1, by its data\n/);
  expect(text).toMatch(/\nstate +waits until .*, by gap\n/);
  expect(text).toMatch(/\nattempts +1\n/);
  expect(text).toMatch(/\nrequeues +2\n/);
  expect(text).toMatch(/\nFailed attempts, the newest last\n.* apns#0 +InternalServerError\n/);
  const known = { notificationId: 'msg-1', state: 'waiting', rule: 'gap', failures: attempts };
  expect(await statusOf('job-17')).toMatchObject(known);
});

test('one that a worker has, and what became of it', async () => {
  const { prefix, queue, said, statusOf } = open();
  await queue.add('push', notification({ id: 'a' }), { jobId: 'a', priority: 10 });
  const answer = Promise.withResolvers<object>();
  const worker = consume(prefix, () => answer.promise);
  await expect.poll(() => queue.getActiveCount()).toBe(1);
  expect(await said('a')).toMatch(/\nstate +a worker has it/);
  expect(await statusOf('a')).toMatchObject({ state: 'sending' });
  const now = Date.now();
  answer.resolve({ outcome: 'delivered', sentAt: now, waitMs: 5_000, devices: { 'apns#0': 'delivered' } });
  await expect.poll(() => queue.getCompletedCount()).toBe(1);
  await worker.close();
  const text = await said('a');
  expect(text).toMatch(/\nstate +delivered, .* ago\)\n/);
  expect(text).toMatch(/\nsent +.* ago\)\nwait +/);
  expect(text).toMatch(/\ndevices +apns#0 delivered\n/);
  expect(await statusOf('a')).toMatchObject({ outcome: 'delivered' });
});

test('a dead letter, and its replay', async () => {
  const { prefix, queue, deadQueue, said, statusOf } = open();
  await queue.add('push', notification({ id: 'a' }), { jobId: 'a', priority: 10 });
  const worker = consume(prefix, (job) => die(job));
  await vi.waitFor(async () => expect(await queue.getFailedCount()).toBe(1), { timeout: 10_000 });
  await worker.close();
  const letters = createDeadLetters({ queue, deadQueue });
  await letters.bury('a');
  const text = await said('a');
  expect(text).toMatch(/\nstate +dead letter: rejected, .*; more: .*dead-letters .*show a\n/);
  expect(text).toMatch(/\nmessage +rejected by the provider\n/);
  expect(text).toContain('InternalServerError');
  expect(await statusOf('a')).toMatchObject({ state: 'dead-lettered', recipientId: 'teacher-42', jobId: 'a' });
  await letters.replay(present(await letters.find('a')));
  expect(await statusOf('a')).toMatchObject({ state: 'waiting', jobId: 'a#r1' });
  expect(await said('a')).toMatch(/^a, job a#r1\n/);
});

test('text of an unknown author cannot reach the terminal', async () => {
  const { queue, said } = open();
  const fields = { id: 'a', recipientId: 'x\u001b[2J', category: 'y\u001b[2J' };
  await queue.add('push', notification(fields), { jobId: 'a', delay: MINUTE, timestamp: 1 });
  for (const text of [await said('a'), await said()]) {
    expect(text).not.toContain('\u001b');
    expect(text).toContain('x\\u{1b}[2J');
  }
});
