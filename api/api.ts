/**
 * The HTTP API for producers: the only place where its parts are created. The files, in the order of a request:
 *
 * - api.ts: the program, from its environment to its exit
 * - app.ts: every route, and what is checked before it
 * - tokens.ts: the bearer tokens and their file; token.ts is the command that changes it
 * - backlog.ts: whether more may be added
 * - enqueue.ts: notifications of a body or a stream, and requests that come twice
 * - recipients.ts: one recipient, and when a notification would be sent
 * - outcomes.ts: the stream of outcomes
 * - problems.ts: refusals; openapi.ts: the description of all this
 */
import { createServer as createTlsServer } from 'node:https';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { Queue } from 'bullmq';
import { loadApiConfig, type ApiConfig } from '../src/config/config.ts';
import { API_VARIABLES, unknownText, unknownVariables } from '../src/config/variables.ts';
import { printable } from '../src/domain/faults.ts';
import { within } from '../src/domain/time.ts';
import { createLog, type Logger } from '../src/observe/log.ts';
import { QUEUE, shardPrefixes } from '../src/queue/names.ts';
import { createProducer } from '../src/queue/producer.ts';
import {
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  whenReady,
  type Connection,
} from '../src/redis/connection.ts';
import { createCommand, helpItem, runCommand } from '../src/terminal/command.ts';
import { columnsOf } from '../src/terminal/text.ts';
import { createApp } from './app.ts';
import { createBacklog } from './backlog.ts';
import { createEnqueuer } from './enqueue.ts';
import { createRecipients } from './recipients.ts';
import { openTokens } from './tokens.ts';

/** `npm run api`: serves until SIGTERM or SIGINT. Exit 1 if it cannot start, 2 on bad usage. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('api', 'Serves the HTTP API for producers until SIGTERM or SIGINT. Variables say all.')
    .addHelpText('after', variablesHelp)
    .addHelpText('after', '\nThe variables of queue, Redis and limits are those of a worker (pushpacer worker --help).')
    .action(() => run(loadApiConfig(process.env)));
  await runCommand(command, argv);
}

function variablesHelp(): string {
  const rows = API_VARIABLES.map(({ name, default: value, meaning }) =>
    helpItem(name, `${meaning}${value === undefined ? '' : ` (${value})`}`, 24, columnsOf() ?? Infinity),
  );
  return `\nVariables (defaults in brackets):\n${rows.join('\n').replaceAll('`', '')}`;
}

async function run(config: ApiConfig): Promise<void> {
  const log = createLog(config.logLevel);
  for (const unknown of unknownVariables(process.env)) {
    log.warn({ variable: printable(unknown.name), meant: unknown.meant }, printable(unknownText(unknown)));
  }
  const api = await startApi(config, log);
  log.info({ url: api.url }, 'the API is ready');
  await new Promise<void>((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) {
      process.once(name, () => {
        process.once(name, () => process.exit(1));
        log.info({ why: name }, 'stopping: requests under way are finished');
        void api.close().then(() => {
          log.info('stopped');
          resolve();
        });
      });
    }
    process.once('disconnect', () => process.exit(0)); // started by another process, which has ended
  });
  process.exit(0);
}

export interface Api {
  readonly url: string;
  /** Takes no more requests, and resolves when those under way are answered. */
  close(): Promise<void>;
}

/** How long requests under way have to end when the server stops. */
const GRACE_MS = 10_000;
const READY_MS = 1_000;
/** A connection on which nothing was sent or received for so long is closed. Streams of outcomes say something every 15 s. */
const SILENCE_MS = 120_000;

/** Rejects if the tokens have faults or the port is taken. Redis may come later. */
export async function startApi(config: ApiConfig, log: Logger): Promise<Api> {
  const { redis, limiterRedis, queue, api } = config;
  const connection = connectProducer(redis);
  const hasOwnLimiter = JSON.stringify(limiterRedis) !== JSON.stringify(redis);
  const limiterConnection = hasOwnLimiter ? connectProducer(limiterRedis) : connection;
  for (const each of [connection, limiterConnection]) each.on('error', () => undefined); // the request that fails reports it
  const limiter = { limiterRedisUrl: limiterRedis.redisUrl, limiterSentinelName: limiterRedis.sentinel?.name };
  const producer = createProducer({ connection, ...queue, ...(hasOwnLimiter && limiter) });
  const queues = openerOf(connection, queue);
  const tokens = await openTokens({
    path: api.tokensFile,
    onRead: (found) => {
      if (found.length === 0) log.warn({ file: api.tokensFile }, 'there is no token yet: pushpacer token add <name>');
      else log.info({ tokens: found.map(({ name, scopes }) => `${name} (${scopes.join(', ')})`) }, 'tokens read');
    },
    onFault: (error) => {
      log.error({ err: error }, 'the file of tokens has faults: the tokens stay as they were');
    },
  });
  const stopping = new AbortController();
  const backlog = createBacklog(queues.open, api.maxWaiting);
  const { policy, categories, quietHours, apartRules } = config;
  const app = createApp({
    ...{ tokens, producer, backlog, log, signal: stopping.signal },
    explain: (error) => explained(connection, error),
    enqueuer: createEnqueuer({ producer, queues: queues.open, redis: connection, prefix: queue.prefix, backlog }),
    recipients: createRecipients({
      ...{ redis: connection, limiterRedis: limiterConnection, queues: queues.open, prefix: queue.prefix },
      own: { policy, categories, ...(quietHours && { quietHours }), apartRules },
    }),
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
  const server = await listen(app.fetch, api);
  const { address, family, port } = server.address() as AddressInfo;
  return {
    url: `${api.tls ? 'https' : 'http'}://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    async close() {
      stopping.abort();
      tokens.close();
      await within(new Promise((resolve) => server.close(resolve)), GRACE_MS);
      server.closeAllConnections();
      await producer.close();
      await queues.close();
      for (const each of new Set([connection, limiterConnection])) each.disconnect();
    },
  };
}

function listen(fetch: Parameters<typeof serve>[0]['fetch'], { host, port, tls }: ApiConfig['api']): Promise<Server> {
  return new Promise((resolve, reject) => {
    const secure = tls && { createServer: createTlsServer, serverOptions: tls };
    const server = serve({ fetch, hostname: host, port, ...secure }, () => resolve(server)) as Server;
    // A stream may take hours, so only silence ends a connection.
    server.requestTimeout = 0;
    server.setTimeout(SILENCE_MS);
    server.once('error', reject);
  });
}

/** The queue of each shard, opened at the first request that needs them: BullMQ never recovers from a Redis that is away then. */
function openerOf(connection: Connection, { prefix, shards }: ApiConfig['queue']) {
  let opened: Promise<Queue[]> | undefined;
  const openAll = async (): Promise<Queue[]> => {
    const queues = shardPrefixes(prefix, shards).map((of) => {
      return new Queue(QUEUE, { connection, prefix: of, skipMetasUpdate: true }).on('error', () => undefined);
    });
    try {
      await Promise.all(queues.map((each) => each.waitUntilReady()));
      return queues;
    } catch (error) {
      await Promise.all(queues.map((each) => each.close()));
      opened = undefined;
      throw error;
    }
  };
  return {
    open: async (): Promise<readonly Queue[]> => {
      await whenReady(connection, PRODUCER_TIMEOUT_MS);
      return (opened ??= openAll());
    },
    close: async (): Promise<void> => {
      const queues = await opened?.catch(() => []);
      await Promise.all((queues ?? []).map((each) => each.close()));
    },
  };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

if (import.meta.main) await main(process.argv.slice(2));
