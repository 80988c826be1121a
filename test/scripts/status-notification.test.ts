import { expect, test, vi } from 'vitest';
import { main } from '../../scripts/status.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { consume, die, notification, openQueues, present } from '../queue/support.ts';
import { runMain } from '../support/command.ts';
import { queueEnv } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';

const MINUTE = 60_000;
/** The command names others as npm or npx was used to call it. */
const NOT_BY_NPM = { npm_command: undefined, npm_lifecycle_event: undefined };
const SECRETS = ['Room 12', 'Field trip', 'ab'.repeat(16), 's3cret'];

async function said(prefix: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runMain(main, args, { ...queueEnv(prefix), ...NOT_BY_NPM });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  for (const secret of SECRETS) expect(stdout).not.toContain(secret);
  return stdout;
}

async function told(prefix: string, id: string): Promise<unknown> {
  return JSON.parse((await said(prefix, id, '--json')).trimEnd().split('\n').at(-1) ?? '');
}

test('an id that nobody knows, and one that none can have', async () => {
  const { prefix } = openQueues();
  expect(await said(prefix, 'msg-1')).toContain(
    'unknown: no notification has this id, or it ended more than an hour ago',
  );
  expect(await told(prefix, 'msg-1')).toMatchObject({ id: 'msg-1', state: 'unknown' });
  const bad = await runMain(main, ['a b'], queueEnv(prefix));
  expect(bad).toMatchObject({ code: 2, stdout: '' });
  expect(bad.stderr).toBe('error: ID: expected 1 to 128 of A-Z a-z 0-9 . _ ~ -, found "a b"\n');
});

test('a new one: whose it is, and how many are taken before it', async () => {
  const { prefix, queue } = openQueues();
  await queue.add('push', notification({ id: 'first' }), { jobId: 'first', priority: 10 });
  const fields = { id: '123', category: 'messages', data: { key: 's3cret' } };
  await queue.add('push', notification(fields), { jobId: '#123', priority: 10 });
  const text = await said(prefix, '123');
  expect(text).toMatch(/^123, job #123\n/);
  expect(text).toMatch(/\nstate +waits for a worker; 1 are taken before it\n/);
  expect(text).toMatch(/\nrecipient +teacher-42\n/);
  expect(text).toMatch(/\ncategory +messages\n/);
  expect(text).toMatch(/\ndevices +apns#0 to do\n/);
  expect(await told(prefix, '123')).toMatchObject({
    ...{ id: '123', state: 'waiting', ahead: 1, jobId: '#123', recipientId: 'teacher-42', category: 'messages' },
    ...{ attempts: 0, requeues: 0, devices: { 'apns#0': 'to do' }, failures: [] },
  });
});

test('a job whose data has another id', async () => {
  const { prefix, queue } = openQueues();
  await queue.add('push', notification({ id: 'msg-1' }), { jobId: 'job-17', priority: 10 });
  expect(await said(prefix, 'job-17')).toMatch(/^job-17\n.*\nnotification +msg-1, by its data\n/s);
  expect(await told(prefix, 'job-17')).toMatchObject({ id: 'job-17', notificationId: 'msg-1' });
});

test('one that waits, with the attempts that failed', async () => {
  const { prefix, queue } = openQueues();
  const job = await queue.add('push', notification({ id: 'a' }), { jobId: 'a', delay: 10 * MINUTE });
  const attempts = [{ at: Date.now() - 1_000, device: 'apns#0', error: 'InternalServerError' }];
  await job.updateProgress({ rule: 'gap', requeues: 2, tries: 1, attempts });
  const text = await said(prefix, 'a');
  expect(text).toMatch(/\nstate +waits until .*, by gap\n/);
  expect(text).toMatch(/\nattempts +1\n/);
  expect(text).toMatch(/\nrequeues +2\n/);
  expect(text).toMatch(/\nFailed attempts, the newest last\n.* apns#0 +InternalServerError\n/);
  expect(await told(prefix, 'a')).toMatchObject({ state: 'waiting', rule: 'gap', failures: attempts });
});

test('one that a worker has, and what became of it', async () => {
  const bench = await openReplicaBench();
  const replica = await bench.startHere();
  bench.sandbox.setAnswers([{ platform: 'apns', answer: 'accept', delay: '3s', times: 1 }]);
  await bench.producer.enqueue(notification({ id: 'a' }));
  await vi.waitFor(async () => expect(await bench.queue.getActiveCount()).toBe(1), 10_000);
  expect(await told(bench.prefix, 'a')).toMatchObject({
    ...{ state: 'sending', worker: { id: replica.workerIds[0], pid: process.pid, alive: true } },
  });
  expect(await said(bench.prefix, 'a')).toMatch(/\nstate +a worker has it: .*, process \d+, version /);
  await vi.waitFor(async () => expect(await bench.queue.getCompletedCount()).toBe(1), { timeout: 10_000 });
  const text = await said(bench.prefix, 'a');
  expect(text).toMatch(/\nstate +delivered, .* ago\)\n/);
  expect(text).toMatch(/\nsent +.* ago\)\nwait +/);
  expect(text).toMatch(/\ndevices +apns#0 delivered\n/);
});

test('a dead letter, and its replay', async () => {
  const { prefix, queue, deadQueue } = openQueues();
  await queue.add('push', notification({ id: 'a' }), { jobId: 'a', priority: 10 });
  const worker = consume(prefix, (job) => die(job));
  await vi.waitFor(async () => expect(await queue.getFailedCount()).toBe(1), { timeout: 10_000 });
  await worker.close();
  const letters = createDeadLetters({ queue, deadQueue });
  await letters.bury('a');
  const text = await said(prefix, 'a');
  expect(text).toMatch(/\nstate +dead letter: rejected, .*; more: pushpacer dead-letters show a\n/);
  expect(text).toMatch(/\nmessage +rejected by the provider\n/);
  expect(text).toContain('InternalServerError');
  expect(await told(prefix, 'a')).toMatchObject({ state: 'dead-lettered', recipientId: 'teacher-42', jobId: 'a' });
  await letters.replay(present(await letters.find('a')));
  expect(await told(prefix, 'a')).toMatchObject({ state: 'waiting', jobId: 'a#r1' });
  expect(await said(prefix, 'a')).toMatch(/^a, job a#r1\n/);
});

test('text of an unknown author cannot reach the terminal', async () => {
  const { prefix, queue } = openQueues();
  const fields = { id: 'a', recipientId: 'x\u001b[2J', category: 'y\u001b[2J' };
  await queue.add('push', notification(fields), { jobId: 'a', delay: MINUTE, timestamp: 1 });
  for (const text of [await said(prefix, 'a'), await said(prefix)]) {
    expect(text).not.toContain('\u001b');
    expect(text).toContain('x\\u{1b}[2J');
  }
});
