import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { findOnPath } from '../../sandbox/redis/redis-server.ts';
import { debianProgram } from '../../tools/debian.ts';
import { startProcess, type TestProcess } from './process.ts';
import { runProgram } from './program.ts';
import { waitFor } from './wait.ts';

/** The image of the Dockerfile, built by buildah and run in a chroot: without a container engine, but as root. */

const ROOT = process.cwd();
const NAME = 'pushpacer';

export interface Image {
  /** The folder with all files of the image, as a container of it has them. */
  readonly root: string;
  /** The same of what stands in `FROM`. */
  readonly base: string;
  readonly config: {
    readonly User: string;
    readonly WorkingDir: string;
    readonly Env: readonly string[];
    readonly Cmd: readonly string[];
    readonly Healthcheck: { readonly Test: readonly string[] };
  };
}

/** Why no image can be built on this machine; undefined if it can. */
export async function noImageHere(): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'needs root on Linux';
  const path = process.env['PATH'] ?? '';
  if ((await findOnPath('apt-get', path)) !== undefined) return undefined;
  return (await findOnPath('buildah', path)) === undefined ? 'needs buildah' : undefined;
}

/**
 * Builds the image from a folder like the clone. No registry of images is needed: a folder with a few programs of this machine,
 * the Node that runs this, and npm takes the place of the image that the Dockerfile names. Takes about a minute, and a gigabyte.
 *
 * @param context what `docker build` gets
 * @param folder an empty one, for all that buildah writes
 */
export async function buildImage(context: string, folder: string): Promise<Image> {
  const program = await debianProgram('buildah', 'buildah');
  const store = ['--storage-driver', 'vfs', '--root', join(folder, 'store'), '--runroot', join(folder, 'run')];
  const buildah = async (...args: readonly string[]): Promise<string> =>
    (await runProgram(program, [...store, ...args], ROOT)).trim();

  const dockerfile = await readFile(join(context, 'Dockerfile'), 'utf8');
  const [, from = ''] = /^FROM (\S+)$/m.exec(dockerfile) ?? [];
  const container = await buildah('from', 'scratch');
  const base = await buildah('mount', container);
  await makeBase(base);
  await buildah('config', '--env', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', container);
  await buildah('commit', container, `docker.io/library/${from}`);

  const cache = (await runProgram('npm', ['config', 'get', 'cache'], ROOT)).trim();
  const build = ['bud', '--pull-never', '--isolation', 'chroot', '--format', 'docker'];
  await buildah(...build, '--volume', `${cache}:${NPM_CACHE}`, '--tag', NAME, context);
  const { Docker } = JSON.parse(await buildah('inspect', '--type', 'image', NAME)) as {
    Docker: { config: Image['config'] };
  };
  const root = await buildah('mount', await buildah('from', '--pull-never', NAME));
  return { root, base, config: Docker.config };
}

const NPM_CACHE = '/npm-cache';

/** What the Dockerfile and this file start in the image. Debian has all of them in every system. */
const PROGRAMS = ['sh', 'env', 'find', 'mkdir', 'chown', 'setpriv'];

/** What Node's images have, as far as it is needed: programs of Debian, node, npm, and the user `node` with uid 1000. */
async function makeBase(root: string): Promise<void> {
  for (const folder of ['dev', 'proc', 'sys', 'run', 'tmp', 'etc', 'root', NPM_CACHE]) await mkdir(join(root, folder));
  for (const folder of ['bin', 'lib', 'lib64']) {
    await mkdir(join(root, 'usr', folder), { recursive: true });
    await symlink(join('usr', folder), join(root, folder));
  }
  const bin = join(root, 'usr/local/bin');
  await mkdir(bin, { recursive: true });
  await copyFile(process.execPath, join(bin, 'node'));
  const find = async (program: string) => (await findOnPath(program, process.env['PATH'] ?? '')) ?? program;
  const programs = await Promise.all(PROGRAMS.map(find));
  for (const program of programs) await copyFile(program, join(root, 'usr/bin', basename(program)));
  const libraries = await runProgram('ldd', [process.execPath, ...programs], ROOT);
  for (const [library] of libraries.matchAll(/\/\S+\.so\S*(?= \()/g)) {
    await mkdir(join(root, dirname(library)), { recursive: true });
    await copyFile(library, join(root, library));
  }
  await writeFile(join(root, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n');
  await writeFile(join(root, 'etc/group'), 'root:x:0:\nnode:x:1000:\n');
  for (const file of ['hosts', 'hostname', 'resolv.conf']) await writeFile(join(root, 'etc', file), ''); // a container's own

  const packages = (await runProgram('npm', ['root', '--global'], ROOT)).trim();
  await cp(join(packages, 'npm'), join(root, 'usr/local/lib/node_modules/npm'), { recursive: true });
  const npm = '#!/bin/sh\nexec node /usr/local/lib/node_modules/npm/bin/npm-cli.js "$@"\n';
  await writeFile(join(bin, 'npm'), npm, { mode: 0o755 });
  // The packages come from where this machine gets its own, and from its cache.
  const registry = (await runProgram('npm', ['config', 'get', 'registry'], ROOT)).trim();
  await mkdir(join(root, 'usr/local/etc'));
  await writeFile(join(root, 'usr/local/etc/npmrc'), `registry=${registry}\ncache=${NPM_CACHE}\n`);
}

/** Services that see each other at the ports that the compose file gives them, and nothing else of this machine. */
export interface Network {
  /** Starts a command in the image, as a container would; without one, what the image starts by itself. */
  start(image: Image, command?: readonly string[], env?: Readonly<Record<string, string | undefined>>): TestProcess;
  /** What a server answers to this machine, as through a published port. */
  fetch(port: number, path: string, init?: Readonly<Record<string, unknown>>): Promise<Answer>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What containers call `localhost` is 127.0.0.1. From outside they are reached here, so a server at 127.0.0.1 alone is not. */
const OUTSIDE = '127.0.0.2';

/** A network with a Redis in it, which ends with the test. */
export async function openNetwork(redis: readonly string[], folder: string): Promise<Network> {
  await debianProgram('ip', 'iproute2');
  const up = 'ip link set lo up && exec "$@"';
  const holder = ['--pdeathsig', 'KILL', 'unshare', '--net', 'sh', '-c', up, 'sh', ...redis];
  const server = spawn('setpriv', holder, { cwd: folder, stdio: 'ignore' });
  const ended = once(server, 'close');
  onTestFinished(async () => {
    server.kill('SIGKILL');
    await ended;
  });
  const enter = `--net=/proc/${server.pid ?? ''}/ns/net`;
  const run = (program: string, ...args: readonly string[]) => runProgram('nsenter', [enter, program, ...args], ROOT);
  await waitFor(() => run('redis-cli', 'ping'));
  return {
    start(image, command = image.config.Cmd, env = {}) {
      const { root, config } = image;
      const given = Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
      const asUser = ['setpriv', `--reuid=${config.User}`, `--regid=${config.User}`, '--init-groups'];
      const within = [...asUser, '--pdeathsig=KILL', 'env', '-C', config.WorkingDir, '-i', ...config.Env, ...given];
      const mounted = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"';
      return startProcess({
        program: ['nsenter', enter, 'unshare', '--mount', 'sh', '-c', mounted, root],
        args: [...within, ...command],
      });
    },
    async fetch(port, path, init = {}) {
      const script = `fetch(process.argv[1], JSON.parse(process.argv[2])).then(async (answer) => console.log(JSON.stringify(
        { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.text() })))`;
      const url = `http://${OUTSIDE}:${port}${path}`;
      const answer = await run(process.execPath, '-e', script, url, JSON.stringify({ redirect: 'manual', ...init }));
      return JSON.parse(answer) as Answer;
    },
  };
}
