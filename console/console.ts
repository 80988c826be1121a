/**
 * The console of an operator: the only place where its parts are created. The files, in the order of a request:
 *
 * - console.ts: the program, from its environment to its exit; serve.ts runs it and the HTTP API in one process
 * - app.ts: what is checked before each page, and the list of pages; parts.ts: what the pages work with
 * - session.ts: who may see and who may act
 * - samples.ts: the last hour, for charts
 * - pages/: the pages, each with its actions
 * - layout.ts: the frame of every page, and the parts that they share; assets/: style and script
 */
import { openBackend, watchTokens } from '../api/backend.ts';
import { createRecipients } from '../api/recipients.ts';
import { isLoopback, listen, runUntilSignal, variablesHelp, type Served } from '../api/serve.ts';
import { loadConsoleConfig, type ConsoleConfig } from '../src/config/config.ts';
import { CONSOLE_VARIABLES } from '../src/config/variables.ts';
import type { Environment } from '../src/environment/values.ts';
import type { Logger } from '../src/observe/log.ts';
import { createAudit } from '../src/operations/audit.ts';
import { createCommand, runCommand } from '../src/terminal/command.ts';
import { createConsoleApp } from './app.ts';
import { startSampler } from './samples.ts';
import { createSessions } from './session.ts';

/** The flags are for people at a terminal; each is a variable too. */
interface Flags {
  readonly port?: string;
  readonly showTexts?: true;
  readonly readOnly?: true;
}

/** `npm run console`: serves until SIGTERM or SIGINT. Exit 1 if it cannot start, 2 on bad usage. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('console', 'Serves the console of an operator, as web pages, until SIGTERM or SIGINT.')
    .option('--port <port>', 'as CONSOLE_PORT')
    .option('--read-only', 'as CONSOLE_READ_ONLY=true')
    .option('--show-texts', 'as CONSOLE_SHOW_TEXTS=true')
    .addHelpText('after', () => variablesHelp(CONSOLE_VARIABLES))
    .addHelpText('after', '\nThe variables of queue, Redis and limits are those of a worker (pushpacer worker --help).')
    .action(({ port, showTexts, readOnly }: Flags) =>
      run({
        ...process.env,
        ...(port !== undefined && { CONSOLE_PORT: port }),
        ...(showTexts && { CONSOLE_SHOW_TEXTS: 'true' }),
        ...(readOnly && { CONSOLE_READ_ONLY: 'true' }),
      }),
    );
  await runCommand(command, argv);
}

async function run(env: Environment): Promise<void> {
  const config = loadConsoleConfig(env);
  await runUntilSignal(config.logLevel, async (log) => {
    const served = await startConsole(config, log);
    log.info({ url: served.url }, 'the console is ready');
    return served;
  });
}

/** Rejects if the tokens have faults or the port is taken. Redis may come later. */
export async function startConsole(config: ConsoleConfig, log: Logger): Promise<Served> {
  const { queue, console: own } = config;
  const { host, login, readOnly, showTexts } = own;
  const backend = openBackend(config);
  const { connection, shards } = backend;
  const isLoginWanted = login || !isLoopback(host);
  const tokens = await watchTokens(own.tokensFile, isLoginWanted ? log : log.child({}, { level: 'error' }));
  const stopping = new AbortController();
  const sessions = createSessions({ tokens, host, login, readOnly, isSecure: own.tls !== undefined });
  const queues = async () => (await shards.open()).map((shard) => shard.queue);
  const sampler = startSampler({ connection, shards: () => shards.open(), prefix: queue.prefix });
  const app = createConsoleApp(
    {
      ...backend,
      ...{ queue, showTexts, sampler, log, signal: stopping.signal },
      audit: createAudit(connection, queue.prefix),
      recipients: createRecipients({ redis: connection, queues, limiters: backend.limiters }),
    },
    sessions,
  );
  if (!isLoopback(host) && own.tls === undefined) {
    log.warn({ host }, 'the console listens beyond this machine without TLS: put a proxy with TLS before it');
  }
  const served = await listen(app.fetch, own);
  return {
    url: served.url,
    async close() {
      stopping.abort();
      sampler.stop();
      tokens.close();
      await served.close();
      await backend.close();
    },
  };
}

if (import.meta.main) await main(process.argv.slice(2));
