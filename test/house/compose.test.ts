import { access, copyFile, readFile, symlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { CONFIG_VARIABLES } from '../../src/config/documentation.ts';
import { startEmbeddedRedis } from '../../src/sandbox/redis/embedded-redis.ts';
import { runProgram, temporaryFolder } from '../support/program.ts';
import { startProcess } from '../support/process.ts';
import { testPrefix, testRedisUrl } from '../support/redis.ts';

interface Service {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string | null>>;
  readonly volumes?: readonly string[];
  readonly expose?: readonly string[];
  readonly ports?: unknown;
  readonly container_name?: unknown;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string; readonly required?: boolean }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly stop_grace_period?: string;
}

const ROOT = process.cwd();
const dockerfile = await readFile('Dockerfile', 'utf8');
const { services, volumes } = parse(await readFile('docker-compose.yml', 'utf8')) as {
  services: { redis: Service; worker: Service; sandbox: Service };
  volumes: Readonly<Record<string, unknown>>;
};
const sandboxEnv = new Map(
  (await readFile('examples/sandbox.env', 'utf8')).split('\n').flatMap((line): [string, string][] => {
    const [, name, value] = /^([A-Z_]+)=(.*)$/.exec(line) ?? [];
    return name === undefined || value === undefined ? [] : [[name, value]];
  }),
);

/** What a line of the Dockerfile runs: `["node", "dist/…"]`. */
const commandAt = (line: RegExp) => JSON.parse(line.exec(dockerfile)?.[1] ?? '[]') as string[];

/** The environment of a worker as compose makes it, where nobody has set a variable. */
const workerEnv = () =>
  Object.fromEntries(
    Object.entries(services.worker.environment ?? {}).map(([name, value]) => [
      name,
      value === null ? undefined : value.replace(/^\$\{[A-Z_]+:-(.*)\}$/, '$1'),
    ]),
  );

describe('the compose file', () => {
  test('hands a worker every variable that there is, with its default, and no other', () => {
    const theirs = { REDIS_URL: 'redis://redis:6379', METRICS_HOST: '0.0.0.0' };
    const ours = Object.fromEntries(CONFIG_VARIABLES.map((variable) => [variable.name, variable.default]));
    // Compose would end a default at the first brace of this one, so the worker's own holds.
    expect(workerEnv()).toEqual({ ...ours, ...theirs, QUEUE_PREFIX: undefined });
    for (const [name, value] of Object.entries(services.worker.environment ?? {})) {
      if (value !== null) expect(value).toMatch(new RegExp(`^\\$\\{${name}:-`));
    }
  });

  test('lets workers be many', () => {
    expect(services.worker.ports).toBeUndefined();
    expect(services.worker.container_name).toBeUndefined();
    expect(services.worker.expose).toEqual([workerEnv()['METRICS_PORT']]);
    expect(dockerfile).toContain(`EXPOSE ${workerEnv()['METRICS_PORT'] ?? ''}\n`);
  });

  test('stops a worker later than the worker stops itself', () => {
    expect(services.worker.stop_grace_period).toBe('30s');
    expect(workerEnv()['SHUTDOWN_GRACE']).toBe('10s');
  });

  test('names only volumes that it declares, and waits only for services that tell their health', () => {
    const named = Object.values(services).flatMap((service: Service) =>
      (service.volumes ?? []).map((volume) => volume.replace(/^\$\{.*\}/, './').split(':')[0] ?? ''),
    );
    expect(new Set(named.filter((name) => !name.startsWith('.')))).toEqual(new Set(Object.keys(volumes)));
    for (const [name, { condition }] of Object.entries(services.worker.depends_on ?? {})) {
      expect(condition).toBe('service_healthy');
      expect(services[name as keyof typeof services].healthcheck?.test[0]).toBe('CMD');
    }
    expect(services.worker.depends_on?.['sandbox']?.required).toBe(false);
  });

  test('starts Redis with options that a Redis takes', async () => {
    const [program = '', ...args] = services.redis.command ?? [];
    expect(args).toEqual(expect.arrayContaining(['--hz', '100', '--maxmemory-policy', 'noeviction']));
    expect(program).toBe('redis-server');
    const redis = await startEmbeddedRedis({ extraArgs: args });
    await redis.close();
  });

  test('has a sandbox where its environment says', async () => {
    const [node, script = '', ...flags] = services.sandbox.command ?? [];
    expect(node).toBe('node');
    const folder = await temporaryFolder();
    const args = flags.map((flag) => flag.replace('/sandbox', folder).replace(/port=\d+/, 'port=0'));
    const source = script.replace(/^dist\/(.*)\.js$/, '$1.ts');
    const sandbox = startProcess({ args: [source, ...args, '--json'] });
    const told = JSON.parse(await sandbox.waitForLine(/^\{/)) as Record<string, string>;
    const [apns = '', fcm = ''] = services.sandbox.expose ?? [];
    expect(flags).toEqual(expect.arrayContaining([`--apns-port=${apns}`, `--fcm-port=${fcm}`, '--name=sandbox']));
    expect(Object.fromEntries(sandboxEnv)).toEqual(
      Object.fromEntries(
        Object.entries(told).map(([name, value]) => [
          name,
          value
            .replace(folder, '/sandbox')
            .replace(/^(https:\/\/sandbox):\d+$/, `$1:${name.startsWith('APNS') ? apns : fcm}`),
        ]),
      ),
    );
    sandbox.kill('SIGTERM');
    expect(await sandbox.waitForExit()).toMatchObject({ code: 0 });
  });
});

describe('the image', () => {
  test('is built from files that are there, and that are not ignored', async () => {
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, files = '']) =>
      files.split(' '),
    );
    const kept = (await readFile('.dockerignore', 'utf8')).split('\n').filter((line) => line.startsWith('!'));
    expect(new Set(copied)).toEqual(new Set(kept.map((line) => line.slice(1))));
    for (const file of copied) await access(join(ROOT, file));
    expect(dockerfile).toMatch(/^USER node$/m);
  });

  test('runs a worker that gets ready, is healthy, and stops with 0', { timeout: 120_000 }, async () => {
    const image = await temporaryFolder();
    await runProgram('node', ['tools/build.ts', '--out', join(image, 'dist')], ROOT);
    await copyFile('package.json', join(image, 'package.json'));
    await symlink(join(ROOT, 'node_modules'), join(image, 'node_modules'));
    const env = {
      ...workerEnv(),
      REDIS_URL: testRedisUrl(),
      QUEUE_PREFIX: testPrefix(),
      METRICS_PORT: String(await freePort()),
    };
    const [node, ...args] = commandAt(/^CMD (.*)$/m);
    expect(node).toBe('node');
    const worker = startProcess({ args, cwd: image, env });
    await vi.waitFor(
      async () => {
        const answer = await fetch(`http://127.0.0.1:${env.METRICS_PORT}/readyz`);
        expect(await answer.json()).toMatchObject({ ok: true });
      },
      { timeout: 20_000, interval: 50 },
    );
    const [, ...check] = commandAt(/^HEALTHCHECK .*CMD (.*)$/m);
    expect(await startProcess({ args: check, env }).waitForExit()).toMatchObject({ code: 0, stderr: '' });
    expect(await startProcess({ args: check, env: { METRICS_PORT: '1' } }).waitForExit()).toMatchObject({ code: 1 });
    worker.kill('SIGTERM');
    expect(await worker.waitForExit()).toMatchObject({ code: 0 });
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await vi.waitFor(() => {
    expect(server.listening).toBe(true);
  });
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
