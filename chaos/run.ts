import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { WorkerDelays } from '../demo/delays.ts';
import type { SeenEntry } from '../demo/providers-child.ts';
import { startProviders, type ProvidersProcess } from '../demo/providers-process.ts';
import type { StoredDeadLetter } from '../src/dead-letters/letter.ts';
import { tokenOf } from '../src/notification/device.ts';
import { createProgress } from '../src/terminal/progress.ts';
import { WORKER_ENVIRONMENT, LIMITS, lateDevices, type Workload } from './workload.ts';
import { WORKERS, type Fault, WORDS } from './faults.ts';
import { SHARDS, startChaosCluster, type ChaosCluster } from './cluster.ts';
import { startFleet, startKillableRedis, type KillableRedis } from './fleet.ts';
import { inject, type Injected } from './inject.ts';
import { readDelays, readLogs, samplePages, type Logs } from './logs.ts';
import { drain, openChaosQueue, type ChaosTarget, type Ends, enqueue, type Enqueued, type Span } from './queue.ts';

export interface RunOptions {
  readonly seed: number;
  /** Present: the queue is on a Redis Cluster. */
  readonly cluster?: { readonly waitReplicas: number } | undefined;
  readonly plan: readonly Fault[];
  /** The plan, for browsers whose subscriptions lie at this push service. */
  readonly workload: (pushService: string) => Workload;
  readonly marker: string;
  readonly drainTimeoutMs: number;
  /** The folder for the workers' output. Default: a temporary one, removed at the end. */
  readonly keep?: string | undefined;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Everything that was recorded in a run; the result is computed from it. */
export interface Facts {
  readonly enqueued: ReadonlyMap<string, Enqueued>;
  readonly entries: readonly SeenEntry[];
  readonly ends: Ends;
  /** Notification → the last answer to its cancel. */
  readonly cancels: ReadonlyMap<string, boolean>;
  readonly canceledAt: ReadonlyMap<string, Span>;
  /** The queue's prefix. */
  readonly prefix: string;
  readonly injected: Injected;
  readonly leaks: readonly Leak[];
  readonly logs: Logs;
  /** How late the workers sent, by their own measurements. */
  readonly delays: WorkerDelays;
  /** Processes of workers that ended by themselves, or with an error. */
  readonly crashes: readonly number[];
  readonly drainMs: number;
  readonly stalls: ProvidersProcess['stalls'];
  /** Processes that have not ended. */
  readonly left: readonly number[];
}

/** Starts all parts, injects the faults, ends the faults, waits until the queue is empty, and stops all parts. */
export async function run(options: RunOptions): Promise<Facts> {
  const pids: number[] = [];
  const facts = await withParts(options, pids);
  return { ...facts, left: pids.filter(isRunning) };
}

async function withParts(options: RunOptions, pids: number[]): Promise<Omit<Facts, 'left'>> {
  const { seed, plan, marker, say } = options;
  await using cleanup = new AsyncDisposableStack();
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const folder = await openFolder(options.keep, cleanup);
  const { cluster } = options;
  const starting = cluster === undefined ? startKillableRedis(say) : startChaosCluster(say);
  const redis = cleanup.adopt<KillableRedis | ChaosCluster>(await starting, (it) => it.close());
  const providers = cleanup.adopt(await startProviders({ seed }), (it) => it.close());
  const workload = options.workload(providers.env['WEBPUSH_ORIGINS'] ?? '');
  await spoil(providers, workload);
  const queue = cleanup.adopt(openChaosQueue(targetOf(redis)), (it) => it.close());
  const limitsFile = join(folder, 'limits.json');
  await writeFile(limitsFile, JSON.stringify(LIMITS));

  say(`starting ${WORKERS} worker processes`);
  const ofCluster = {
    REDIS_CLUSTER: 'true',
    QUEUE_SHARDS: String(SHARDS),
    REDIS_WAIT_REPLICAS: String(cluster?.waitReplicas ?? 0),
  };
  const places = {
    ...{ REDIS_URL: redis.url, QUEUE_PREFIX: queue.prefix, LIMITS_FILE: limitsFile },
    ...(cluster !== undefined && ofCluster),
  };
  const env = { ...providers.env, ...WORKER_ENVIRONMENT, ...places };
  const fleet = cleanup.adopt(await startFleet({ count: WORKERS, env, logFolder: folder }), (it) => it.stop());
  await fleet.ready();
  await queue.quiet(workload.quiet);

  const sampled = samplePages(() => fleet.urls(), join(folder, 'pages.txt'), signal);
  cleanup.defer(() => {
    over.abort(); // first, so that no fault is injected while the parts stop
    return sampled;
  });

  const total = workload.bursts.length;
  say(`enqueuing ${total} bursts under ${plan.length} faults`);
  const count = workload.malformed.length + workload.bursts.reduce((sum, { items }) => sum + items.length, 0);
  const enqueuing = createProgress('enqueued', count);
  cleanup.defer(() => enqueuing.stop());
  const inputs = new Map(
    workload.bursts.flatMap(({ items }) => items.map(({ input }) => [input.id, { id: input.id, input }] as const)),
  );
  const [{ enqueued, cancels, canceledAt }, injected] = await Promise.all([
    enqueue(workload, { queue, signal, onEnqueued: (done) => enqueuing.update(done) }),
    inject(plan, { fleet, redis, queue, providers, inputs, devices: lateDevices(workload) }, signal),
  ]);
  enqueuing.stop();
  say('all faults have ended; waiting until the queue is empty');
  await fleet.ready();
  const progress = createProgress('ended', count);
  cleanup.defer(() => progress.stop());
  const drainMs = await drain(queue, options.drainTimeoutMs, progress, signal);
  progress.stop();

  const ends = await queue.ends();
  over.abort();
  await Promise.all([fleet.stop(), sampled, providers.order({ do: 'flush' })]);
  await saveListing(env, join(folder, 'dead-letters.txt'));
  const leaks = await searchForLeaks({ folder, marker, env, dead: ends.dead });
  const logs = await readLogs(folder);
  const delays = await readDelays(folder, injected.freezes);
  pids.push(providers.pid, ...fleet.pids, ...redis.pids);
  const { entries, stalls } = providers;
  return {
    ...{ enqueued, entries, ends, cancels, canceledAt, prefix: queue.prefix, injected, leaks, logs, delays },
    ...{ crashes: fleet.crashes, drainMs, stalls },
  };
}

function targetOf(redis: KillableRedis | ChaosCluster): ChaosTarget {
  const isCluster = 'failOver' in redis;
  return { redisUrl: redis.url, cluster: isCluster, shards: isCluster ? SHARDS : 1 };
}

async function openFolder(keep: string | undefined, cleanup: AsyncDisposableStack): Promise<string> {
  if (keep !== undefined) {
    await mkdir(keep, { recursive: true });
    return keep;
  }
  return cleanup.adopt(await mkdtemp(join(tmpdir(), 'pushpacer-chaos-')), (path) =>
    rm(path, { recursive: true, force: true }),
  );
}

/** Scripts the tokens that are gone or bad for the whole run, with more answers than requests will come. */
async function spoil(providers: Pick<ProvidersProcess, 'script'>, { spoilt }: Pick<Workload, 'spoilt'>): Promise<void> {
  for (const { device, how } of spoilt) {
    const answers = Array.from({ length: 200 }, () => WORDS[device.platform][how]);
    await providers.script(device.platform, tokenOf(device), answers);
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

interface LeakSearch {
  /** Where the workers' output and pages were kept. */
  readonly folder: string;
  readonly marker: string;
  readonly env: Readonly<Record<string, string>>;
  readonly dead: readonly StoredDeadLetter[];
}

/** Searches everything that is shown for secrets: logs, pages, and dead letters without the notification itself. */
async function searchForLeaks({ folder, marker, env, dead }: LeakSearch): Promise<Leak[]> {
  const secrets = await secretsOf(marker, env);
  const files = (await readdir(folder)).filter((name) => /\.(log|txt)$/.test(name));
  const leaks: Leak[] = [];
  for (const name of files) leaks.push(...findLeaks(name, await readFile(join(folder, name), 'utf8'), secrets));
  for (const { id, letter } of dead) {
    const said = [letter.reason, letter.message, ...letter.attempts.map(({ error }) => error)].join('\n');
    leaks.push(...findLeaks(`dead letter ${id}`, said, secrets));
  }
  return leaks;
}

const LISTING = fileURLToPath(new URL(`../scripts/dead-letters${extname(import.meta.url)}`, import.meta.url));

/** Writes the output of the command `dead-letters`, plain and as JSON, to a file. */
async function saveListing(env: Readonly<Record<string, string>>, file: string): Promise<void> {
  const said = await Promise.all(
    [[], ['--json']].map((flags) =>
      promisify(execFile)(process.execPath, [LISTING, ...flags], {
        env: { ...process.env, ...env },
        maxBuffer: Infinity,
      }),
    ),
  );
  await writeFile(file, said.flatMap(({ stdout, stderr }) => [stdout, stderr]).join('\n'));
}

/** A text that must not appear anywhere, and its name for the report. */
interface Secret {
  readonly name: string;
  readonly pattern: RegExp;
}

interface Leak {
  readonly where: string;
  readonly name: string;
  readonly times: number;
}

/** A variable with the file of a key. */
const KEY_VARIABLE = /_KEY_FILE$|_CREDENTIALS$/;
/** A line of a key in PEM: 64 characters of base64. */
const KEY_LINE = /[A-Za-z0-9+/=]{40,}/g;

/** The marker in this run's tokens and texts, the lines of the keys, and patterns of credentials. */
export async function secretsOf(marker: string, env: Readonly<Record<string, string>>): Promise<Secret[]> {
  const keys = await Promise.all(
    Object.entries(env)
      .filter(([name]) => KEY_VARIABLE.test(name))
      .map(async ([name, file]) => {
        const text = await readFile(file, 'utf8');
        const lines = text.replaceAll('\\n', '\n').match(KEY_LINE) ?? [];
        return { name: `the key of ${name}`, pattern: new RegExp(lines.map(escaped).join('|'), 'g') };
      }),
  );
  return [
    { name: 'a token or a text', pattern: new RegExp(marker, 'gi') },
    ...keys,
    { name: 'a bearer token', pattern: /bearer\s+\S/gi },
    { name: 'a JWT', pattern: /\beyJ[\w-]{8,}\.[\w-]{8,}\./g },
  ];
}

/** How often each secret appears in a text, without the secret itself. */
export function findLeaks(where: string, text: string, secrets: readonly Secret[]): Leak[] {
  return secrets
    .map(({ name, pattern }) => ({ where, name, times: text.match(pattern)?.length ?? 0 }))
    .filter(({ times }) => times > 0);
}

/** `+` is the only character of base64 with a meaning in a regular expression. */
function escaped(base64: string): string {
  return base64.replaceAll('+', '\\+');
}
