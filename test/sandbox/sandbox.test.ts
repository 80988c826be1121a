import { X509Certificate } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { expect, it, expectTypeOf } from 'vitest';
import { DEFAULT_LATENCY, latencyDraw, seededRandom } from '../../sandbox/loopback/timing.ts';
import { startSandbox as startInternal } from '../../sandbox/sandbox.ts';
import {
  startSandbox,
  startEmbeddedRedis,
  type EmbeddedRedisOptions,
  type JournalEntry,
  type Sandbox,
  type SandboxOptions,
  type SandboxServer,
  type ScriptedAnswer,
} from '../../sandbox/index.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { openSandbox } from '../support/sandbox.ts';

const YEAR_MS = 365 * 86_400_000;

it('keeps its keys in files that only their owner reads, and makes them anew where the authority has run out', async () => {
  const dir = await temporaryFolder();
  await (await startInternal({ dir, now: () => Date.now() - YEAR_MS })).close();
  const old = await readFile(`${dir}/ca.pem`, 'utf8');
  const next = await openSandbox({ dir });
  const ca = await readFile(next.caFile, 'utf8');
  expect(ca).not.toBe(old);
  expect(new X509Certificate(ca).validToDate.getTime()).toBeGreaterThan(Date.now());
  const files = await readdir(dir);
  expect(files.sort()).toEqual(['apns-key.p8', 'ca-key.pem', 'ca.pem', 'service-account.json', 'vapid-key.pem']);
  for (const file of files) expect((await stat(`${dir}/${file}`)).mode & 0o777).toBe(0o600);
});

const INDEX = new URL('../../src/index.ts', import.meta.url).href;

it.each([
  [{ port: 8443 }, 'port: expected no such field (did you mean ports?)'],
  [{ latency: { median: 1 } }, 'latency.median: expected no such field (did you mean medianMs?)'],
  [{ ports: { gcm: 8443 } }, 'ports.gcm: expected no such field'],
  ['8443', 'expected an object with options'],
])('a sandbox is not started with %j', async (options, message) => {
  await expect(startSandbox(options as SandboxOptions)).rejects.toThrow(`unusable options: ${message}`);
});

it('a Redis is not started with an option that does not exist', async () => {
  const options = { appendOnly: true, directory: '/tmp' } as EmbeddedRedisOptions;
  await expect(startEmbeddedRedis(options)).rejects.toThrow(
    /^unusable options:\n {2}appendOnly: .*did you mean appendonly.*\n {2}directory: .*did you mean dir\?/,
  );
});

it('its type shows what users need, and nothing of the inside', () => {
  expectTypeOf<keyof Sandbox>().toEqualTypeOf<
    | 'apns'
    | 'fcm'
    | 'webpush'
    | 'journal'
    | 'caFile'
    | 'env'
    | 'setAnswers'
    | 'answers'
    | 'close'
    | typeof Symbol.asyncDispose
  >();
  expectTypeOf<Sandbox['fcm']>().toEqualTypeOf<SandboxServer>();
  expectTypeOf<Sandbox['journal']['all']>().toEqualTypeOf<readonly JournalEntry[]>();
  expectTypeOf<Parameters<Sandbox['setAnswers']>[0]>().toEqualTypeOf<readonly ScriptedAnswer[]>();
});

it('is a module of its own: who enqueues loads no server', async () => {
  const program = `
    import { registerHooks } from 'node:module';
    const loaded = [];
    registerHooks({ resolve: (name, context, next) => { const at = next(name, context); loaded.push(at.url); return at; } });
    await import(${JSON.stringify(INDEX)});
    console.log(loaded.length > 100, loaded.filter((url) => /sandbox.[a-z./-]+[.]ts$|selfsigned/.test(url)).length);`;
  const child = startProcess({ args: ['--input-type=module', '--eval', program] });
  expect(await child.waitForExit()).toMatchObject({ code: 0, stdout: 'true 0\n', stderr: '' });
});

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? NaN;
}

it('draws latencies with the median and the 99th percentile that were asked for, and a tail', () => {
  for (const [latency, seed] of [[DEFAULT_LATENCY, 1] as const, [{ medianMs: 5, p99Ms: 20 }, 3] as const]) {
    const draw = latencyDraw(latency, seededRandom(seed)) ?? (() => 0);
    const values = Array.from({ length: 50_000 }, draw);
    expect(percentile(values, 0.5) / latency.medianMs).toBeCloseTo(1, 1);
    expect(percentile(values, 0.99) / latency.p99Ms).toBeCloseTo(1, 1);
    expect(Math.min(...values)).toBeGreaterThan(0);
    expect(Math.max(...values)).toBeGreaterThan(latency.p99Ms * 1.5);
  }
});
