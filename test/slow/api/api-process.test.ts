import { Queue } from 'bullmq';
import { expect, it, onTestFinished } from 'vitest';
import { QUEUE } from '../../../src/queue/names.ts';
import { startApiProcess } from '../../support/api-process.ts';
import { runProgram } from '../../support/program.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { connectRedis, queueEnv, testPrefix } from '../../support/redis.ts';
import { openWorkerBench } from '../../support/worker.ts';

it('killed at any moment: what was answered with 202 is in the queue, and a second try with the same keys adds the rest once', async () => {
  const prefix = testPrefix();
  const queue = new Queue(QUEUE, { connection: connectRedis(), prefix });
  onTestFinished(() => queue.close());
  const requests = Array.from({ length: 300 }, (_, number) => {
    const notification = { ...makeNotification({ recipientId: `teacher-${number}` }), id: undefined };
    return { key: `key-${number}`, body: JSON.stringify([notification, { ...notification, badge: 1 }]) };
  });
  const first = await startApiProcess(queueEnv(prefix));
  const send = async (url: string, secret: string, { key, body }: (typeof requests)[number]) => {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json', 'idempotency-key': key };
    const answer = await fetch(`${url}/v1/notifications`, { method: 'POST', headers, body });
    const { results } = (await answer.json()) as { results: { id: string }[] };
    return results.map(({ id }) => id);
  };
  const known: string[] = [];
  const left = [...requests];
  const lane = async (): Promise<void> => {
    for (let request = left.shift(); request !== undefined; request = left.shift()) {
      known.push(...(await send(first.url, first.secret, request)));
      if (known.length === 200) first.process.kill('SIGKILL');
    }
  };
  await Promise.allSettled(Array.from({ length: 8 }, lane));
  expect(known.length).toBeGreaterThanOrEqual(200);
  expect(known.length).toBeLessThan(600); // else it was killed too late
  const jobs = await Promise.all(known.map((id) => queue.getJob(id)));
  expect(jobs.filter((job) => job === undefined)).toEqual([]);
  const second = await startApiProcess(queueEnv(prefix));
  const all = (await Promise.all(requests.map((request) => send(second.url, second.secret, request)))).flat();
  expect(new Set(all).size).toBe(600);
  expect(all).toEqual(expect.arrayContaining(known));
  expect(await queue.getJobCountByTypes('prioritized')).toBe(600);
  second.process.kill('SIGTERM');
  expect(await second.process.waitForExit()).toMatchObject({ code: 0 });
}, 120_000);

it('curl in, arrives: one by curl, three by the Python example, and again without a second alert', async () => {
  const bench = await openWorkerBench();
  await bench.startWorker();
  const { url, secret } = await startApiProcess(bench.env);
  const device = makeDevice('apns');
  const body = JSON.stringify({ recipientId: 'teacher-42', devices: [device], alert: { title: 'Room 12' } });
  const curl = [
    '-sS',
    '--fail-with-body',
    '-H',
    `authorization: Bearer ${secret}`,
    '-H',
    'content-type: application/json',
  ];
  const answer = await runProgram('curl', [...curl, '-d', body, `${url}/v1/notifications`], '.');
  const { id } = JSON.parse(answer) as { id: string };
  await expect
    .poll(() => bench.sandbox.journal.accepted.map(({ token }) => token), { timeout: 20_000 })
    .toEqual([device.token]);
  await expect
    .poll(async () => JSON.parse(await runProgram('curl', [...curl, `${url}/v1/notifications/${id}`], '.')) as object, {
      timeout: 20_000,
    })
    .toMatchObject({ id, state: 'ended', outcome: 'delivered' });
  const env = [`PUSHPACER_URL=${url}`, `PUSHPACER_TOKEN=${secret}`];
  const python = async () => {
    const stdout = await runProgram('env', [...env, 'python3', 'examples/producer.py'], '.');
    return JSON.parse(stdout) as { added: number; ids: string[] };
  };
  const [first, again] = [await python(), await python()];
  expect([first.added, again.added]).toEqual([3, 0]);
  expect(again.ids).toEqual(first.ids);
  await expect.poll(() => bench.sandbox.journal.accepted.length, { timeout: 20_000 }).toBe(4);
}, 120_000);
