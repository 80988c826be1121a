import { writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../support/program.ts';
import { startProcess } from '../../support/process.ts';
import { queueEnv, testPrefix } from '../../support/redis.ts';

/** What the test allows a process for its start on a busy machine, and for its end. A process that hangs takes longer. */
const ENDS_WITHIN_MS = 20_000;
/** An address for documentation (RFC 5737), which no machine has. */
const ELSEWHERE = '192.0.2.1';

/** A port of the loopback that another program listens on. */
async function takenPort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  return String((server.address() as AddressInfo).port);
}

/** How a program ended that could not start: its exit code, and what it wrote to standard error. */
async function failed(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const folder = await temporaryFolder();
  const { code, stderr } = await startProcess({
    args,
    env: { ...queueEnv(testPrefix()), API_TOKENS_FILE: join(folder, 'tokens.json'), ...env },
  }).waitForExit(ENDS_WITHIN_MS);
  return { code, stderr };
}

const sentence = (text: string) => ({ code: 1, stderr: `error: ${text}\n` });

describe('a program that cannot listen ends with 1 and one sentence:', () => {
  it.each([
    ['api', 'api/api.ts', 'API_PORT', { API_PORT: '', CONSOLE_PORT: '0' }],
    ['console', 'console/console.ts', 'CONSOLE_PORT', { CONSOLE_PORT: '' }],
    ['serve, by its console', 'console/serve.ts', 'CONSOLE_PORT', { API_PORT: '0', CONSOLE_PORT: '' }],
  ])('%s, whose port is taken', async (_, script, variable, ports) => {
    const port = await takenPort();
    const expected = `${variable}: expected a port that no other program uses on 127.0.0.1, found ${port}`;
    expect(await failed([script], { ...ports, [variable]: port })).toEqual(sentence(`cannot listen: ${expected}`));
  });

  it('api, also while Redis does not answer', async () => {
    const port = await takenPort();
    const { code, stderr } = await failed(['api/api.ts'], { API_PORT: port, REDIS_URL: 'redis://127.0.0.1:1' });
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('API_PORT: expected') as string,
    });
  });

  it('api, whose address is none of this machine', async () => {
    const env = { API_HOST: ELSEWHERE, API_PORT: '0' };
    const expected = `API_HOST: expected an address or a name of this machine, found "${ELSEWHERE}"`;
    expect(await failed(['api/api.ts'], env)).toEqual(sentence(`cannot listen: ${expected}`));
  });

  it('a worker, whose address for metrics is none of this machine: it logs the sentence', async () => {
    const env = { ...queueEnv(testPrefix()), METRICS_HOST: ELSEWHERE, ALLOW_NO_CREDENTIALS: 'true' };
    const worker = startProcess({ args: ['workers/notifications.ts'], env });
    const { code, stdout } = await worker.waitForExit(ENDS_WITHIN_MS);
    const last = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as {
      readonly err: { readonly message: string };
    };
    expect([code, last.err.message]).toEqual([
      1,
      `cannot listen: METRICS_HOST: expected an address or a name of this machine, found "${ELSEWHERE}"`,
    ]);
  });

  it('sandbox, whose address for its control is none of this machine', async () => {
    const expected = `--control-host: expected an address or a name of this machine, found "${ELSEWHERE}"`;
    const exit = await failed(['scripts/sandbox.ts', '--control-host', ELSEWHERE]);
    expect(exit).toEqual(sentence(`cannot listen: ${expected}`));
  });

  it.each([[[]], [['--cluster']]])('redis, whose port is taken, with %j', async (flags) => {
    const port = await takenPort();
    const expected = `--port: expected a port that no other program uses on 127.0.0.1, found ${port}`;
    expect(await failed(['scripts/redis.ts', '--port', port, ...flags])).toEqual(
      sentence(`cannot listen: ${expected}`),
    );
  });
});

describe('a file with faults ends a program with 1 and one sentence that names the variable:', () => {
  it('the tokens', async () => {
    const file = join(await temporaryFolder(), 'tokens.json');
    await writeFile(file, '{ "tokens": [');
    const env = { API_TOKENS_FILE: file, API_PORT: '0', CONSOLE_PORT: '0' };
    const expected = `unusable tokens in ${file} (API_TOKENS_FILE): expected JSON, found text that is not JSON`;
    expect(await failed(['console/serve.ts'], env)).toEqual(sentence(expected));
  });

  it('the tokens, where the path is a folder', async () => {
    const file = await temporaryFolder();
    const expected = `unusable tokens in ${file} (API_TOKENS_FILE): expected a file that can be read, found a folder`;
    expect(await failed(['api/api.ts'], { API_TOKENS_FILE: file, API_PORT: '0' })).toEqual(sentence(expected));
  });

  it('the certificate for HTTPS', async () => {
    const file = join(await temporaryFolder(), 'cert.pem');
    await writeFile(file, 'no certificate');
    const { code, stderr } = await failed(['api/api.ts'], {
      API_PORT: '0',
      API_TLS_CERT_FILE: file,
      API_TLS_KEY_FILE: file,
    });
    expect(code).toBe(1);
    expect(stderr).toContain('API_TLS_CERT_FILE: expected a certificate as PEM, found something else');
    expect(stderr).toContain(
      'API_TLS_KEY_FILE: expected a private key as PEM, without a password, found something else',
    );
  });
});
