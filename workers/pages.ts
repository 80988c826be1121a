import type { OpenBreaker } from '../src/breaker/breaker.ts';
import type { Service } from '../src/domain/device.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import { serveMetrics, type MetricsServer } from '../src/observe/server.ts';
import type { Connection } from '../src/redis/connection.ts';
import type { Consumer } from './consumer.ts';
import { describeProviders, type ReachWatch } from './breakers.ts';
import { within } from '../src/domain/time.ts';

export interface PagesParts {
  /** The queue's and the limiter's. */
  readonly connections: readonly Pick<Connection, 'ping'>[];
  readonly consumers: readonly Consumer[];
  readonly metrics: Metrics;
  /** What has credentials here, with its breaker unless that is closed. */
  readonly services: () => Iterable<readonly [Service, OpenBreaker | undefined]>;
  readonly reach: Pick<ReachWatch, 'unreached'>;
  readonly log: Logger;
}

/** A page does not wait longer for Redis. */
const ANSWER_TIMEOUT_MS = 1_000;

/** `/metrics`, `/healthz` and `/readyz` of this replica. */
export function serveReplica(
  address: { readonly host: string; readonly port: number },
  { connections, consumers, metrics, services, reach, log }: PagesParts,
): Promise<MetricsServer> {
  const pages = {
    metrics: async () => ({ contentType: metrics.registry.contentType, body: await metrics.registry.metrics() }),
    ready: async () => {
      const redis = (await Promise.all(connections.map(answers))).every(Boolean);
      const consuming = consumers.length > 0 && consumers.every((consumer) => consumer.isRunning());
      // An open breaker, or a provider that cannot be reached, does not make it unready: a new one could not send either.
      const providers = describeProviders(services(), reach.unreached(), Date.now());
      return { ok: redis && consuming, detail: { redis, consuming, ...providers } };
    },
  };
  return serveMetrics(address, pages, (taken) => {
    log.warn(
      { port: taken },
      'the metrics port is in use: a free one is taken; the line "ready" tells it as `metrics`',
    );
  });
}

/** Jobs by state, over all shards; nothing where Redis does not answer in time. */
export async function queueDepth(consumers: readonly Pick<Consumer, 'queue'>[]): Promise<Record<string, number>> {
  const total: Record<string, number> = {};
  const counting = Promise.all(consumers.map(({ queue }) => queue.getJobCounts())).then((shards) => {
    for (const [state, count] of shards.flatMap((shard) => Object.entries(shard))) {
      total[state] = (total[state] ?? 0) + count;
    }
  });
  await within(counting, ANSWER_TIMEOUT_MS);
  return { ...total };
}

async function answers(connection: Pick<Connection, 'ping'>): Promise<boolean> {
  let hasAnswered = false;
  const ping = connection.ping().then(
    () => (hasAnswered = true),
    () => undefined,
  );
  await within(ping, ANSWER_TIMEOUT_MS);
  return hasAnswered;
}
