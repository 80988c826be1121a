import { expect, it } from 'vitest';
import { makeNotification } from '../support/push.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';
import { openWorkerQueues } from '../support/worker.ts';

/** `npm run sandbox` in a process of its own, and what it printed. */
async function startSandboxCommand(dir: string) {
  const command = startProcess({ args: ['scripts/sandbox.ts', '--latency', '0', '--dir', dir] });
  await command.waitForLine(/^ready/);
  const lines = command.stdout().trimEnd().split('\n');
  const pairs = lines.map((line) => /^(\w+)='(.*)'$/.exec(line) ?? []);
  return { command, env: Object.fromEntries(pairs.map(([, name = '', value = '']) => [name, value])) };
}

it('a 410 that PUT /answers asks for becomes a dead letter, unregistered; after a restart the worker goes on', async () => {
  const dir = await temporaryFolder();
  const first = await startSandboxCommand(dir);
  const { queue, deadQueue, startWorker } = openWorkerQueues({ ...first.env, LIMIT_MIN_GAP: '50ms' });
  const control = first.env['SANDBOX_URL'] ?? '';
  await startWorker();

  const gone = makeNotification({ id: 'msg-gone', devices: [{ platform: 'apns', token: 'ab01' }] });
  const body = JSON.stringify({ answers: [{ platform: 'apns', token: 'AB01', status: 410 }] });
  expect((await fetch(`${control}/answers`, { method: 'PUT', body })).status).toBe(200);
  await queue.add('push', gone, { jobId: gone.id, priority: 10 });
  await waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1));
  const [letter] = await deadQueue.getJobs();
  expect(letter?.data).toMatchObject({ notification: { id: 'msg-gone' }, reason: 'unregistered' });
  const { entries } = (await (await fetch(`${control}/journal?id=msg-gone`)).json()) as { entries: unknown[] };
  expect(entries).toMatchObject([{ token: 'ab01', accepted: false, status: 410, reason: 'Unregistered' }]);
  expect(await first.command.waitForLine(/refused/)).toMatch(
    / apns ab… refused 410 Unregistered "Room 12" push id [0-9a-f]{8}$/,
  );

  first.command.kill();
  expect(await first.command.waitForExit()).toMatchObject({ code: 0 });
  const second = await startSandboxCommand(dir);
  expect(second.env).toEqual(first.env);
  const next = makeNotification({ id: 'msg-next', devices: [{ platform: 'apns', token: 'ab01' }] });
  await queue.add('push', next, { jobId: next.id, priority: 10 });
  expect(await second.command.waitForLine(/ accepted /)).toContain(' apns ab… accepted "Room 12"');
});
