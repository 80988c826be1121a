import type { Sandbox, SandboxOptions } from './interface.ts';

/**
 * Starts APNs, FCM and a web push service on the loopback. Point a worker at them with `env()`.
 *
 * ```ts
 * await using sandbox = await startSandbox({ latency: NO_LATENCY });
 * sandbox.setAnswers([{ platform: 'fcm', token: 'gone', reason: 'UNREGISTERED' }]);
 * // start a worker with sandbox.env(), enqueue, then:
 * const [first] = await sandbox.journal.waitFor(1);
 * ```
 *
 * @throws InputError where `answers` has a fault; RangeError where `latency` does not fit. Rejects with the system's error
 * (`EADDRINUSE`) where a port is taken.
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  // Loaded only now: who imports the package to enqueue should not load two servers.
  const sandbox = await import('./sandbox.ts');
  return sandbox.startSandbox(options);
}
