import { spawn } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';

/** Debian's packages run this before they start a service; exit code 101 forbids it (invoke-rc.d(8)). */
const SERVICE_POLICY = '/usr/sbin/policy-rc.d';

/**
 * Installs Debian's `redis-server` with apt-get, as root, and says so first. The package would also start and enable a
 * service on port 6379; both are prevented.
 */
export async function installRedis(
  say: (line: string) => void,
  path: string,
  policyFile = SERVICE_POLICY,
): Promise<void> {
  say('No redis-server on the PATH: installing the package redis-server with apt-get. REDIS_URL avoids this.');
  const wasPolicyWritten = await writeFile(policyFile, '#!/bin/sh\nexit 101\n', { mode: 0o755, flag: 'wx' }).then(
    () => true,
    () => false, // the file exists: it is the machine's own policy
  );
  try {
    await run('apt-get', ['update', '-q'], path);
    await run('apt-get', ['install', '-q', '-y', '--no-install-recommends', 'redis-server'], path);
  } finally {
    if (wasPolicyWritten) await rm(policyFile, { force: true });
  }
  await run('update-rc.d', ['redis-server', 'disable'], path).catch(() => undefined); // not every image has services
  say('Installed redis-server; its service is off.');
}

/** Runs a program to its end; rejects with the end of its output where it fails. */
function run(program: string, args: readonly string[], path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, PATH: path, DEBIAN_FRONTEND: 'noninteractive' };
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
    let output = '';
    const keep = (chunk: Buffer): void => {
      output = `${output}${chunk.toString()}`.slice(-2_000);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`${program} ${args.join(' ')} ended with ${code ?? 'a signal'}:\n${output.trim()}`));
    });
  });
}
