import { onTestFinished } from 'vitest';
import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { startSandbox, type Sandbox, type SandboxOptions } from '../../sandbox/sandbox.ts';

/**
 * The loopback push services, stopped when the test ends. They answer at once unless `latency` is given: a test of one
 * exchange waits for nothing. What judges pace or throughput asks for `DEFAULT_LATENCY`.
 */
export async function openSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ latency: NO_LATENCY, ...options });
  onTestFinished(() => sandbox.close());
  return sandbox;
}
