/**
 * The HTTP API for producers: the only place where its parts are created. The files, in the order of a request:
 *
 * - api.ts: the program, from its environment to its exit; serve.ts: how it listens and stops
 * - backend.ts: what it needs of Redis
 * - app.ts: every route, and what is checked before it
 * - tokens.ts: the bearer tokens and their file; token.ts is the command that changes it
 * - backlog.ts: whether more may be added
 * - enqueue.ts: notifications of a body or a stream, and requests that come twice
 * - limiters.ts: the limiters, with the limits of the workers
 * - recipients.ts: one recipient, and when a notification would be sent
 * - outcomes.ts: the stream of outcomes
 * - problems.ts: refusals; openapi.ts: the description of all this
 */
import { loadApiConfig, type ApiConfig } from '../src/config/config.ts';
import { within } from '../src/domain/time.ts';
import type { Logger } from '../src/observe/log.ts';
import { whenReady } from '../src/redis/connection.ts';
import { createCommand, runCommand } from '../src/terminal/command.ts';
import { createApp } from './app.ts';
import { openBackend, watchTokens } from './backend.ts';
import { createBacklog } from './backlog.ts';
import { createEnqueuer } from './enqueue.ts';
import { createRecipients } from './recipients.ts';
import { isLoopback, listen, runUntilSignal, variablesHelp, type Served } from './serve.ts';

/** `npm run api`: serves until SIGTERM or SIGINT. Exit 1 if it cannot start, 2 on bad usage. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('api', 'Serves the HTTP API for producers until SIGTERM or SIGINT. Variables say all.')
    .addHelpText('after', () => variablesHelp())
    .addHelpText('after', '\nThe variables of queue, Redis and limits are those of a worker (pushpacer worker --help).')
    .action(() => run(loadApiConfig(process.env)));
  await runCommand(command, argv);
}

async function run(config: ApiConfig): Promise<void> {
  await runUntilSignal(config.logLevel, async (log) => {
    const api = await startApi(config, log);
    log.info({ url: api.url }, 'the API is ready');
    return api;
  });
}

const READY_MS = 1_000;

/** Rejects if the tokens have faults or the port is taken. Redis may come later. */
export async function startApi(config: ApiConfig, log: Logger): Promise<Served> {
  const { queue, api } = config;
  const backend = openBackend(config);
  const { connection, producer } = backend;
  const queues = async () => (await backend.shards.open()).map((shard) => shard.queue);
  const tokens = await watchTokens(api.tokensFile, log);
  const stopping = new AbortController();
  const backlog = createBacklog(queues, api.maxWaiting);
  const app = createApp({
    ...{ tokens, producer, backlog, log, signal: stopping.signal },
    tell: (id) => backend.tell(id),
    explain: (error) => backend.explain(error),
    enqueuer: createEnqueuer({ producer, queues, redis: connection, prefix: queue.prefix, backlog }),
    recipients: createRecipients({ redis: connection, queues, limiters: backend.limiters }),
    outcomes: { redis: connection, prefix: queue.prefix, shards: queue.shards },
    isReady: async () => {
      const ready = whenReady(connection, READY_MS).then(() => connection.ping());
      return (
        (await within(
          ready.catch(() => undefined),
          READY_MS,
        )) === 'PONG'
      );
    },
  });
  if (!isLoopback(api.host) && api.tls === undefined) {
    log.warn({ host: api.host }, 'the API listens beyond this machine without TLS: put a proxy with TLS before it');
  }
  const served = await listen(app.fetch, api);
  return {
    url: served.url,
    async close() {
      stopping.abort();
      tokens.close();
      await served.close();
      await backend.close();
    },
  };
}

if (import.meta.main) await main(process.argv.slice(2));
