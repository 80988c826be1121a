import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Queue } from 'bullmq';
import type { Registry } from 'prom-client';
import type { OpenBreaker, Breakers } from '../src/breaker/breaker.ts';
import type { Config } from '../src/config/config.ts';
import { type Service, accountIn, namesOf, quotaNameOf } from '../src/notification/device.ts';
import { ruleName } from '../src/domain/limits.ts';
import { within } from '../src/domain/time.ts';
import { listenError } from '../src/environment/listening.ts';
import type { Environment } from '../src/environment/values.ts';
import type { Logger } from '../src/observe/log.ts';
import { packageVersion, type Metrics } from '../src/observe/metrics.ts';
import { serveMetrics, type MetricsServer, type Pages } from '../src/observe/server.ts';
import { createQueueMetrics, createQuotaMetrics, createRedisMetrics } from '../src/observe/shared-metrics.ts';
import type { Layout } from '../src/queue/shards/layout.ts';
import { readAges } from '../src/queue/overview.ts';
import { readWorkers, startPresence, type Presence, type WorkerFacts } from '../src/queue/workers.ts';
import type { Connection } from '../src/redis/connection.ts';
import { readInfo } from '../src/redis/info.ts';
import type { Accounts } from './accounts.ts';
import { openMs } from './breakers.ts';
import type { Consumer } from './consumer.ts';
import type { LossWatch } from './losses.ts';
import { answerParent, numberOf } from './parent.ts';
import type { ReachWatch, UnreachedServer } from './reach.ts';
import { isAnswered, type WedgeWatch } from './wedge.ts';

export interface PagesParts {
  /** The connections to the queue's Redis and to the limiter's. */
  readonly connections: readonly AskedConnection[];
  /** One key in each hash slot that the worker needs to take jobs. On a cluster the masters of these keys must answer. */
  readonly keys: readonly string[];
  readonly consumers: readonly Consumer[];
  readonly metrics: Metrics;
  /** The services with credentials here, each with its breaker; undefined if the breaker is closed. */
  readonly services: () => Iterable<readonly [Service, OpenBreaker | undefined]>;
  readonly reach: Pick<ReachWatch, 'unreached'>;
  readonly wedge: Pick<WedgeWatch, 'wedged'>;
  /** Epoch milliseconds on the clock of the breakers. */
  readonly now: () => number;
  readonly log: Logger;
  /** Says whether a parent serves the pages of this worker. */
  readonly env: Environment;
}

/** A page, and the start, wait at most this long for an answer of Redis. */
const ANSWER_TIMEOUT_MS = 1_000;

/**
 * Serves `/metrics`, `/healthz` and `/readyz` of this worker, or lets its parent serve them, if it has one. Rejects with
 * InputError if it cannot listen there.
 */
export async function serveReplica(
  address: Address,
  { connections, keys, consumers, metrics: { registry }, services, reach, wedge, now, log, env }: PagesParts,
): Promise<{ readonly url?: string; close(): Promise<void> }> {
  const pages = {
    metrics: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
    sick: () => {
      const wedged = wedge.wedged();
      return wedged && { reason: 'wedged', message: WEDGED, ...wedged };
    },
    ready: async () => {
      const redis = (await Promise.all(connections.map((connection) => answers(connection, keys)))).every(Boolean);
      const consuming = consumers.length > 0 && consumers.every((consumer) => consumer.isRunning());
      // An open breaker or an unreachable provider does not make the worker unready: a new worker could not send either.
      const providers = describeProviders(services(), reach.unreached(), now());
      return { ok: redis && consuming, detail: { redis, consuming, ...providers } };
    },
  };
  if (numberOf(env) === undefined) return servePages(address, pages, log);
  const registryId = randomUUID();
  return answerParent({ ...pages, metrics: async () => ({ registryId, metrics: await registry.getMetricsAsJSON() }) });
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Rejects with InputError if it cannot listen there. */
export function servePages(address: Address, pages: Pages, log: Logger): Promise<MetricsServer> {
  return serveMetrics(address, pages, (taken) => {
    log.warn(
      { port: taken },
      'the metrics port is in use: a free one is taken; the line "ready" tells it as `metrics`',
    );
  }).catch((error: unknown): never => {
    throw listenError(error, { host: ['METRICS_HOST', address.host], port: ['METRICS_PORT', address.port] });
  });
}

const WEDGED = 'it asks for no more jobs, although jobs wait, places are free and Redis answers: restart it';

/**
 * What `/readyz` shows: every provider of the environment's app; other apps and single servers (`webpush@host`) only if their
 * breaker is not closed or they cannot be reached.
 *
 * @param unreached by service
 */
export function describeProviders(
  services: Iterable<readonly [Service, OpenBreaker | undefined]>,
  unreached: ReadonlyMap<Service, UnreachedServer>,
  at: number,
): Readonly<Record<string, unknown>> {
  const providers: Record<string, unknown> = {};
  const apps = new Map<string, Record<string, unknown>>();
  const all = new Map<Service, OpenBreaker | undefined>(services);
  for (const service of unreached.keys()) if (!all.has(service)) all.set(service, undefined);
  for (const [service, open] of all) {
    const { platform, app, server } = namesOf(service);
    const name = server === undefined ? platform : `${platform}@${server}`;
    const failing = unreached.get(service);
    const isInTrouble = open !== undefined || failing !== undefined;
    const described = { ...describeBreaker(open, at), ...(failing && { unreachable: describeUnreached(failing, at) }) };
    if (app === undefined && (server === undefined || isInTrouble)) providers[name] = described;
    else if (isInTrouble && app !== undefined) apps.set(app, { ...apps.get(app), [name]: described });
  }
  return { providers, ...(apps.size > 0 && { apps: Object.fromEntries(apps) }) };
}

function describeBreaker(open: OpenBreaker | undefined, at: number): Readonly<Record<string, unknown>> {
  if (open === undefined) return { breaker: 'closed' };
  const { trouble, code, since } = open;
  return { breaker: 'open', trouble, code, since: new Date(since).toISOString(), forMs: openMs(open, at) };
}

function describeUnreached({ host, failure: { cause, forMs } }: UnreachedServer, at: number): object {
  return { host, cause, since: new Date(at - forMs).toISOString(), forMs: Math.round(forMs) };
}

type AskedConnection = Pick<Connection, 'isCluster' | 'exists' | 'ping'>;

/** Whether Redis answers. On a cluster each key's master is asked, because the client sends a PING to any node. */
function answers(connection: AskedConnection, keys: readonly string[]): Promise<boolean> {
  const asking = connection.isCluster ? Promise.all(keys.map((key) => connection.exists(key))) : connection.ping();
  return isAnswered(asking, ANSWER_TIMEOUT_MS);
}

export interface PresenceParts {
  readonly redis: Connection;
  readonly consumers: readonly Consumer[];
  readonly accounts: Pick<Accounts, 'names' | 'quotaRules'>;
  readonly breakers: Pick<Breakers, 'all'>;
  readonly reach: Pick<ReachWatch, 'unreached'>;
  readonly metrics: Pick<Metrics, 'tally' | 'slots'>;
  readonly losses: Pick<LossWatch, 'evicting'>;
  readonly layout: () => Pick<Layout, 'version'>;
}

type Known = Pick<
  Config,
  | 'queue'
  | 'policy'
  | 'categories'
  | 'quietHours'
  | 'apartRules'
  | 'overtaking'
  | 'concurrency'
  | 'lockMs'
  | 'outcomesMax'
>;

/** Writes this worker into the registry of workers. */
export async function startReplicaPresence(config: Known, parts: PresenceParts): Promise<Presence> {
  const { redis } = parts;
  const { policy, categories, quietHours, apartRules, queue } = config;
  const presence = startPresence({
    redis,
    prefix: queue.prefix,
    policy: { policy, categories, ...(quietHours && { quietHours }), apartRules },
    facts: factsOf(config, parts),
  });
  await within(presence.written, ANSWER_TIMEOUT_MS);
  return presence;
}

export interface SharedParts {
  readonly redis: Connection;
  /** Absent: the limiter's Redis is the queue's. */
  readonly limiterRedis?: Connection | undefined;
  readonly queues: readonly Queue[];
  readonly prefix: string;
  readonly accounts: Pick<Accounts, 'quotas' | 'quotaRules'>;
  readonly registry: Registry;
}

/** The quotas of apps beyond this number are not read, since each read is a call to Redis. */
const MOST_QUOTAS = 50;

/** Shows in the metrics of this worker the work of all workers together, and the state of Redis and of the quotas. */
export function showShared({ redis, limiterRedis, queues, prefix, accounts, registry }: SharedParts): void {
  createQueueMetrics(registry, async () => {
    const found = await inTime(Promise.all([readAges(queues, redis), readWorkers(redis, prefix)]));
    return found && { ...found[0], workersAlive: found[1].workers.filter(({ alive }) => alive).length };
  });
  createQuotaMetrics(registry, async () => {
    const read = accounts
      .quotaRules()
      .slice(0, MOST_QUOTAS)
      .map(async ([service]) => {
        const uses = await inTime(accounts.quotas.get(service)?.used() ?? Promise.resolve([]));
        return (uses ?? []).map(({ rule, used, max }) => ({ service, rule, ratio: used / max }));
      });
    return (await Promise.all(read)).flat();
  });
  const servers = [['queue', redis] as const, ...(limiterRedis ? [['limiter', limiterRedis] as const] : [])];
  createRedisMetrics(registry, async () => {
    const read = servers.map(async ([name, connection]) => {
      const found = await inTime(readInfo(connection));
      return (found ?? []).map((info) => ({ redis: name, ...info }));
    });
    return (await Promise.all(read)).flat();
  });
}

/** The result; undefined if Redis does not answer in time. */
function inTime<T>(reading: Promise<T>): Promise<T | undefined> {
  return within(reading, ANSWER_TIMEOUT_MS).catch(() => undefined);
}

/** The facts of this worker. Facts that change are read at each call. */
function factsOf(
  { overtaking, concurrency, lockMs, outcomesMax }: Known,
  { consumers, accounts, breakers, reach, metrics, losses, layout }: PresenceParts,
): () => WorkerFacts {
  const clock = consumers[0]?.clock;
  // All instants in the registry are on Redis's clock.
  const startedAt = clock?.now() ?? Date.now();
  const fixed = {
    ...{ version: packageVersion(), host: hostname(), pid: process.pid, concurrency, lockMs, outcomesMax },
    mostOvertaken: overtaking.mostTimes,
  };
  return () => {
    const clockOffsetMs = clock?.offsetMs ?? 0;
    const onRedis = (at: number): number => Math.round(at + clockOffsetMs);
    const inHand = consumers.map(({ worker }) => worker.inHand);
    const accountNames = accounts.names();
    const tally = metrics.tally();
    const withoutSlot = metrics.slots.current();
    const evicting = losses.evicting();
    const names = accountNames.map(namesOf);
    const open = [...breakers.all()].flatMap(
      ([service, each]) => (accountNames.includes(accountIn(service)) && each) || [],
    );
    const apps = [...new Set(names.flatMap(({ app }) => app ?? []))];

    return {
      ...fixed,
      id: consumers[0]?.worker.id ?? '',
      layout: layout().version,
      startedAt,
      clockOffsetMs,
      inHand: inHand.reduce((sum, { all }) => sum + all, 0),
      asleep: inHand.reduce((sum, { asleep }) => sum + asleep, 0),
      stopping: consumers.some((consumer) => !consumer.isRunning()),
      tally: { ...tally, ...(tally.lastPassAt !== undefined && { lastPassAt: onRedis(tally.lastPassAt) }) },
      quotas: accounts.quotaRules().map(([service, rules]) => {
        return { account: quotaNameOf(service), rules: rules.map(ruleName).join(',') };
      }),
      platforms: names.flatMap(({ platform, app }) => (app === undefined ? platform : [])),
      apps,
      appCount: apps.length,
      accounts: accountNames,
      breakers: open.map(({ service, trouble, code, since, until }) => {
        return { service, trouble, code, since: Math.round(since), until: Math.round(until) };
      }),
      unreachable: [...reach.unreached()].map(([service, { host, failure }]) => {
        const { cause, forMs } = failure;
        return { service, host, cause, since: Math.round((clock?.now() ?? Date.now()) - forMs) };
      }),
      ...(evicting.length > 0 && { evicting: [...evicting] }),
      ...(withoutSlot && {
        withoutSlot: {
          ...withoutSlot,
          since: onRedis(withoutSlot.since),
          lastAt: onRedis(withoutSlot.lastAt),
        },
      }),
    };
  };
}
