import { cp, lstat, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { environmentOf, healthCheckOf, sandboxEnv, services, type Service } from '../../house/compose.ts';
import { buildImage, noImageHere, openNetwork, type Image } from '../../support/image.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeDevice } from '../../support/push.ts';

const MEGABYTE = 1_000_000;
/** What a careless copy would bring along. */
const SECRET = 'a-secret-of-this-clone';
const WITH_SECRETS = [
  '.env',
  'api-tokens.json',
  'secrets/apns-key.p8',
  'tools/node_modules/x.js',
  'src/.env',
  'test/t.ts',
];

/** Ends a test that fails anyway, however busy the machine is. */
const WITHIN = { timeout: 60_000, interval: 500 };

const missing = await noImageHere();

describe.skipIf(missing !== undefined)(`the image${missing === undefined ? '' : ` (skipped: ${missing})`}`, () => {
  let folder = '';
  let image: Image;
  /** By its path, each file that the image has and its base has not. */
  let files: Map<string, Awaited<ReturnType<typeof lstat>>>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'pushpacer-image-'));
    const context = join(folder, 'context');
    const isLeftOut = (path: string) => /^(\.git|dist)$|(^|\/)node_modules$/.test(relative('.', path));
    await cp('.', context, { recursive: true, filter: (path) => !isLeftOut(path) });
    for (const file of WITH_SECRETS) {
      await mkdir(join(context, file, '..'), { recursive: true });
      await writeFile(join(context, file), `// ${SECRET}`);
    }
    image = await buildImage(context, folder);
    const known = new Set(await readdir(image.base, { recursive: true }));
    const added = (await readdir(image.root, { recursive: true })).filter((path) => !known.has(path));
    files = new Map(await Promise.all(added.map(async (path) => [path, await lstat(join(image.root, path))] as const)));
  }, 1_500_000); // a minute or two, and ten on a busy machine

  afterAll(() => rm(folder, { recursive: true, force: true }));

  test('has the packages that run, and nothing for development, no test and no secret', async () => {
    const tops = [...files.keys()].filter((path) => /^[^/]+(\/[^/]+)?$/.test(path)).toSorted();
    expect(tops).toEqual([
      'app',
      'app/dist',
      'app/examples',
      'app/node_modules',
      'app/package.json',
      'sandbox',
      'tokens',
    ]);
    expect((await readdir(join(image.root, 'app/dist'))).toSorted()).toEqual(
      ['api', 'console', 'demo', 'sandbox', 'scripts', 'src', 'workers'], // no test, no tools
    );
    const { packages } = JSON.parse(await readFile('package-lock.json', 'utf8')) as {
      packages: Readonly<
        Record<string, { readonly dev?: true; readonly devOptional?: true; readonly optional?: true }>
      >;
    };
    const inLock = Object.entries(packages).filter(([path]) => path !== '');
    const wanted = inLock.filter(([, { dev, devOptional, optional }]) => !dev && !devOptional && !optional);
    const isThere = ([path]: readonly [string, unknown]) => files.has(`app/${path}/package.json`);
    expect(wanted.length).toBeGreaterThan(80);
    expect(wanted.filter((each) => !isThere(each)).map(([path]) => path)).toEqual([]);
    expect(
      inLock
        .filter(([, { dev }]) => dev)
        .filter(isThere)
        .map(([path]) => path),
    ).toEqual([]);
    for (const [path, stat] of files) {
      expect(path).not.toMatch(/\.(map|[cm]?ts)$|^app\/dist\/.*\.test\./);
      if (stat.isFile())
        expect([path, (await readFile(join(image.root, path), 'utf8')).includes(SECRET)]).toEqual([path, false]);
    }
  });

  test('runs as `node`, which owns what it writes and nothing else', () => {
    expect(image.config.User).toBe('node');
    for (const [path, stat] of files) {
      expect([path, stat.uid]).toEqual([path, ['sandbox', 'tokens'].includes(path) ? 1_000 : 0]);
      if (!stat.isSymbolicLink()) expect([path, Number(stat.mode) & 0o022]).toEqual([path, 0]);
    }
  });

  test('has less than 50 MB beside its base', () => {
    const bytes = [...files.values()].reduce((sum, { size }) => sum + Number(size), 0);
    process.stderr.write(`the image has ${(bytes / MEGABYTE).toFixed(1)} MB in ${files.size} files beside its base\n`);
    expect(bytes).toBeGreaterThan(10 * MEGABYTE);
    expect(bytes).toBeLessThan(50 * MEGABYTE);
  });

  test(
    'runs every service of the compose file, which deliver an alert and stop with 0',
    { timeout: 300_000 },
    async () => {
      await writeFile(join(image.root, 'etc/hosts'), '127.0.0.1 localhost redis\n127.0.0.2 sandbox\n');
      const network = await openNetwork(services.redis.command ?? [], await temporaryFolder());
      const start = (service: Service, command = service.command) =>
        network.start(image, command, environmentOf(service, sandboxEnv));
      const check = async (service: Service) => {
        const { code } = await start(service, healthCheckOf(service)).waitForExit();
        return code;
      };
      const healthy = (service: Service) => vi.waitFor(async () => expect(await check(service)).toBe(0), WITHIN);
      const { sandbox, worker, api, console: pages } = services;
      expect(image.config.Healthcheck.Test).toEqual(['CMD', ...healthCheckOf(worker)]);
      expect(await check(api)).toBe(1);

      const running = [start(sandbox)];
      await healthy(sandbox);
      running.push(...[worker, api, pages].map((service) => start(service)));
      const add = ['node', 'dist/scripts/pushpacer.js', 'token', 'add'];
      const { stdout, stderr, code } = await start(api, [...add, 'olga', '--scope', 'send,read,operate']).waitForExit();
      expect([code, stderr]).toEqual([0, '']);
      const token = stdout.trim();
      for (const service of [worker, api, pages]) await healthy(service);

      const authorization = `Bearer ${token}`;
      const alert = { title: 'Room 12', body: 'Field trip forms are due' };
      const device = makeDevice('apns');
      await vi.waitFor(async () => {
        const answer = await network.fetch(8620, '/v1/notifications', {
          method: 'POST',
          headers: { authorization, 'content-type': 'application/json' },
          body: JSON.stringify({ id: 'msg-1', recipientId: 'teacher-42', alert, devices: [device] }),
        });
        expect(answer.status).toBe(202); // 401 until the API has read the new token
      }, WITHIN);
      await vi.waitFor(async () => {
        const journal = await network.fetch(8081, '/journal', { headers: { host: 'localhost' } });
        expect(JSON.parse(journal.body)).toMatchObject({
          entries: [{ token: device.token, accepted: true, ...alert }],
        });
      }, WITHIN);
      await vi.waitFor(async () => {
        const { body } = await network.fetch(9464, '/metrics');
        expect(body).toMatch(/^pushpacer_outcomes_total\{.*delivered.*\} 1$/m);
      }, WITHIN);

      const origin = 'http://127.0.0.2:8621';
      expect(await network.fetch(8621, '/')).toMatchObject({ status: 303, headers: { location: '/login' } });
      const login = await network.fetch(8621, '/login', {
        method: 'POST',
        headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ token }).toString(),
      });
      expect(login.status).toBe(303);
      const cookie = (login.headers['set-cookie'] ?? '').replace(/;.*/, '');
      const page = await network.fetch(8621, '/notifications/msg-1', { headers: { cookie } });
      expect([page.status, page.body]).toEqual([200, expect.stringContaining('delivered')]);

      for (const program of running.toReversed()) {
        program.kill('SIGTERM');
        expect(await program.waitForExit()).toMatchObject({ code: 0 });
      }
    },
  );
});
