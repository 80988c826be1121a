import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Config } from '../src/config/config.ts';
import { within } from '../src/domain/time.ts';
import type { Environment } from '../src/environment/values.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Pages, Sickness } from '../src/observe/server.ts';
import { createTotalMetrics, type WorkerMetrics } from '../src/observe/total-metrics.ts';
import { servePages } from './pages.ts';
import { NUMBER_VARIABLE, type Asked, type Question, type Told } from './parent.ts';
import type { Replica } from './replica.ts';

export interface ProcessesOptions {
  /** The file of the program that each process runs: a worker. */
  readonly program: string;
  readonly env: Environment;
  /** Fires when the parent is to stop, also while it starts its workers. */
  readonly signal: AbortSignal;
}

/** The wait before a worker that ended is started again. It doubles each time; after a run of STEADY_MS it is shortest. */
const AWAY_MS = { least: 1_000, most: 30_000 };
const STEADY_MS = 60_000;
/** How long the parent waits for the answer of a worker. The worker itself waits for Redis for a second. */
const ANSWER_MS = 3_000;
/** How much longer than SHUTDOWN_GRACE a worker may take to end. */
const CLOSE_MS = 10_000;

/**
 * As `startReplica`, with several workers, each in a process of its own. They share the variables and standard output. This
 * process starts them, starts a worker again when it has ended, stops them together, and serves the pages of all. The first
 * worker starts alone: if it fails, the others would fail too. So there is one message, and this process ends with the exit
 * code of that worker. A worker whose parent is gone stops by itself, since its IPC channel is closed.
 */
export async function startProcesses(
  config: Config,
  log: Logger,
  { program, env, signal }: ProcessesOptions,
): Promise<Replica> {
  const workers = Array.from({ length: config.processes }, (_, index) => createProcess(index + 1, program, env, log));
  process.on('exit', () => workers.forEach((worker) => worker.signal('SIGKILL'))); // after a later signal, for example
  const pages = config.metrics && (await servePages(config.metrics, pagesOf(workers), log));

  async function stop(): Promise<void> {
    const stopped = await within(Promise.allSettled(workers.map((worker) => worker.stop())), graceMs);
    await pages?.close();
    if (stopped === undefined) throw new Error(`a worker did not end within ${graceMs} ms, and is killed`);
    const failed = stopped.find((each) => each.status === 'rejected');
    if (failed !== undefined) throw failed.reason as Error;
  }
  const graceMs = config.shutdownGraceMs + CLOSE_MS;

  const stopping = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
  });
  try {
    signal.throwIfAborted();
    const [first, ...others] = workers;
    await Promise.race([first?.start(), stopping]);
    await Promise.race([Promise.all(others.map((worker) => worker.start())), stopping]);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url: pages?.url,
    get workerIds() {
      return workers.flatMap((worker) => worker.workerIds());
    },
    shards: undefined,
    reload: () => workers.forEach((worker) => worker.reload()),
    stop,
  };
}

/** One worker, in a process that is started again whenever it ends. */
interface WorkerProcess {
  readonly number: number;
  pid(): number | undefined;
  /** The ids of its BullMQ workers; empty while it takes no jobs. */
  workerIds(): readonly string[];
  /** Resolves when the worker takes jobs for the first time. */
  start(): Promise<void>;
  /** Undefined if the worker takes no jobs, or does not answer in time. */
  ask(question: Question): Promise<{ readonly answer: unknown } | undefined>;
  /** Makes the worker read its credentials again. A worker that is still starting gets no signal: it reads them anyway. */
  reload(): void;
  signal(name: NodeJS.Signals): void;
  /** Stops the worker, and does not start it again. Rejects if the worker ends with an error. */
  stop(): Promise<void>;
}

function createProcess(number: number, program: string, env: Environment, log: Logger): WorkerProcess {
  const started = Promise.withResolvers<undefined>();
  const questions = new Map<number, (told: { readonly answer: unknown }) => void>();
  let child: ChildProcess | undefined;
  let workerIds: readonly string[] = [];
  let [wasReady, isStopped] = [false, false];
  let [ends, asked] = [0, 0];
  let timer: NodeJS.Timeout | undefined;

  function start(): void {
    const startedAt = performance.now();
    // Without npm's variables the worker does not look for npm as its parent: npm may have started this process, not the worker.
    const own = { WORKER_PROCESSES: '1', npm_command: undefined, npm_lifecycle_event: undefined };
    const ended = (how: object, exitCode?: number | null): void => {
      child = undefined;
      workerIds = [];
      if (isStopped) return;
      if (number === 1 && !wasReady && exitCode) process.exit(exitCode); // the worker has said why
      ends = performance.now() - startedAt < STEADY_MS ? ends + 1 : 1;
      const inMs = Math.min(AWAY_MS.least * 2 ** (ends - 1), AWAY_MS.most);
      log.error({ worker: number, ...how, inMs }, 'a worker has ended: it is started again in `inMs`');
      timer = setTimeout(start, inMs);
    };
    try {
      const next = fork(program, [], {
        env: { ...env, ...own, [NUMBER_VARIABLE]: String(number) },
        serialization: 'advanced', // also for numbers such as NaN, which JSON cannot carry
      });
      child = next;
      next.on('message', (message) => hear(message as Told));
      next.once('exit', (exitCode, signal) => ended({ endedPid: next.pid, exitCode, signal }, exitCode));
      next.on('error', (error) => next.pid === undefined && ended({ err: error }));
    } catch (error) {
      ended({ err: error });
    }
  }

  function hear(told: Told): void {
    if ('id' in told) {
      questions.get(told.id)?.(told);
      return;
    }
    workerIds = told.workerIds;
    wasReady = true;
    started.resolve(undefined);
  }

  return {
    number,
    pid: () => child?.pid,
    workerIds: () => workerIds,
    start: () => {
      start();
      return started.promise;
    },
    async ask(question) {
      if (child === undefined || workerIds.length === 0) return undefined;
      const { promise, resolve } = Promise.withResolvers<{ readonly answer: unknown }>();
      const id = ++asked;
      questions.set(id, resolve);
      child.send({ id, question } satisfies Asked, () => undefined); // the worker may have ended
      const answered = await within(promise, ANSWER_MS);
      questions.delete(id);
      return answered;
    },
    reload: () => workerIds.length > 0 && child?.kill('SIGHUP'),
    signal: (name) => child?.kill(name),
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      if (child === undefined) return;
      const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
      child.kill('SIGTERM');
      const [code, signal] = await exit;
      // A worker that is still loading its modules has no handler yet, so the signal itself ends it.
      if (code !== 0 && signal !== 'SIGTERM' && signal !== 'SIGINT') {
        throw new Error(`worker ${number} ended with ${signal ?? `exit code ${code}`}`);
      }
    },
  };
}

const SILENT = {
  reason: 'silent',
  message: 'it does not answer its parent: end it, and the parent starts another one',
};

function pagesOf(workers: readonly WorkerProcess[]): Pages {
  const totals = createTotalMetrics();
  return {
    async metrics() {
      const answering = new Set<number>();
      const notes = workers.map(async (worker) => {
        const answered = await worker.ask('metrics');
        if (answered === undefined) return;
        answering.add(worker.number);
        totals.note(worker.number, answered.answer as WorkerMetrics);
      });
      await Promise.all(notes);
      const page = totals.page(answering);
      return { contentType: page.contentType, body: await page.metrics() };
    },
    /** The first worker that is sick. A worker that has ended does not count as sick: it is started again. */
    async sick() {
      const looks = workers.map(async (worker): Promise<Sickness> => {
        const pid = worker.pid();
        const answered = await worker.ask('sick');
        // Meanwhile the worker may have got a new process, or may take no jobs any more.
        const isSilent = answered === undefined && worker.workerIds().length > 0 && worker.pid() === pid;
        const sick = isSilent ? SILENT : (answered?.answer as Sickness);
        return sick && { ...sick, worker: worker.number, pid };
      });
      return (await Promise.all(looks)).find((sick) => sick !== undefined);
    },
    async ready() {
      const looks = workers.map(async (worker) => {
        const answered = await worker.ask('ready');
        const { ok, detail } = (answered?.answer ?? { ok: false, detail: {} }) as Awaited<ReturnType<Pages['ready']>>;
        return { worker: worker.number, pid: worker.pid(), ok, ...detail };
      });
      const states = await Promise.all(looks);
      return { ok: states.every(({ ok }) => ok), detail: { workers: states } };
    },
  };
}
