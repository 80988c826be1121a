/**
 * The console of an operator. The files, in the order of a request:
 *
 * - console.ts: the command; serve.ts: the command for it and the HTTP API in one process; start.ts: puts the parts together
 * - app.ts: what is checked before each page, and the list of pages; parts.ts: what the pages need
 * - session.ts: who may see and who may act; forms.ts: how forms come in, and how large they may be
 * - samples.ts: the last hour, for charts
 * - pages/: the pages, each with its actions; fields.ts: forms from the fields of operations
 * - layout.ts: the frame of every page, and the parts that pages share; assets/: style and script
 */
import { runUntilSignal, variablesHelp } from '../api/serve.ts';
import { loadConsoleConfig } from '../src/config/config.ts';
import { CONSOLE_VARIABLES } from '../src/config/variables.ts';
import type { Environment } from '../src/environment/values.ts';
import { createCommand, runCommand } from '../src/terminal/command.ts';
import { startConsole } from './start.ts';

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
    void served.ready.then(() => log.info({ url: served.url }, 'the console is ready'));
    return served;
  });
}

if (import.meta.main) await main(process.argv.slice(2));
