import { hostname } from 'node:os';
import type { Breakers } from '../src/breaker/breaker.ts';
import type { Config } from '../src/config/config.ts';
import { accountIn, namesOf } from '../src/domain/device.ts';
import { within } from '../src/domain/time.ts';
import { createAgeMetrics, packageVersion, type Metrics } from '../src/observe/metrics.ts';
import { readAges } from '../src/queue/overview.ts';
import { readWorkers, startPresence, type Presence, type WorkerFacts } from '../src/queue/workers.ts';
import type { Connection } from '../src/redis/connection.ts';
import type { Accounts } from './accounts.ts';
import type { ReachWatch } from './breakers.ts';
import type { Consumer } from './consumer.ts';

export interface PresenceParts {
  readonly redis: Connection;
  readonly consumers: readonly Consumer[];
  readonly accounts: Pick<Accounts, 'names'>;
  readonly breakers: Pick<Breakers, 'all'>;
  readonly reach: Pick<ReachWatch, 'unreached'>;
  readonly metrics: Pick<Metrics, 'registry'>;
}

type Known = Pick<Config, 'queue' | 'policy' | 'categories' | 'quietHours' | 'apartRules' | 'concurrency'>;

/** A start does not wait longer until the registry has the worker, and a page not until Redis answers. */
const ANSWER_TIMEOUT_MS = 1_000;

/** Writes this replica into the registry of workers, and tells in its metrics what all of them together have to do. */
export async function startReplicaPresence(config: Known, parts: PresenceParts): Promise<Presence> {
  const { redis, consumers, metrics } = parts;
  const { policy, categories, quietHours, apartRules, queue } = config;
  const presence = startPresence({
    redis,
    prefix: queue.prefix,
    policy: { policy, categories, ...(quietHours && { quietHours }), apartRules },
    facts: factsOf(config, parts),
  });
  createAgeMetrics(metrics.registry, async () => {
    const reading = Promise.all([
      readAges(
        consumers.map((consumer) => consumer.queue),
        redis,
      ),
      readWorkers(redis, queue.prefix),
    ]).then(([ages, { workers }]) => ({ ...ages, workersAlive: workers.filter(({ alive }) => alive).length }));
    return within(reading, ANSWER_TIMEOUT_MS).catch(() => undefined);
  });
  await within(presence.written, ANSWER_TIMEOUT_MS);
  return presence;
}

/** What changes is read at each call. */
function factsOf({ concurrency }: Known, { consumers, accounts, breakers, reach }: PresenceParts): () => WorkerFacts {
  const startedAt = Date.now();
  const fixed = {
    version: packageVersion(),
    host: hostname(),
    pid: process.pid,
    concurrency,
  };
  return () => {
    const clockOffsetMs = consumers[0]?.clock.offsetMs ?? 0;
    const inHand = consumers.map(({ worker }) => worker.inHand);
    const accountNames = accounts.names();
    const names = accountNames.map(namesOf);
    const open = [...breakers.all()].flatMap(
      ([service, each]) => (accountNames.includes(accountIn(service)) && each) || [],
    );
    const apps = [...new Set(names.flatMap(({ app }) => app ?? []))];

    return {
      ...fixed,
      id: consumers[0]?.worker.id ?? '',
      startedAt: startedAt + clockOffsetMs,
      clockOffsetMs,
      inHand: inHand.reduce((sum, { all }) => sum + all, 0),
      asleep: inHand.reduce((sum, { asleep }) => sum + asleep, 0),
      stopping: consumers.some((consumer) => !consumer.isRunning()),
      platforms: names.flatMap(({ platform, app }) => (app === undefined ? platform : [])),
      apps,
      appCount: apps.length,
      // On Redis's clock, as all instants of the registry.
      breakers: open.map(({ service, trouble, code, since, until }) => {
        const [from, end] = [since, until].map((at) => Math.round(at + clockOffsetMs)) as [number, number];
        return { service, trouble, code, since: from, until: end };
      }),
      unreachable: [...reach.unreached()].map(
        ([
          service,
          {
            host,
            failure: { cause, forMs },
          },
        ]) => {
          return { service, host, cause, since: Math.round(Date.now() + clockOffsetMs - forMs) };
        },
      ),
    };
  };
}
