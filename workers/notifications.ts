/**
 * One worker: the only place where its parts are created. The files, in the order of a start:
 *
 * - notifications.ts: the program, from its environment to its exit
 * - parent.ts: whether npm started the worker, and whether npm has ended; how a worker talks to the parent of several workers
 * - processes.ts: that parent: starts several workers, each in a process of its own, and stops them together
 * - follow.ts: creates the parts again when the queues change
 * - replica.ts: all parts, created in order and closed in the reverse order
 * - layout.ts: which queues there are; moves jobs that appear in former queues
 * - redis.ts: the connections, and the queues of each shard
 * - accounts.ts: the provider and the quota of each account; new credentials without a restart
 * - breakers.ts: the circuit breakers, logged and counted
 * - reach.ts: logs which providers cannot be reached, and since when
 * - wedge.ts: notices that the worker has stopped taking jobs although it could
 * - losses.ts: notices that Redis has lost data, or may evict keys
 * - pages.ts: `/metrics`, `/healthz` and `/readyz`, and this worker's entry in the registry of workers
 * - passes.ts: what a pass does with its job
 * - limiters.ts: the limiters, timed and counted, and confirmed by replicas of Redis
 * - watchers.ts: log, metrics, traces, stories and the stream of outcomes, which learn of each pass and each provider's reply
 * - consumer.ts: one queue: its BullMQ worker, its clock, and the locks that were lost
 * - dead-letters.ts: moves failed jobs to the dead letters, and removes dead letters beyond the bounds
 */
import { isatty } from 'node:tty';
import { accountsOf } from '../src/config/apps-file.ts';
import { loadConfig, type Config } from '../src/config/config.ts';
import {
  CONFIG_VARIABLES,
  parseProcesses,
  PROCESSES_FORMAT,
  unknownText,
  unknownVariables,
} from '../src/config/variables.ts';
import { printable } from '../src/domain/faults.ts';
import { PLATFORMS } from '../src/notification/notification.ts';
import { createLog, type Logger } from '../src/observe/log.ts';
import { startTracing } from '../src/observe/tracing-sdk.ts';
import { createCommand, createStopSignals, runCommand, helpItem, UsageError } from '../src/terminal/command.ts';
import { columnsOf } from '../src/terminal/text.ts';
import { startFollowing } from './follow.ts';
import { findParent, isUnattended, numberOf, STARTED_BY_NPM, tellWorkerIds, whenGone, type Parent } from './parent.ts';
import { startProcesses } from './processes.ts';

/** Runs one worker, or several under one parent, by the environment, until SIGTERM or SIGINT. Exit 1 if none can start, 2 on bad usage. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand(
    'worker',
    'Runs one worker, or several, until SIGTERM or SIGINT. Variables say all that the flag does not.',
  )
    .option('--processes <n>', 'so many workers, each in a process; auto: one for each core', processesOf)
    .addHelpText('after', variablesHelp)
    .action(({ processes }: { readonly processes?: number }) => {
      return work({ ...loadConfig(process.env), ...(processes !== undefined && { processes }) });
    });
  await runCommand(command, argv);
}

function processesOf(text: string): number {
  const processes = parseProcesses(text);
  if (processes !== undefined) return processes;
  throw new UsageError(`--processes: expected ${PROCESSES_FORMAT}, found ${JSON.stringify(text)}`);
}

function variablesHelp(): string {
  const rows = CONFIG_VARIABLES.map(({ name, default: value, meaning }) =>
    helpItem(name, `${meaning}${value === undefined ? '' : ` (${value})`}`, 30, columnsOf() ?? Infinity),
  );
  return `\nVariables (defaults in brackets):\n${rows.join('\n').replaceAll('`', '')}`;
}

async function work(config: Config): Promise<void> {
  const parent = findParent(process.env);
  const worker = numberOf(process.env);
  const log = worker === undefined ? createLog(config.logLevel) : createLog(config.logLevel).child({ worker });
  exitOnUncaught(log);
  if (worker === undefined) warnOfStart(config, parent, log);

  const signal = onStop(log, parent, async () => {
    await (await starting).stop();
    const endTracing = await tracing;
    await endTracing();
  });
  const isParent = config.processes > 1;
  const tracing = startTracing(isParent ? {} : process.env, 'pushpacer-worker', (message) => log.warn(message));
  const start = isParent ? startProcesses : startFollowing;
  const starting = tracing.then(() => start(config, log, { signal, env: process.env, program: import.meta.filename }));
  process.on('SIGHUP', (why) => {
    if (isTerminalClosed()) return; // onStop stops the worker
    starting.then((replica) => replica.reload(why)).catch(() => undefined); // a start that fails is logged below
  });
  try {
    const { url, workerIds, shards } = await starting;
    const platforms = Object.fromEntries(PLATFORMS.map((platform) => [platform, platform in config.providers]));
    const names = {
      prefix: config.queue.prefix,
      shards,
      platforms,
      ...(config.apps.size > 0 && { apps: config.apps.size }),
    };
    const processes = isParent && { processes: config.processes };
    log.info(
      { ...names, ...processes, policy: config.policy, metrics: url, workerIds },
      worker === undefined ? 'ready' : 'this worker is ready',
    );
    tellWorkerIds(workerIds, process.env);
  } catch (error) {
    if (signal.aborted) return; // onStop logs it
    log.fatal({ err: error }, 'the worker could not start, and exits with code 1');
    process.exit(1);
  }
}

function warnOfStart(config: Config, parent: Parent, log: Logger): void {
  for (const unknown of unknownVariables(process.env)) {
    log.warn({ variable: printable(unknown.name), meant: unknown.meant }, printable(unknownText(unknown)));
  }
  if (accountsOf(config).size === 0) log.warn(NO_CREDENTIALS);
  if (parent.isNpm && isUnattended()) log.warn(STARTED_BY_NPM);
}

const NO_CREDENTIALS =
  'no platform has credentials (ALLOW_NO_CREDENTIALS): this worker sends nothing. Other workers get its notifications; where ' +
  'none has credentials for as long as CREDENTIALS_WAIT, they become dead letters, provider-not-configured';

/** Without this handler Node would print all fields of the error, such as the arguments of a command that Redis refused. */
function exitOnUncaught(log: Logger): void {
  process.on('uncaughtException', (error: unknown) => {
    log.fatal(
      { err: error },
      'unexpected error outside of any job: the worker exits with code 1; its jobs run again when their locks have run out',
    );
    process.exit(1);
  });
}

const HAS_TERMINAL = isatty(1);

/** Whether the worker's terminal is closed. Then SIGHUP means to stop; otherwise it means to read the files again. */
function isTerminalClosed(): boolean {
  return HAS_TERMINAL && !isatty(1);
}

/**
 * Stops the worker on the first signal, also while it is starting, and exits with 0, or with 1 if the stop failed. A later
 * signal exits at once, except in a worker with a parent: the parent passes the first signal on, and kills its workers at the
 * second. The returned signal fires at the first one.
 */
function onStop(log: Logger, parent: Parent, stop: () => Promise<void>): AbortSignal {
  const stopping = new AbortController();
  const signals = createStopSignals();
  const begin = (why: string): void => {
    const isLater = signals() === 'later';
    if (stopping.signal.aborted) {
      if (isLater && numberOf(process.env) === undefined) process.exit(1);
      return;
    }
    stopping.abort();
    log.info({ why }, 'stopping: no more jobs are taken, those under way are finished within SHUTDOWN_GRACE');
    stop().then(
      () => {
        log.info('stopped');
        process.exit(0);
      },
      (error: unknown) => {
        const wasStarting = error === stopping.signal.reason;
        if (wasStarting) log.info('stopped before it was ready');
        else
          log.fatal(
            { err: error },
            'the worker could not close all of its parts, and exits with code 1; its jobs run again when their locks have run out',
          );
        process.exit(wasStarting ? 0 : 1);
      },
    );
  };
  process.on('SIGTERM', begin).on('SIGINT', begin);
  process.on('SIGHUP', (why) => {
    if (isTerminalClosed() && !stopping.signal.aborted) begin(why); // the shell may send SIGHUP a second time
  });
  // A worker that was started with an IPC channel (for example by the demo), or by npm, ends with its parent.
  const end = (why: string) => (): void => {
    if (!stopping.signal.aborted) begin(why);
  };
  process.once('disconnect', end('disconnect'));
  if (process.send !== undefined && !process.connected) queueMicrotask(end('disconnect')); // the parent has gone already
  whenGone(parent, end('npm, which started this worker, has ended'));
  return stopping.signal;
}

if (import.meta.main) await main(process.argv.slice(2));
