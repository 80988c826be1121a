import { parseArgs } from 'node:util';
import { loadConfig, type Config } from '../src/config/config.ts';
import { CONFIG_VARIABLES } from '../src/config/documentation.ts';
import { InputError } from '../src/domain/faults.ts';
import { createLog } from '../src/observe/log.ts';
import { startReplica, type Replica } from './replica.ts';

/** One replica, from the environment, until SIGTERM or SIGINT. Exit 1 where it cannot start, 2 on bad usage. */
export async function main(argv: readonly string[]): Promise<void> {
  const config = isHelpOnly(argv) ? undefined : readConfig();
  if (config === undefined) return;
  const log = createLog(config.logLevel);
  let replica: Replica;
  try {
    replica = await startReplica(config, log);
  } catch (error) {
    log.fatal({ err: error }, 'the worker could not start');
    process.exitCode = 1;
    return;
  }
  const { prefix, shards } = config.queue;
  const platforms = { apns: config.apns !== undefined, fcm: config.fcm !== undefined };
  if (!platforms.apns && !platforms.fcm)
    log.warn('no platform has credentials: every notification becomes a dead letter');
  log.info({ prefix, shards, policy: config.policy, platforms, metrics: replica.url }, 'ready');
  stopOnSignal(replica, log);
}

function isHelpOnly(argv: readonly string[]): boolean {
  try {
    const { values } = parseArgs({ args: [...argv], options: { help: { type: 'boolean', short: 'h' } } });
    if (values.help === true) process.stdout.write(usage());
    return values.help === true;
  } catch (error) {
    process.stderr.write(`error: ${(error as Error).message}\n`);
    process.exitCode = 2;
    return true;
  }
}

function usage(): string {
  const rows = CONFIG_VARIABLES.map(
    ({ name, default: value, meaning }) => `  ${name.padEnd(32)}${meaning}${value === undefined ? '' : ` (${value})`}`,
  );
  const title = 'Usage: worker [--help]\n\nOne replica, told by its environment (defaults in brackets):\n\n';
  return `${title}${rows.join('\n').replaceAll('`', '')}\n`;
}

function readConfig(): Config | undefined {
  try {
    return loadConfig(process.env);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
    return undefined;
  }
}

/** A second signal ends it at once. */
function stopOnSignal(replica: Replica, log: ReturnType<typeof createLog>): void {
  let isStopping = false;
  const stop = (why: string): void => {
    if (isStopping) process.exit(1);
    isStopping = true;
    log.info({ why }, 'stopping');
    replica.stop().then(
      () => {
        log.info('stopped');
        process.exit(0);
      },
      (error: unknown) => {
        log.fatal({ err: error }, 'the worker did not stop in order');
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
  // Started with an IPC channel (by the demo, say), it ends with its parent.
  process.once('disconnect', () => {
    stop('disconnect');
  });
}

if (import.meta.main) await main(process.argv.slice(2));
