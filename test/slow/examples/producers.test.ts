import { cp, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { ownRedis } from '../../support/own-redis.ts';
import { startProcess } from '../../support/process.ts';
import { exampleFolder, runProgram, temporaryFolder } from '../../support/program.ts';
import { openSandbox } from '../../support/sandbox.ts';

const ROOT = process.cwd();

it.each([
  ['Express', () => copied('examples/producer-express.ts')],
  ['Fastify', () => copied('examples/producer-fastify.ts')],
  ['NestJS', () => compiled('examples/producer-nest')],
])(
  'a request to the example for %s becomes one alert, and its errors become 400 and 503',
  async (_name, program) => {
    const redis = await ownRedis();
    const sandbox = await openSandbox();
    const own = { REDIS_URL: redis.url, METRICS_PORT: '0', LIMIT_MIN_GAP: '100ms' };
    const worker = startProcess({ args: ['workers/notifications.ts'], env: { ...sandbox.env(), ...own } });
    const app = startProcess({ args: [await program()], env: { REDIS_URL: redis.url, PORT: '0' } });
    const url = (await app.waitForLine(/^listening on /)).replace('listening on ', '');
    await worker.waitForLine(/"msg":"ready"/);

    const post = async (message: object) => {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ to: 'teacher-42', ...message });
      const answer = await fetch(`${url}/messages`, { method: 'POST', headers, body });
      return { status: answer.status, body: await answer.json(), headers: answer.headers };
    };
    expect(await post({ id: '1', text: 'The bus leaves at eight' })).toMatchObject({
      status: 202,
      body: { added: true },
    });
    expect(await post({ id: '1', text: 'The bus leaves at eight' })).toMatchObject({
      status: 202,
      body: { added: false },
    });
    expect(await post({ id: '2', text: 'It is late' })).toMatchObject({ status: 202, body: { added: true } });
    const refused = await post({ id: '3', text: 'Hello', to: 'a stranger' });
    expect(refused).toMatchObject({ status: 400, body: { faults: [{ path: 'devices' }] } });
    await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(2), { timeout: 10_000 });
    expect(sandbox.journal.accepted.map(({ body }) => body)).toEqual(['The bus leaves at eight', 'It is late']);

    await redis.close();
    const away = await post({ id: '4', text: 'Nobody is there' });
    expect(away).toMatchObject({ status: 503, body: { error: 'try again later' } });
    expect(away.headers.get('retry-after')).toBe('5');

    app.kill('SIGTERM');
    expect(await app.waitForExit()).toMatchObject({ code: 0 });
  },
  180_000,
); // a compiler and two processes start

/** The file as a user has it, but against the sources. */
async function copied(source: string): Promise<string> {
  const folder = await emptyProject();
  const file = join(folder, basename(source).replace(/\.ts$/, '.mts'));
  await writeFile(file, atSources(await readFile(source, 'utf8')));
  return file;
}

/** Node runs no decorators, so NestJS applications are compiled, with a tsconfig.json of their own. The types are checked, too. */
async function compiled(source: string): Promise<string> {
  const [folder, out] = [await emptyProject(), await temporaryFolder()];
  await runProgram('tsc', ['-p', source, '--noEmit', 'false', '--outDir', out, '--rootDir', ROOT], ROOT);
  await cp(join(out, source), folder, { recursive: true });
  for (const name of ['main.js', 'push.module.js']) {
    const file = join(folder, name);
    await writeFile(file, atSources(await readFile(file, 'utf8')));
  }
  return join(folder, 'main.js');
}

async function emptyProject(): Promise<string> {
  const folder = await exampleFolder();
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  return folder;
}

function atSources(code: string): string {
  expect(code).toContain("from 'pushpacer'");
  return code.replace("'pushpacer'", JSON.stringify(join(ROOT, 'src/index.ts')));
}
