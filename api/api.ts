/**
 * The HTTP API for producers and operators. The files, in the order of a request:
 *
 * - api.ts: the command; start.ts: puts the parts together; serve.ts: how it listens and stops
 * - backend.ts: what the API needs of Redis
 * - access.ts: who may ask, and how much at a time
 * - app.ts: every route; operator-routes.ts: the routes for operators
 * - bodies.ts: the bodies of requests and answers: JSON, and streams
 * - tokens.ts: the bearer tokens and their file; token.ts is the command that changes it
 * - refusals.ts: refused tokens, counted and logged
 * - backlog.ts: whether more notifications may be added
 * - enqueue.ts: notifications of a body or a stream, and requests that come twice
 * - cancels.ts: cancels and retracts
 * - limiters.ts: the limiters, with the limits of the workers
 * - recipients.ts: one recipient, and when a notification would be sent
 * - operations.ts: what an operator may do to a recipient
 * - admits.ts: slots of recipients for what others send
 * - outcomes.ts: the stream of outcomes
 * - problems.ts: refusals; openapi.ts, schemas.ts: the description of all this
 */
import { loadApiConfig, type ApiConfig } from '../src/config/config.ts';
import { createCommand, runCommand } from '../src/terminal/command.ts';
import type { Logger } from '../src/observe/log.ts';
import { API_IN_TRACES, runUntilSignal, variablesHelp, type Served } from './serve.ts';
import { startApi } from './start.ts';

/** `npm run api`: serves until SIGTERM or SIGINT. Exit 1 if it cannot start, 2 on bad usage. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('api', 'Serves the HTTP API for producers until SIGTERM or SIGINT. Variables say all.')
    .addHelpText('after', () => variablesHelp())
    .addHelpText('after', '\nThe variables of queue, Redis and limits are those of a worker (pushpacer worker --help).')
    .action(() => run(loadApiConfig(process.env)));
  await runCommand(command, argv);
}

async function run(config: ApiConfig): Promise<void> {
  const start = async (log: Logger): Promise<Served> => {
    const api = await startApi(config, log);
    void api.ready.then(() => log.info({ url: api.url }, 'the API is ready'));
    return api;
  };
  await runUntilSignal(config.logLevel, start, API_IN_TRACES);
}

if (import.meta.main) await main(process.argv.slice(2));
