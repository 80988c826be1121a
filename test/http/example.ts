import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../src/sandbox/embedded-redis.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';

const ROOT = process.cwd();

/** Runs an example as a user would, but against the sources, and asks it until it refuses. */
export async function runExample(name: string): Promise<void> {
  const redis = await startEmbeddedRedis();
  onTestFinished(() => redis.close());
  const folder = await temporaryFolder();
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const source = await readFile(`examples/${name}.ts`, 'utf8');
  expect(source).toContain("from 'pushpacer'");
  const file = join(folder, 'example.mts');
  await writeFile(file, source.replace("'pushpacer'", JSON.stringify(join(ROOT, 'src/index.ts'))));

  const example = startProcess({ args: [file], env: { REDIS_URL: redis.url, PORT: '0' } });
  const url = (await example.waitForLine(/^listening on /)).replace('listening on ', '');
  const answers: Response[] = [];
  for (let asks = 0; asks < 4; asks += 1) answers.push(await fetch(url, { headers: { 'x-api-key': 'a' } }));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(await answers[0]?.json()).toEqual({ hello: 'world' });
  expect(answers[0]?.headers.get('ratelimit')).toBe('"3/10s";r=2;t=10');
  expect(answers[0]?.headers.get('ratelimit-policy')).toBe('"3/10s";q=3;w=10');
  expect(Number(answers[3]?.headers.get('retry-after'))).toBeGreaterThan(5);
  expect((await fetch(url, { headers: { 'x-api-key': 'b' } })).status).toBe(200);

  expect((await fetch(url, { headers: { 'x-api-key': '' } })).status).toBe(200);

  example.kill('SIGTERM');
  expect(await example.waitForExit()).toMatchObject({ code: 0, stderr: '' });
}
