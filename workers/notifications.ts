/**
 * One worker: the only place where its parts are created. The files, in the order of a start:
 *
 * - notifications.ts: the program, from its environment to its exit
 * - parent.ts: whether npm started it, and whether npm has ended
 * - follow.ts: creates the parts again when the queues change
 * - replica.ts: all parts, created in order and closed in the reverse order
 * - layout.ts: which queues there are; moves what appears in former ones
 * - redis.ts: the connections, and the queues of each shard
 * - accounts.ts: the provider and the quota of each account; new credentials without a restart
 * - breakers.ts: the circuit breakers, logged and counted
 * - reach.ts: logs which providers cannot be reached, and since when
 * - wedge.ts: notices that the worker has stopped taking jobs although it could
 * - losses.ts: notices that Redis has lost data, or may evict keys
 * - pages.ts: `/metrics`, `/healthz` and `/readyz`, and this worker's entry in the registry of workers
 * - passes.ts: what a pass does with its job
 * - limiters.ts: the limiters, timed and counted, and confirmed by replicas of Redis
 * - watchers.ts: what looks at passes and at replies of providers: log, metrics, traces, stories, the stream of outcomes
 * - consumer.ts: one queue: its BullMQ worker, its clock, and the locks that were lost
 * - dead-letters.ts: failed jobs moved to the dead letters, and dead letters beyond their bounds removed
 */
import { isatty } from 'node:tty';
import { accountsOf } from '../src/config/apps-file.ts';
import { loadConfig, type Config } from '../src/config/config.ts';
import { CONFIG_VARIABLES, unknownText, unknownVariables } from '../src/config/variables.ts';
import { printable } from '../src/domain/faults.ts';
import { PLATFORMS } from '../src/notification/notification.ts';
import { createLog, type Logger } from '../src/observe/log.ts';
import { startTracing } from '../src/observe/tracing-sdk.ts';
import { createCommand, runCommand, helpItem } from '../src/terminal/command.ts';
import { columnsOf } from '../src/terminal/text.ts';
import { findParent, isUnattended, STARTED_BY_NPM, whenGone, type Parent } from './parent.ts';
import { startFollowing } from './follow.ts';

/** Runs one worker, by its environment, until SIGTERM or SIGINT. Exit 1 if it cannot start, 2 on bad usage. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand(
    'worker',
    'Runs one replica until SIGTERM or SIGINT. Variables say all, so there are no flags.',
  )
    .addHelpText('after', variablesHelp)
    .action(() => work(loadConfig(process.env)));
  await runCommand(command, argv);
}

function variablesHelp(): string {
  const rows = CONFIG_VARIABLES.map(({ name, default: value, meaning }) =>
    helpItem(name, `${meaning}${value === undefined ? '' : ` (${value})`}`, 30, columnsOf() ?? Infinity),
  );
  return `\nVariables (defaults in brackets):\n${rows.join('\n').replaceAll('`', '')}`;
}

async function work(config: Config): Promise<void> {
  const parent = findParent(process.env);
  const log = createLog(config.logLevel);
  exitOnUncaught(log);
  for (const unknown of unknownVariables(process.env)) {
    log.warn({ variable: printable(unknown.name), meant: unknown.meant }, printable(unknownText(unknown)));
  }
  if (accountsOf(config).size === 0) log.warn(NO_CREDENTIALS);
  if (parent.isNpm && isUnattended()) log.warn(STARTED_BY_NPM);

  const signal = onStop(log, parent, async () => {
    await (await starting).stop();
    const endTracing = await tracing;
    await endTracing();
  });
  const tracing = startTracing(process.env, 'pushpacer-worker', (message) => log.warn(message));
  const starting = tracing.then(() => startFollowing(config, log, { signal, env: process.env }));
  process.on('SIGHUP', (why) => {
    if (isTerminalClosed()) return; // onStop stops the worker
    starting.then((replica) => replica.reload(why)).catch(() => undefined); // a start that fails is logged below
  });
  try {
    const { url, workerIds } = await starting;
    const platforms = Object.fromEntries(PLATFORMS.map((platform) => [platform, platform in config.providers]));
    const names = { ...config.queue, platforms, ...(config.apps.size > 0 && { apps: config.apps.size }) };
    log.info({ ...names, policy: config.policy, metrics: url, workerIds }, 'ready');
  } catch (error) {
    if (signal.aborted) return; // onStop logs it
    log.fatal({ err: error }, 'the worker could not start, and exits with code 1');
    process.exit(1);
  }
}

const NO_CREDENTIALS =
  'no platform has credentials (ALLOW_NO_CREDENTIALS): this worker sends nothing. Other workers get its notifications; where ' +
  'none has credentials for as long as CREDENTIALS_WAIT, they become dead letters, provider-not-configured';

/**
 * Without this handler Node would print all fields of the error, and Redis's client puts the arguments of a refused command
 * into one.
 */
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

/**
 * Whether the terminal in which the worker was started is closed. SIGHUP then means to stop; otherwise it means to read the
 * files again.
 */
function isTerminalClosed(): boolean {
  return HAS_TERMINAL && !isatty(1);
}

/**
 * Stops the worker on the first signal, also while it is starting, and exits with 0, or with 1 if the stop failed. A second
 * signal exits at once. The returned signal fires with the first one.
 */
function onStop(log: Logger, parent: Parent, stop: () => Promise<void>): AbortSignal {
  const stopping = new AbortController();
  const begin = (why: string): void => {
    if (stopping.signal.aborted) process.exit(1);
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
  whenGone(parent, end('npm, which started this worker, has ended'));
  return stopping.signal;
}

if (import.meta.main) await main(process.argv.slice(2));
