import { appendFile, cp, glob, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startProcess, type TestProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeNotification } from '../../support/push.ts';
import { waitFor } from '../../support/wait.ts';
import { openWorkerBench } from '../../support/worker.ts';

const GAP_MS = 200;
const COUNT = 30;

it('workers whose Lua scripts have different texts share one queue, and are paced together', async () => {
  const { sandbox, queue, env } = await openWorkerBench();
  const start = async (folder: string): Promise<TestProcess> => {
    const own = { ...env, LIMIT_RULES: '1000/1m', LIMIT_MIN_GAP: `${GAP_MS}ms`, WORKER_CONCURRENCY: '2' };
    const worker = startProcess({ args: [join(folder, 'workers/notifications.ts')], env: own });
    await worker.waitForLine(/"msg":"ready"/);
    return worker;
  };
  const workers = await Promise.all([start(process.cwd()), start(await otherVersion())]);
  for (let sent = 0; sent < COUNT; sent += 1) {
    const notification = makeNotification();
    await queue.add('push', notification, { jobId: notification.id, priority: 10 });
  }
  await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(COUNT));

  const instants = sandbox.journal.accepted.map(({ at }) => at);
  // Workers that knew nothing of each other would take half as long. What a busy machine makes late is not looked at here.
  expect(Math.max(...instants) - Math.min(...instants)).toBeGreaterThan(0.9 * (COUNT - 1) * GAP_MS);
  for (const worker of workers) {
    expect(worker.stdout()).toContain('"outcome":"delivered"');
    expect(worker.stdout()).toContain('"rule":"gap"');
    expect(worker.stdout()).not.toMatch(/"level":"(error|fatal)"/);
  }
});

/** The sources with a comment more in each script: Redis knows each of them by another SHA. */
async function otherVersion(): Promise<string> {
  const folder = await temporaryFolder();
  for (const name of ['src', 'workers', 'scripts', 'package.json']) {
    await cp(name, join(folder, name), { recursive: true });
  }
  await symlink(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'));
  let changed = 0;
  for await (const file of glob('src/**/*.lua', { cwd: folder })) {
    await appendFile(join(folder, file), '\n-- another version\n');
    changed += 1;
  }
  expect(changed).toBeGreaterThan(10);
  return folder;
}
