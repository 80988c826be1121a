import type { ApiConfig } from '../src/config/config.ts';
import { within } from '../src/domain/time.ts';
import type { Logger } from '../src/observe/log.ts';
import { openTracing, wantsTraces } from '../src/observe/tracing.ts';
import { destinationOf } from '../src/queue/names.ts';
import { whenReady } from '../src/redis/connection.ts';
import { createApp } from './app.ts';
import { openBackend } from './backend.ts';
import { createBacklog } from './backlog.ts';
import { createEnqueuer } from './enqueue.ts';
import { createOperations } from './operations.ts';
import { createRefusals } from './refusals.ts';
import { createRecipients } from './recipients.ts';
import { listen, type Program } from './serve.ts';
import { watchTokens } from './tokens.ts';

const READY_MS = 1_000;

/**
 * Puts the parts of the API together. If the tokens have faults or the port is taken, it closes everything and rejects with
 * InputError. Redis may start later.
 */
export async function startApi(config: ApiConfig, log: Logger): Promise<Program> {
  const { queue, api } = config;
  await using starting = new AsyncDisposableStack();
  const backend = starting.adopt(openBackend(config, 'API', log), (it) => it.close());
  const { connection, producer } = backend;
  const queues = async () => (await backend.shards.open()).map((shard) => shard.queue);
  const homes = async (id: string) => (await backend.shards.homes(id)).map((shard) => shard.queue);
  const tokens = starting.adopt(await watchTokens(api.tokensFile, log), (it) => it.close());
  const stopping = new AbortController();
  const refusals = starting.adopt(createRefusals('API', log), (it) => it.close());
  const backlog = createBacklog(queues, api.maxWaiting);
  const spans = { destination: destinationOf(queue.prefix) };
  const tracing = wantsTraces(process.env) ? await openTracing(spans, (message) => log.warn(message)) : undefined;
  const app = createApp({
    ...{ tokens, producer, backlog, log, refusals, signal: stopping.signal },
    ...(tracing && { tracing }),
    tell: (id) => backend.tell(id),
    explain: (error) => backend.explain(error),
    enqueuer: createEnqueuer({ producer, homes, redis: connection, prefix: queue.prefix, backlog }),
    recipients: createRecipients(backend),
    operations: createOperations(backend),
    takes: backend.takes,
    admits: { limiters: backend.limiters, shards: backend.shards, bounds: config.admits },
    status: backend.status,
    outcomes: { redis: connection, prefix: queue.prefix, layout: () => backend.shards.layout() },
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
  const served = await listen({ name: 'API', variables: 'API' }, app.fetch, api, log);
  starting.defer(() => served.close());
  starting.defer(() => stopping.abort());
  stopping.signal.addEventListener('abort', () => void backend.takes.close());
  const opened = starting.move();
  return { url: served.url, ready: backend.reached, close: () => opened.disposeAsync() };
}
