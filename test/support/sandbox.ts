import { onTestFinished } from 'vitest';
import { makeAuthority } from '../../sandbox/loopback/certificates.ts';
import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { startSandbox, writeAuthority, type Sandbox, type SandboxOptions } from '../../sandbox/sandbox.ts';
import { temporaryFolder } from './program.ts';

/** One signs for all sandboxes of a test file: to make one, and to trust it, takes as long as the rest of a sandbox. */
const authority = makeAuthority(Date.now());

/**
 * The loopback push services, stopped when the test ends. They answer at once unless `latency` is given: a test of one
 * exchange waits for nothing. What judges pace or throughput asks for `DEFAULT_LATENCY`.
 */
export async function openSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { dir = await openDirectory() } = options;
  const sandbox = await startSandbox({ latency: NO_LATENCY, ...options, dir });
  onTestFinished(() => sandbox.close());
  return sandbox;
}

async function openDirectory(): Promise<string> {
  const dir = await temporaryFolder();
  await writeAuthority(dir, await authority);
  return dir;
}

/** A sandbox and a client of it: `await openWith(connectApns)`. */
export async function openWith<Client>(connect: (sandbox: Sandbox) => Promise<Client>, options: SandboxOptions = {}) {
  const sandbox = await openSandbox(options);
  return { sandbox, client: await connect(sandbox) };
}
