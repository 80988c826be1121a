/**
 * APNs, FCM and web push on the loopback, and a Redis, for tests of apps: `import { startSandbox } from 'pushpacer/sandbox'`.
 *
 * @packageDocumentation
 */
import '../src/domain/needs-node.ts';
import { InputError, optionFaults, type OptionNames } from '../src/domain/faults.ts';
import { PLATFORMS } from '../src/notification/notification.ts';
import type { Sandbox, SandboxOptions } from './interface.ts';
import type { Latency } from './loopback/timing.ts';
import { startSandbox as startServers } from './sandbox.ts';

const OPTIONS: OptionNames<SandboxOptions> = {
  ...{ ports: true, answers: true, latency: true, seed: true, keep: true, dir: true, host: true, name: true },
};
const PORTS = Object.fromEntries([...PLATFORMS, 'channels'].map((name) => [name, true as const]));
const LATENCY: OptionNames<Latency> = { medianMs: true, p99Ms: true };
const MEANT = { port: 'ports', script: 'answers', directory: 'dir', latencyMs: 'latency', handshakeMs: 'latency' };

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
 * @throws InputError where an option does not exist, or `answers` has a fault; RangeError where `latency` does not fit. Rejects
 * with the system's error (`EADDRINUSE`) where a port is taken.
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  checkOptions(options);
  return startServers(options);
}

function checkOptions(options: SandboxOptions): void {
  const faults = optionFaults(options, OPTIONS, '', MEANT);
  const { ports, latency } = options;
  if (ports !== undefined) faults.push(...optionFaults(ports, PORTS, 'ports'));
  if (latency !== undefined) faults.push(...optionFaults(latency, LATENCY, 'latency'));
  if (faults.length > 0) throw new InputError('unusable options', faults);
}

export type { ScriptedAnswer } from './answers.ts';
export type { ApnsReason } from './apns/reasons.ts';
export type { FcmReason } from './fcm/reasons.ts';
export type {
  Sandbox,
  SandboxApns,
  SandboxOptions,
  SandboxPhone,
  SandboxServer,
  SandboxWebpush,
  ShownState,
} from './interface.ts';
export type { JournalEntry, SandboxJournal, WaitOptions } from './journal.ts';
export { NO_LATENCY, type Latency } from './loopback/timing.ts';
export {
  startEmbeddedCluster,
  type ClusterNode,
  type ClusterTls,
  type EmbeddedCluster,
  type EmbeddedClusterOptions,
} from './redis/embedded-cluster.ts';
export { startEmbeddedRedis, type EmbeddedRedis, type EmbeddedRedisOptions } from './redis/embedded-redis.ts';
export type { WebpushReason } from './webpush/reasons.ts';
export type { SandboxSubscription } from './webpush/subscription.ts';
