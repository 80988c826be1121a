import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { loadCommand } from '../../scripts/support/commands.ts';
import { createProducer, type ProducerOptions } from '../../src/producer/producer.ts';
import { openApi, type Answer } from './api.ts';
import { runMain } from './command.ts';
import { openConsole } from './console.ts';
import { temporaryFolder } from './program.ts';
import { makeDevice, makeNotification } from './push.ts';
import { openReplicaBench } from './replica.ts';
import { waitFor } from './wait.ts';

/** Options of a worker that make it use every part of Redis that it can use. */
const WITH_EVERYTHING = {
  ...{ LIMIT_MIN_GAP: '200ms', OUTCOMES_MAX: '1000', HISTORY_MAX: '1000', APNS_QUOTA: '900/1m' },
  ...{ LOCK_DURATION: '1s', BACKOFF_BASE: '100ms', ATTEMPTS: '2', DEAD_LETTER_MAX_COUNT: '3', METRICS_PORT: '0' },
};

/** Where everything is done. */
export interface EverythingOptions {
  /** Variables of the worker, the commands and the servers: REDIS_URL, QUEUE_PREFIX, and whatever else they need. */
  readonly env: Readonly<Record<string, string>>;
  /** The same for a producer. */
  readonly target: ProducerOptions;
  /** Asserts that the API has read the stream of outcomes: it has no end. */
  readonly outcomesRead?: () => void;
}

/** Everything that pushpacer can do, once: a worker, a producer, each command, the HTTP API and the console. All has to succeed. */
export async function doEverything({ env, target, outcomesRead }: EverythingOptions): Promise<void> {
  const folder = await temporaryFolder();
  const limits = join(folder, 'limits.json');
  const quietHours = [{ from: '03:00', until: '03:01' }];
  await writeFile(
    limits,
    JSON.stringify({ categories: { news: { rules: '9/1h' } }, timezone: 'Asia/Tokyo', quietHours }),
  );
  const bench = await openReplicaBench();
  const replica = await bench.startHere({ ...WITH_EVERYTHING, LIMITS_FILE: limits, ...env });
  const producer = createProducer(target);
  onTestFinished(() => producer.close());
  const run = async (name: string, ...args: string[]): Promise<string> => {
    const main = await loadCommand(name);
    if (main === undefined) throw new TypeError(`no command ${name}`);
    const exit = await runMain(main, args, {
      QUEUE_SHARDS: undefined,
      ALLOW_NO_CREDENTIALS: 'true',
      REDIS_CLUSTER: undefined,
      ...env,
    });
    expect({ name, args, ...exit }).toMatchObject({ name, args, code: 0, stderr: '' });
    return exit.stdout;
  };
  const total = async (): Promise<unknown> =>
    (JSON.parse(await run('dead-letters', '--json')) as { total: number }).total;

  // Paced, merged, waiting, canceled, and in a broadcast.
  for (let at = 0; at < 4; at++) await producer.enqueue(makeNotification({ id: `n${at}`, category: 'news' }));
  const hourAhead = Date.now() + 3_600_000;
  await producer.enqueue(makeNotification({ id: 'late', sendAfter: hourAhead, cancellationKey: 'lesson' }));
  const latest = { recipientId: 'latest', collapseId: 'score', onThrottle: 'latest' as const };
  for (let at = 0; at < 3; at++) await producer.enqueue(makeNotification({ id: `l${at}`, ...latest }));
  const digest = { onThrottle: 'digest' as const, digest: { key: 'k', title: 'Class 7b', body: '{{count}} new' } };
  for (let at = 0; at < 3; at++) {
    await producer.enqueue(makeNotification({ id: `g${at}`, recipientId: 'digest', ...digest }));
  }
  for (let at = 0; at < 2; at++) {
    const push = { id: `p${at}`, recipientId: 'apart', devices: [makeDevice()], data: { a: '1' } };
    await producer.enqueue({ ...push, pushType: 'background' });
  }
  const file = join(folder, 'f.ndjson');
  await writeFile(file, JSON.stringify(makeNotification({ id: 'b1' })));
  await run('enqueue', '--file', file, '--broadcast', 'term-start');
  await run('cancel', '--recipient', 'teacher-42', '--key', 'lesson');
  // What an operator does.
  await run('recipient', 'block', 'blocked', '--for', '1h', '--reason', 'asked');
  await producer.enqueue(makeNotification({ id: 'held', recipientId: 'blocked', category: 'news' }));
  await waitFor(async () => expect(await producer.status('held')).toMatchObject({ rule: 'block' }));
  await run('why', 'held');
  await run('recipient', 'show', 'blocked');
  await run('recipient', 'limit', 'blocked', '--rules', '5/1m');
  const times = ['--from', '21:00', '--until', '07:00', '--timezone', 'Asia/Tokyo'];
  await run('recipient', 'quiet', 'blocked', ...times);
  await run('recipient', 'unquiet', 'blocked');
  await run('recipient', 'unblock', 'blocked');
  await run('recipient', 'reset', 'blocked');
  await run('recipient', 'note', 'blocked', 'call first');
  await run('cancel', '--id', 'held');
  // Dead letters, more than are kept; a job that lasts longer than half of its lock.
  bench.sandbox.setAnswers([{ platform: 'apns', reason: 'BadDeviceToken' }]);
  for (let at = 0; at < 6; at++) await producer.enqueue(makeNotification({ id: `d${at}`, recipientId: `r${at}` }));
  await waitFor(async () => expect(await total()).toBeGreaterThan(2));
  await run('status');
  await run('status', 'd0');
  await run('why', 'd0');
  bench.sandbox.setAnswers([]);
  await run('replay', '--all', '--yes');
  await run('discard', '--all', '--yes');
  // The servers.
  const api = await openApi(env);
  const body = makeNotification({ id: 'api-1', recipientId: 'api' });
  // While Redis answers late, a server answers 503 and is asked again; a right that is missing stays missing.
  const ask = (...args: Parameters<typeof api.call>): Promise<Answer> =>
    waitFor(async () => {
      const answer = await api.call(...args);
      expect({ path: args[1], ...answer }).not.toMatchObject({ status: 503 });
      return answer;
    });
  const posted = await ask('POST', '/v1/notifications', { body, headers: { 'idempotency-key': 'k1' } });
  expect(posted.status).toBeLessThan(300);
  for (const path of ['/v1/notifications/api-1', '/v1/recipients/api', '/readyz', '/healthz']) {
    expect({ path, status: (await ask('GET', path)).status }).toEqual({ path, status: 200 });
  }
  const admit = async (id: string): Promise<void> => {
    const slot = { id, category: 'email', wait: true };
    expect((await ask('POST', '/v1/recipients/mailed/admit', { body: slot })).status).toBeLessThan(300);
  };
  for (const id of ['mail-1', 'mail-2', 'mail-3']) await admit(id);
  for (const id of ['mail-2', 'mail-1']) {
    await waitFor(async () => {
      await admit(id); // a refund that was answered too late has given it back
      const refund = await ask('POST', '/v1/recipients/mailed/refund', { body: { id, category: 'email' } });
      expect(refund.body['result']).not.toBe('unknown');
    });
  }
  const hangUp = new AbortController(); // the stream of outcomes has no end
  const authorization = `Bearer ${api.secrets.all}`;
  await fetch(`${api.url}/v1/outcomes`, { headers: { authorization }, signal: hangUp.signal });
  if (outcomesRead !== undefined) await waitFor(outcomesRead);
  hangUp.abort();
  const web = await openConsole(env);
  for (const path of ['/', '/recipients/api', '/dead-letters', '/search?q=api-1', '/audit']) {
    await waitFor(async () => {
      expect({ path, status: (await web.get(path)).status }).toEqual({ path, status: 200 });
    });
  }
  await waitFor(async () => expect((await web.post('/recipients/api/reset')).status).toBe(303));
  // A breaker opens, last of all: it stays open.
  bench.sandbox.setAnswers([{ platform: 'apns', reason: 'InvalidProviderToken' }]);
  await producer.enqueue(makeNotification({ id: 'refused', recipientId: 'refused' }));
  await waitFor(async () =>
    expect(await producer.status('refused')).toMatchObject({ state: 'waiting', until: expect.any(Number) as number }),
  );
  await waitFor(async () => expect((await fetch(`${replica.url}/readyz`)).status).toBe(200));
  await fetch(`${replica.url}/metrics`);
  await run('doctor');
  await replica.stop();
}
