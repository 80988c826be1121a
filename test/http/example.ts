import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';

const ROOT = process.cwd();

/** A key that both examples gave out. */
const KNOWN = { 'x-api-key': 'a-long-random-key' };

/** What a client can write as it likes, another one with each request. */
function madeUp(index: number): Record<string, string> {
  return { 'x-api-key': index === 0 ? '' : `made-up-${index}`, 'x-forwarded-for': `192.0.2.${index}` };
}

/** Runs an example as a user would, but against the sources, and asks it as clients would that mean well and ill. */
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
  for (let asks = 0; asks < 4; asks += 1) answers.push(await fetch(url, { headers: KNOWN }));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(await answers[0]?.json()).toEqual({ hello: 'world' });
  expect(answers[0]?.headers.get('ratelimit')).toBe('"3/10s";r=2;t=10');
  expect(answers[0]?.headers.get('ratelimit-policy')).toBe('"3/10s";q=3;w=10');
  expect(Number(answers[3]?.headers.get('retry-after'))).toBeGreaterThan(5);

  const made = await Promise.all(Array.from({ length: 100 }, (_, index) => fetch(url, { headers: madeUp(index) })));
  expect(made.filter(({ status }) => status === 200)).toHaveLength(3);
  expect(made.filter(({ status }) => status === 429)).toHaveLength(97);
  expect((await fetch(url)).status).toBe(429); // the same address, with no key at all

  example.kill('SIGTERM');
  expect(await example.waitForExit()).toMatchObject({ code: 0, stderr: '' });
}
