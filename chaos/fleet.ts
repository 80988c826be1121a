import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, pagesUrl, spawnWorker } from '../demo/replicas.ts';
import { arrivalInstant } from '../sandbox/journal.ts';
import { startEmbeddedRedis, type EmbeddedRedis, freePort } from '../sandbox/redis/embedded-redis.ts';
import type { LogLine, Logs } from './logs.ts';

/** The workers, each at a numbered place. A worker that is killed or restarted is replaced at its place. */
export interface Fleet {
  /** Freezes the worker, calls `witness` (which reads the jobs that it has) with its log, kills it, and starts another one. */
  kill(place: number, witness: (log: string) => Promise<void>): Promise<void>;
  /**
   * Freezes it for a while, and calls `witness`, which reads the jobs that it has. On a busy machine that takes long: then it stays frozen
   * until they are read, 2 s longer at most, and not for so long that it loses its job locks where it would have kept them.
   */
  freeze(place: number, ms: number, witness: () => Promise<void>): Promise<Omit<Freeze, 'holders'>>;
  /** Starts another one, and sends SIGTERM to this one. */
  restart(place: number): Promise<void>;
  /** Starts one more at no place. It stops by SIGTERM so long after it took its first jobs; resolves then. */
  visit(visitor: Visitor, ms: number): Promise<void>;
  /** The addresses of the pages of all workers that take jobs. */
  urls(): string[];
  /** Resolves when the worker at every place takes jobs; rejects if one does not. */
  ready(): Promise<unknown>;
  /** Every process that was ever started. */
  readonly pids: readonly number[];
  /** Workers that ended by themselves, or that ended with an error after SIGTERM. */
  readonly crashes: readonly number[];
  stop(): Promise<void>;
}

interface FleetOptions {
  readonly count: number;
  readonly env: Readonly<Record<string, string>>;
  /** Each worker's output is a file in this folder. */
  readonly logFolder: string;
}

/** A worker beside those of the fleet. */
export interface Visitor {
  /** In the name of its log. */
  readonly name: string;
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The path of its program. Default: the worker of this checkout. */
  readonly program?: string | undefined;
}

/** A worker that does not end within this time after SIGTERM is killed. */
const STOP_MS = 20_000;

export async function startFleet({ count, env, logFolder }: FleetOptions): Promise<Fleet> {
  const pids: number[] = [];
  const crashes: number[] = [];
  /** Every worker that was started, and the end of those that were sent SIGTERM. */
  const all = new Map<ChaosWorker, Promise<void> | undefined>();
  const endOnce = (worker: ChaosWorker): Promise<void> => {
    const ending = all.get(worker) ?? end(worker);
    all.set(worker, ending);
    return ending;
  };
  let isStopped = false;
  /** Killed by this run. */
  const killed = new Set<ChaosWorker>();
  /** Sent SIGTERM by this run. */
  const stopping = new Set<ChaosWorker>();
  let started = 0;
  const start = async (visitor?: Visitor): Promise<ChaosWorker> => {
    const name = visitor === undefined ? '' : `-${visitor.name}`;
    const logFile = join(logFolder, `worker-${started++}${name}.log`);
    const worker = await startWorker(visitor?.env ?? env, logFile, visitor?.program);
    pids.push(worker.pid);
    all.set(worker, undefined);
    if (isStopped) await endOnce(worker); // the run has failed, and a fault was under way
    void worker.ended.then((code) => {
      if (!killed.has(worker) && !(stopping.has(worker) && code === 0)) crashes.push(worker.pid);
    });
    return worker;
  };
  const places = await Promise.all(Array.from({ length: count }, () => start()));
  const turns = places.map(() => Promise.resolve<unknown>(undefined));
  /** One fault after the other: where a worker is slow to start, the next one waits until it can strike. */
  const strike = <T>(place: number, work: (worker: ChaosWorker) => Promise<T>): Promise<T> => {
    const struck = (turns[place] ?? Promise.resolve()).then(async () => {
      const worker = places[place];
      if (worker === undefined) throw new RangeError(`no worker at place ${place}`);
      await worker.ready.catch(() => undefined);
      return work(worker);
    });
    turns[place] = struck.catch(() => undefined);
    return struck;
  };

  return {
    pids,
    crashes,
    kill: (place, witness) =>
      strike(place, async (worker) => {
        killed.add(worker);
        worker.signal('SIGSTOP');
        await witness(basename(worker.logFile));
        worker.signal('SIGKILL');
        await worker.ended;
        places[place] = await start();
      }),
    freeze: (place, ms, witness) =>
      strike(place, async (worker) => {
        const at = arrivalInstant();
        const mostMs = ms < HARMLESS_STOP_MS ? HARMLESS_STOP_MS : ms + WITNESS_MS;
        await worker.freeze(Promise.all([sleep(ms), witness()]), mostMs);
        const thawedAt = arrivalInstant();
        return { log: basename(worker.logFile), at, forMs: ms, thawedAt };
      }),
    restart: (place) =>
      strike(place, async (worker) => {
        stopping.add(worker);
        places[place] = await start();
        void endOnce(worker);
      }),
    async visit(visitor, ms) {
      const worker = await start(visitor);
      await worker.ready;
      await sleep(ms);
      stopping.add(worker);
      await endOnce(worker);
    },
    urls: () => places.map((worker) => worker.url()).filter((url) => url !== undefined),
    ready: () => Promise.all(places.map(({ ready }) => ready)),
    async stop() {
      isStopped = true;
      for (const worker of places) stopping.add(worker);
      await Promise.all([...all.keys()].map(endOnce));
    },
  };
}

async function end(worker: ChaosWorker): Promise<void> {
  if (!worker.isAlive()) return;
  worker.signal('SIGTERM');
  worker.signal('SIGCONT'); // it may be frozen
  const late = sleep(STOP_MS, true, { ref: false });
  if ((await Promise.race([worker.ended, late])) === true) worker.signal('SIGKILL');
  await worker.ended;
}

/** One worker process. Its output goes to a file, so that no line is lost if it is killed. */
interface ChaosWorker {
  readonly pid: number;
  /** Where its output goes. */
  readonly logFile: string;
  /** Resolves when it takes jobs; rejects if it ends before, or takes longer than two minutes. */
  readonly ready: Promise<unknown>;
  /** The address of its pages, while it takes jobs. */
  url(): string | undefined;
  /** Its exit code; null if a signal ended it. */
  readonly ended: Promise<number | null>;
  isAlive(): boolean;
  signal(name: NodeJS.Signals): void;
  /** SIGSTOP now, SIGCONT when `until` resolves; after `mostMs` in any case, even if this process has ended by then. */
  freeze(until: Promise<unknown>, mostMs: number): Promise<void>;
}

/** A worker that is frozen for long stays so for at most this much longer, until its jobs are read. */
const WITNESS_MS = 2_000;
const POLL_MS = 50;
/** A worker waits up to 30 s for a Redis that is away; the rest is for a busy machine, and for being frozen meanwhile. */
const READY_TIMEOUT_MS = 120_000;

async function startWorker(
  env: Readonly<Record<string, string>>,
  logFile: string,
  program?: string,
): Promise<ChaosWorker> {
  const log = await open(logFile, 'w');
  const child = spawnWorker(env, [log.fd, log.fd], true, program);
  await log.close(); // the child has its own
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const pid = child.pid ?? 0;
  let url: string | undefined;
  const ready = untilReady(logFile, () => isAlive(child)).then((its) => (url = its));
  ready.catch(() => undefined); // the caller of `ready` gets the error
  return {
    pid,
    logFile,
    ready,
    ended,
    url: () => (isAlive(child) ? url : undefined),
    isAlive: () => isAlive(child),
    signal: (name) => void child.kill(name),
    async freeze(until, mostMs) {
      child.kill('SIGSTOP');
      const waker = spawn(
        'sh',
        ['-c', 'sleep "$1"; kill -CONT "$2" 2>/dev/null', 'sh', String(mostMs / 1_000), String(pid)],
        {
          stdio: 'ignore',
          detached: true, // Ctrl-C must not leave a frozen worker behind
        },
      );
      waker.unref();
      const woken = once(waker, 'exit');
      await Promise.race([until, woken]);
      child.kill('SIGCONT');
      waker.kill(); // else it might wake the worker in the middle of its next freeze
      await woken;
    },
  };
}

/** The address of its pages, from the log line that says that it is ready. */
async function untilReady(logFile: string, alive: () => boolean): Promise<string | undefined> {
  const deadline = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    const isStillAlive = alive();
    const line = (await readFile(logFile, 'utf8')).split('\n').find((text) => text.includes('"msg":"ready"'));
    if (line !== undefined) return pagesUrl(line);
    if (!isStillAlive) throw new Error(`a worker ended before it was ready; see ${logFile}`);
    if (performance.now() > deadline) {
      throw new Error(`a worker was not ready within ${READY_TIMEOUT_MS / 1_000} s; see ${logFile}`);
    }
    await sleep(POLL_MS);
  }
}

/** A fault after which the notifications that workers had may alert a second time. */
export interface Incident {
  readonly kind: 'kill' | 'stop' | 'redis' | 'lock';
  /** When the fault began, and until when these notifications may still have been sent; epoch milliseconds. */
  readonly at: number;
  readonly until: number;
  /** The notifications that workers had at that time. */
  readonly ids: ReadonlySet<string>;
  /** The name of the log of the worker that was killed. */
  readonly log?: string;
}

/** A worker that was frozen for a while (SIGSTOP). Instants are epoch milliseconds. */
export interface Freeze {
  /** The name of its log. */
  readonly log: string;
  /** Just before SIGSTOP. */
  readonly at: number;
  readonly forMs: number;
  /** Just after SIGCONT. */
  readonly thawedAt: number;
  /**
   * Notification → holder of its job lock, for all jobs that workers had during the freeze. Empty if Redis did not answer before
   * the thaw; then the worker's log says what it had.
   */
  readonly holders: ReadonlyMap<string, string>;
}

/** What a frozen worker may have sent late: these notifications, with an arrival between these instants. */
export interface Thaw {
  readonly ids: ReadonlySet<string>;
  readonly from: number;
  readonly until: number;
}

/** A worker that is frozen for less keeps its job locks: they last 5 s and are renewed every half of that. */
export const HARMLESS_STOP_MS = 2_000;
/**
 * A request that was being written when the freeze began leaves first after the thaw, and arrives within this time. A later
 * arrival was sent by a process that was running.
 */
const AFTER_THAW_MS = 250;
/** A pass that a freeze interrupted is in the log within this time: a request times out after 10 s. */
const LOGGED_WITHIN_MS = 12_000;

/** What may have been sent late after each freeze. */
export function thawsOf(freezes: readonly Freeze[], logs: Logs): Thaw[] {
  return freezes.map((freeze) => ({
    ids: freeze.holders.size > 0 ? inHandOf(freeze, logs.get(freeze.log) ?? []) : loggedAfter(freeze, logs),
    // SIGCONT came no earlier than this.
    from: freeze.at + freeze.forMs,
    until: freeze.thawedAt + AFTER_THAW_MS,
  }));
}

/**
 * Freezes during which Redis could not be asked for the jobs: it was paused or away, or this machine was too busy. Then the worker's
 * own log is used: after the thaw it has the passes that the freeze interrupted.
 */
export function stopsWithoutRedis(freezes: readonly Freeze[], logs: Logs): Incident[] {
  const unknown = freezes.filter(({ holders, forMs }) => holders.size === 0 && forMs >= HARMLESS_STOP_MS);
  return unknown.map((freeze) => ({
    kind: 'stop',
    at: freeze.at,
    until: freeze.at,
    ids: loggedAfter(freeze, logs),
  }));
}

/** The notifications whose passes the worker logged after the thaw: those that the freeze interrupted, and some that came later. */
function loggedAfter({ log, at, forMs, thawedAt }: Freeze, logs: Logs): ReadonlySet<string> {
  const lines = (logs.get(log) ?? []).filter(
    (line) => line.at >= at + forMs - 1 && line.at <= thawedAt + LOGGED_WITHIN_MS,
  );
  return new Set(lines.flatMap(({ id }) => id ?? []));
}

/** Longer than a job lock lasts, and until another worker has the job. */
const LOCK_MS = 20_000;

/** Jobs that went to another worker, as the one that had them says: on a busy machine it did not renew their job locks in time. */
export function lostLocks(logs: Logs): Incident[] {
  return [...logs.values()].flat().flatMap(({ at, lostJobs = [] }) => {
    return lostJobs.length === 0 ? [] : [{ kind: 'lock', at: at - LOCK_MS, until: at, ids: new Set(lostJobs) }];
  });
}

/** The notifications that the frozen worker itself had: those whose job lock has one of its ids. */
function inHandOf({ holders }: Freeze, log: readonly LogLine[]): ReadonlySet<string> {
  const own = new Set(log.flatMap(({ workerIds }) => workerIds ?? []));
  return new Set([...holders].filter(([, holder]) => own.has(holder)).map(([id]) => id));
}

/** A Redis that can be killed and started again on the same port, with every write that it had acknowledged. */
export interface KillableRedis {
  readonly url: string;
  /** The process of each time that it was started. */
  readonly pids: readonly number[];
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** Resolves when it answers again. */
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Redis may take long to load a large file. */
const START_TIMEOUT_MS = 60_000;
/**
 * With `everysec` Redis acknowledges writes up to two seconds before they are in its file, and a kill loses these; but this run
 * checks the workers, not Redis.
 */
const DURABLE = ['--appendfsync', 'always', '--auto-aof-rewrite-min-size', '256mb'];

export async function startKillableRedis(say: (line: string) => void): Promise<KillableRedis> {
  const dir = await mkdtemp(join(tmpdir(), 'pushpacer-chaos-redis-'));
  const port = await freePort();
  const pids: number[] = [];
  const open = async (): Promise<EmbeddedRedis> => {
    const options = {
      dir,
      port,
      appendonly: true,
      extraArgs: DURABLE,
      startTimeoutMs: START_TIMEOUT_MS,
      say,
      install: true,
    };
    const started = await startEmbeddedRedis(options);
    pids.push(started.pid);
    return started;
  };
  const remove = () => rm(dir, { recursive: true, force: true });
  let server = open();
  const { url } = await server.catch(async (error: unknown) => {
    await remove();
    throw error;
  });
  return {
    url,
    pids,
    async kill() {
      const { pid, ended } = await server;
      process.kill(pid, 'SIGKILL');
      await ended;
    },
    async start() {
      server = open();
      await server;
    },
    async close() {
      await server.then((started) => started.close()).finally(remove);
    },
  };
}
