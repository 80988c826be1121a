import { startApi } from '../api/start.ts';
import { API_IN_TRACES, runUntilSignal, variablesHelp, type Served } from '../api/serve.ts';
import { loadApiConfig, loadConsoleConfig } from '../src/config/config.ts';
import { API_VARIABLES, CONSOLE_VARIABLES } from '../src/config/variables.ts';
import type { Logger } from '../src/observe/log.ts';
import { createCommand, runCommand } from '../src/terminal/command.ts';
import { startConsole } from './start.ts';

/** `npm run serve`: serves the HTTP API and the console in one process, each at its own port, until SIGTERM or SIGINT. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('serve', 'Serves the HTTP API and the console in one process until SIGTERM or SIGINT.')
    .addHelpText('after', () =>
      variablesHelp([...API_VARIABLES, ...CONSOLE_VARIABLES.filter(({ name }) => name !== SHARED)]),
    )
    .addHelpText('after', '\nThe variables of queue, Redis and limits are those of a worker (pushpacer worker --help).')
    .action(run);
  await runCommand(command, argv);
}

/** The API and the console have the same tokens. */
const SHARED = 'API_TOKENS_FILE';

async function run(): Promise<void> {
  const [apiConfig, consoleConfig] = [loadApiConfig(process.env), loadConsoleConfig(process.env)];
  const start = async (log: Logger): Promise<Pick<Served, 'close'>> => {
    const api = await startApi(apiConfig, log);
    const served = await startConsole(consoleConfig, log).catch(async (error: unknown) => {
      await api.close();
      throw error;
    });
    const urls = { api: api.url, console: served.url };
    void Promise.all([api.ready, served.ready]).then(() => log.info(urls, 'the API and the console are ready'));
    return {
      async close() {
        await Promise.all([api.close(), served.close()]);
      },
    };
  };
  await runUntilSignal(apiConfig.logLevel, start, API_IN_TRACES);
}

if (import.meta.main) await main(process.argv.slice(2));
