import type { Registry } from 'prom-client';
import { repeat, within } from '../src/domain/time.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import { createLossMetrics } from '../src/observe/shared-metrics.ts';
import { noteLoss, type NotedLoss, type RedisName } from '../src/queue/losses.ts';
import { stampKeys } from '../src/queue/names.ts';
import type { Connection } from '../src/redis/connection.ts';
import { createStamp, type Loss, type SeenStamps } from '../src/redis/stamp.ts';
import { addressOf } from '../src/redis/target.ts';

/** Notices that a Redis has lost data, or may evict keys, and reports it: in the log, in the metrics, and in Redis for `status`. */
export interface LossWatch {
  /** The servers whose `maxmemory-policy` is not `noeviction`, as of the last look. */
  evicting(): readonly Evicting[];
  stop(): Promise<void>;
}

interface Evicting {
  readonly redis: RedisName;
  /** `maxmemory-policy` */
  readonly policy: string;
}

export interface LossParts {
  readonly redis: Connection;
  /** Absent: the limiter's Redis is the queue's. */
  readonly limiterRedis?: Connection | undefined;
  readonly prefix: string;
  readonly registry: Registry;
  readonly log: Logger;
  /** What earlier watches of this process have seen. Default: nothing, as at its start. */
  readonly seen?: SeenStamps;
  readonly everyMs?: number;
}

/** How often to look; when a connection is back, there is a look at once. Each look calls one script for each stamp. */
const LOOK_EVERY_MS = 10_000;
/** An eviction is reported at most once in this time: a full Redis may evict all the time. */
const TOLD_EVERY_MS = 60_000;
const STOP_MS = 500;

export function watchLosses(parts: LossParts): LossWatch {
  const { redis, limiterRedis, prefix, registry, log, everyMs = LOOK_EVERY_MS } = parts;
  const nothing: SeenStamps = new Map();
  const { seen = nothing } = parts;
  const count = createLossMetrics(registry, limiterRedis === undefined ? ['queue'] : ['queue', 'limiter']);
  const servers = [
    watchServer('queue', redis),
    ...(limiterRedis === undefined ? [] : [watchServer('limiter', limiterRedis)]),
  ];

  function watchServer(name: RedisName, connection: Connection) {
    const keys = stampKeys(prefix, connection.isCluster);
    const stamps = keys.map((key) => createStamp(connection, key, everyMs, { in: seen, as: `${name} ${key}` }));
    const sparing = createSparing(TOLD_EVERY_MS);
    let policies: readonly string[] = [];

    async function look(): Promise<void> {
      const looks = await Promise.allSettled(stamps.map((stamp) => stamp())); // a master of a cluster may not answer
      const found = looks.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
      if (found.length === 0) return;
      const before = policies;
      policies = [...new Set(found.flatMap(({ policy }) => (policy && policy !== 'noeviction' ? [policy] : [])))];
      for (const policy of policies)
        if (!before.includes(policy)) log.warn({ redis: addressOf(connection), policy }, MAY_EVICT);
      // Several stamps on one master of a cluster find the same loss.
      const all = found.flatMap(({ losses }) => losses);
      for (const loss of new Map(all.map((each) => [`${each.kind} ${each.server.runId}`, each])).values())
        await tell({ ...loss, redis: name });
    }

    async function tell(loss: NotedLoss): Promise<void> {
      const repeats = loss.kind === 'evicted' ? sparing(loss.server.runId) : 0;
      const facts = { ...loss, redis: addressOf(connection), of: name, repeats };
      if (repeats !== undefined) log.error(facts, LOST[loss.kind](loss.server.isSame));
      count(name, loss.kind);
      await noteLoss(redis, prefix, loss);
    }

    const looking = repeat(look, everyMs);
    const tick = (): void => void looking.now();
    connection.on('ready', tick);
    tick();
    return {
      evicting: (): Evicting[] => policies.map((policy) => ({ redis: name, policy })),
      stop: async (): Promise<void> => {
        connection.off('ready', tick);
        await looking.stop();
      },
    };
  }

  return {
    evicting: () => servers.flatMap((server) => server.evicting()),
    async stop() {
      await within(Promise.all(servers.map((server) => server.stop())), STOP_MS);
    },
  };
}

const WHAT_NOW = 'docs/runbook.md#redis-lost-data says what to do';
const LOST: Readonly<Record<Loss['kind'], (isSameServer: boolean) => string>> = {
  emptied: (isSameServer) =>
    isSameServer
      ? `Redis was emptied: its keys were deleted, so all that was stored in it is lost; ${WHAT_NOW}`
      : `Redis came back empty, or another one is in its place: all that was stored in it is lost; ${WHAT_NOW}`,
  older: () =>
    `Redis came back with an older state: what was written between \`from\` and \`to\` is lost, and what had ended then is sent ` +
    `again; ${WHAT_NOW}`,
  evicted: () =>
    'Redis evicted keys because it is full: notifications, dead letters and slots may be lost; set maxmemory-policy noeviction ' +
    '(docs/runbook.md#redis-evicts-keys)',
};
const MAY_EVICT =
  'Redis may evict keys when it is full, and so lose notifications and lift limits: set maxmemory-policy noeviction (docs/redis.md)';
