import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { watchFiles } from '../../src/environment/files.ts';
import { temporaryFolder } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';

const EVERY_MS = 20;

/** Watches a file of a new folder; the first call, which comes without any change, has passed. */
async function openWatch() {
  const folder = await temporaryFolder();
  const path = join(folder, 'key.p8');
  await writeFile(path, 'old');
  let calls = 0;
  const watch = watchFiles(() => (calls += 1), EVERY_MS);
  onTestFinished(() => watch.stop());
  watch.use([path, path]);
  const until = (count: number) => waitFor(() => expect(calls).toBe(count));
  await until(1);
  return { folder, path, watch, until, calls: () => calls };
}

it('tells of a file that was written, replaced, removed and made again', async () => {
  const { folder, path, until, calls } = await openWatch();
  await writeFile(path, 'new');
  await until(2);
  await writeFile(join(folder, 'draft'), 'newer');
  await rename(join(folder, 'draft'), path);
  await until(3);
  await rm(path);
  await until(4);
  await writeFile(path, 'again');
  await until(5);
  await sleep(10 * EVERY_MS);
  expect(calls()).toBe(5);
});

it('tells of a symbolic link that points elsewhere, as Kubernetes changes mounted secrets', async () => {
  const { folder, watch, until } = await openWatch();
  for (const version of ['..1', '..2']) {
    await mkdir(join(folder, version));
    await writeFile(join(folder, version, 'apps.json'), version);
  }
  await symlink('..1', join(folder, '..data'));
  await symlink('..data/apps.json', join(folder, 'apps.json'));
  watch.use([join(folder, 'apps.json')]);
  await until(2); // its files are others now
  await symlink('..2', join(folder, '..new'));
  await rename(join(folder, '..new'), join(folder, '..data'));
  await until(3);
});

it('is silent after its end', async () => {
  const { path, watch, calls } = await openWatch();
  watch.stop();
  await writeFile(path, 'new');
  await sleep(10 * EVERY_MS);
  expect(calls()).toBe(1);
});
