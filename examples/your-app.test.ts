// Tests of an app that enqueues with pushpacer, without an account at Apple or Google: an empty Redis, the sandbox, a worker.
// In your project: npm install pushpacer && npm install --save-dev vitest, a redis-server on the PATH, then: npx vitest run
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { createProducer, type Device, type Producer } from 'pushpacer';
import { NO_LATENCY, startEmbeddedRedis, startSandbox } from 'pushpacer/sandbox';
import { afterAll, beforeEach, expect, test, vi } from 'vitest';

vi.setConfig({ testTimeout: 30_000 }); // longer than what is waited for below, also on a busy machine

/** Your app: a parent wrote to a teacher. */
async function tellTeacher(
  producer: Producer,
  teacher: string,
  device: Device,
  text: string,
): Promise<string> {
  const alert = { title: 'Message from a parent', body: text };
  const { id } = await producer.enqueue({ recipientId: teacher, devices: [device], alert });
  return id;
}

// Everything below ends after the last test, in the opposite order.
const stage = new AsyncDisposableStack();
afterAll(() => stage.disposeAsync());

const redis = stage.use(await startEmbeddedRedis());
const sandbox = stage.use(await startSandbox({ latency: NO_LATENCY }));
const environment = {
  ...process.env,
  ...sandbox.env(), // points the worker at the sandbox
  REDIS_URL: redis.url,
  METRICS_PORT: 'off',
  LIMIT_MIN_GAP: '50ms', // your own limits belong in a test of their own
  BACKOFF_BASE: '100ms',
};
const PUSHPACER = 'node_modules/.bin/pushpacer';
stage.adopt(await startWorker(), async (worker) => {
  if (worker.kill('SIGTERM')) await once(worker, 'exit');
});
const producer = createProducer({ redisUrl: redis.url });
stage.defer(() => producer.close());

beforeEach(() => {
  sandbox.setAnswers([]);
  sandbox.journal.clear();
});

test('the teacher gets the message', async () => {
  const device = { platform: 'apns', token: 'ab01' } as const;
  const id = await tellTeacher(producer, 'teacher-1', device, 'We are running ten minutes late');
  const [alert] = await sandbox.journal.waitFor(1);
  expect(alert).toMatchObject({
    ...device,
    title: 'Message from a parent',
    body: 'We are running ten minutes late',
  });
  expect(sandbox.journal.of(id)).toEqual([alert]);
});

test('a device that is gone becomes a dead letter', async () => {
  const device = { platform: 'apns', token: 'ab02' } as const;
  sandbox.setAnswers([{ ...device, status: 410 }]);
  const id = await tellTeacher(producer, 'teacher-2', device, 'She has a cold');
  const letter = { id, reason: 'unregistered' };
  await expect.poll(deadLetters, { timeout: 20_000 }).toMatchObject([letter]);
  const [request] = sandbox.journal.of(id);
  expect(request).toMatchObject({ accepted: false, status: 410, reason: 'Unregistered' });
});

test('a short overload only delays the message', async () => {
  const device = { platform: 'fcm', token: 'a-registration-token' } as const;
  sandbox.setAnswers([{ ...device, status: 503, retryAfter: '1s', times: 1 }]);
  const id = await tellTeacher(producer, 'teacher-3', device, 'He forgot his bag');
  await sandbox.journal.waitFor(1);
  const [first, second] = sandbox.journal.of(id);
  expect(first).toMatchObject({ accepted: false, status: 503 });
  expect(second).toMatchObject({ accepted: true, body: 'He forgot his bag' });
});

/** A worker process that consumes. */
async function startWorker() {
  const worker = spawn(process.execPath, [PUSHPACER, 'worker'], {
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'], // with the channel it ends even if the test is killed
  });
  const log = worker.stdout;
  if (log !== null) {
    for await (const line of createInterface(log)) {
      if (!line.includes('"msg":"ready"')) continue;
      log.resume(); // nobody reads the rest
      return worker;
    }
  }
  throw new Error('the worker ended before it was ready');
}

/** The dead letters, with their reasons. */
async function deadLetters(): Promise<unknown> {
  const args = [PUSHPACER, 'dead-letters', '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: environment });
  return (JSON.parse(stdout) as { deadLetters: unknown }).deadLetters;
}
