import { Counter, Gauge, type Registry } from 'prom-client';
import { namesOf, type Service } from '../notification/device.ts';
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '../notification/outcome.ts';

// Metrics that every worker reads from Redis at each scrape. All workers show the same numbers, so take their maximum, not their
// sum; the parent of several worker processes does so too. Only the clock offset is each worker's own. A reader answers undefined
// if Redis does not answer in time. Then its metrics are missing, because old numbers would mislead.
const SHARED = { aggregator: 'max' } as const;

/** The work of all workers together. */
export interface QueueFigures {
  /** Jobs by state: `waiting`, `delayed`, `active`, … */
  readonly jobs: Readonly<Record<string, number>>;
  /** Jobs that any worker could take now. */
  readonly dueJobs: number;
  readonly oldestDueMs: number;
  readonly oldestWaitingMs: number;
  readonly workersAlive: number;
}

export function createQueueMetrics(registry: Registry, read: () => Promise<QueueFigures | undefined>): void {
  const { figures } = createSharedGauges(registry, read, [
    [
      'pushpacer_due_jobs',
      'Jobs that any worker could take now: new ones, and delayed ones whose time has come. Every replica shows the same.',
      ({ dueJobs }) => dueJobs,
    ],
    [
      'pushpacer_due_oldest_age_seconds',
      'For how long the oldest job is due and not taken; 0 if there is none. Every replica shows the same.',
      ({ oldestDueMs }) => oldestDueMs / 1_000,
    ],
    [
      'pushpacer_waiting_oldest_age_seconds',
      'Age of the oldest alert that waits, of the new ones and of the 100 that are due next; 0 if there is none.',
      ({ oldestWaitingMs }) => oldestWaitingMs / 1_000,
    ],
    [
      'pushpacer_workers_alive',
      'Workers that were seen within the last 15 seconds. Every replica shows the same.',
      ({ workersAlive }) => workersAlive,
    ],
  ]);
  new Gauge({
    ...{ name: 'pushpacer_queue_jobs', help: 'Jobs in the queue, by state.', labelNames: ['state'], ...SHARED },
    registers: [registry],
    async collect() {
      const found = await figures();
      this.reset();
      for (const [state, count] of Object.entries(found?.jobs ?? {})) this.set({ state }, count);
    },
  });
}

/** Stands in place of a reason for dead letters that are not looked at. */
const NOT_LOOKED_AT = 'not looked at';

/** How many dead letters there are, and how old. */
export interface DeadLetterFigures {
  /** The dead letters that were looked at, by reason. */
  readonly byReason: ReadonlyMap<DeadLetterReason, number>;
  /** How many dead letters were not looked at. */
  readonly notLookedAt: number;
  /** The age of the oldest dead letter, in milliseconds; 0 if there is none. */
  readonly oldestAgeMs: number;
}

/** @returns a function that counts dead letters that were removed for good because they were too old or too many */
export function createDeadLetterMetrics(
  registry: Registry,
  read: () => Promise<DeadLetterFigures | undefined>,
): (why: 'age' | 'count', dead: number) => void {
  const removed = new Counter({
    name: 'pushpacer_dead_letters_removed_total',
    help: 'Dead letters that this replica removed for good, too old (age) or too many (count).',
    labelNames: ['why'],
    registers: [registry],
  });
  for (const why of ['age', 'count']) removed.inc({ why }, 0); // Prometheus sees no rise in a series that begins at 1
  const { figures } = createSharedGauges(registry, read, [
    [
      'pushpacer_dead_letters_oldest_age_seconds',
      'Age of the oldest dead letter; 0 if there is none.',
      ({ oldestAgeMs }) => oldestAgeMs / 1_000,
    ],
  ]);
  new Gauge({
    name: 'pushpacer_dead_letters',
    help: 'Dead letters that wait to be replayed or discarded, by reason. Of many, only the newest are looked at.',
    labelNames: ['reason'],
    ...SHARED,
    registers: [registry],
    async collect() {
      const found = await figures();
      this.reset();
      if (found === undefined) return;
      for (const reason of DEAD_LETTER_REASONS) this.set({ reason }, found.byReason.get(reason) ?? 0);
      this.set({ reason: NOT_LOOKED_AT }, found.notLookedAt);
    },
  });
  return (why, dead) => removed.inc({ why }, dead);
}

/** How much of one rule of a provider's quota is used. */
export interface QuotaFigure {
  readonly service: Service;
  /** `600000/1m` */
  readonly rule: string;
  /** The used share, from 0 to 1. */
  readonly ratio: number;
}

export function createQuotaMetrics(registry: Registry, read: () => Promise<readonly QuotaFigure[]>): void {
  new Gauge({
    name: 'pushpacer_quota_used_ratio',
    help: "How much of a provider's quota is used in the window of the rule: 0 to 1. Every replica shows the same.",
    labelNames: ['platform', 'app', 'server', 'rule'],
    ...SHARED,
    registers: [registry],
    async collect() {
      const found = await read();
      this.reset();
      for (const { service, rule, ratio } of found) this.set({ ...namesOf(service), rule }, ratio);
    },
  });
}

/** What one Redis server says about itself. */
export interface RedisFigures {
  /** `limiter` for the limiter's own Redis, if there is one. */
  readonly redis: 'queue' | 'limiter';
  /** In a cluster: the address of this server, `10.0.0.7:6379`. */
  readonly node?: string;
  readonly usedBytes: number;
  /** 0: no bound. */
  readonly maxBytes: number;
  readonly clients: number;
  readonly evictedKeys: number;
  readonly mayEvict: boolean;
  readonly commands: number;
}

/** The metrics of the Redis servers. Servers that do not answer are left out. */
export function createRedisMetrics(registry: Registry, read: () => Promise<readonly RedisFigures[]>): void {
  const once = shared(read);
  const metric = (
    Kind: typeof Gauge<'redis' | 'node'> | typeof Counter<'redis' | 'node'>,
    [name, help]: readonly [string, string],
    valueOf: (figures: RedisFigures) => number,
  ): void => {
    new Kind({
      ...{ name, help, labelNames: ['redis', 'node'], ...SHARED, registers: [registry] },
      async collect() {
        const found = await once();
        this.reset();
        for (const { redis, node, ...figures } of found)
          this.inc({ redis, ...(node !== undefined && { node }) }, valueOf({ redis, ...figures }));
      },
    });
  };
  metric(Gauge, ['pushpacer_redis_memory_used_bytes', 'Memory that Redis uses.'], ({ usedBytes }) => usedBytes);
  metric(Gauge, ['pushpacer_redis_memory_max_bytes', "Redis's maxmemory; 0: no bound."], ({ maxBytes }) => maxBytes);
  metric(
    Gauge,
    ['pushpacer_redis_connected_clients', 'Connections to Redis, of all clients.'],
    ({ clients }) => clients,
  );
  metric(
    Counter,
    ['pushpacer_redis_evicted_keys_total', 'Keys that Redis evicted since its start because it was full: none may be.'],
    ({ evictedKeys }) => evictedKeys,
  );
  metric(
    Gauge,
    ['pushpacer_redis_may_evict', '1 if its maxmemory-policy lets Redis evict keys, otherwise 0: must be 0.'],
    ({ mayEvict }) => Number(mayEvict),
  );
  metric(
    Counter,
    ['pushpacer_redis_commands_total', 'Commands that Redis carried out since its start, of all clients.'],
    ({ commands }) => commands,
  );
}

/** @returns a function that counts losses of these Redises that this worker noticed */
export function createLossMetrics(
  registry: Registry,
  names: readonly RedisFigures['redis'][],
): (redis: RedisFigures['redis'], kind: 'emptied' | 'older' | 'evicted') => void {
  const losses = new Counter({
    name: 'pushpacer_redis_losses_total',
    help: 'How often this worker noticed that Redis had lost all (emptied) or its last part (older). Every worker notices the same.',
    labelNames: ['redis', 'kind'],
    aggregator: 'omit', // a worker that was started later has noticed fewer
    registers: [registry],
  });
  for (const redis of names) for (const kind of ['emptied', 'older']) losses.inc({ redis, kind }, 0);
  return (redis, kind) => {
    if (kind !== 'evicted') losses.inc({ redis, kind }); // Redis itself counts evicted keys
  };
}

/** `offsetsMs` is read at each scrape: Redis's clock minus this worker's, in milliseconds, one number for each queue. */
export function createClockMetrics(registry: Registry, offsetsMs: () => readonly number[]): void {
  new Gauge({
    name: 'pushpacer_clock_offset_seconds',
    help: "Redis's clock minus this worker's; of several queues, the one that is furthest from 0.",
    registers: [registry],
    collect() {
      const furthestMs = offsetsMs().reduce((most, next) => (Math.abs(next) > Math.abs(most) ? next : most), 0);
      this.set(furthestMs / 1_000);
    },
  });
}

/** Gauges that share one read at each scrape; `figures` is the same read, for other callers. */
function createSharedGauges<Found>(
  registry: Registry,
  read: () => Promise<Found | undefined>,
  gauges: readonly (readonly [name: string, help: string, valueOf: (found: Found) => number])[],
): { readonly figures: () => Promise<Found | undefined> } {
  const figures = shared(read);
  for (const [name, help, valueOf] of gauges) {
    new Gauge({
      ...{ name, help, ...SHARED, registers: [registry] },
      async collect() {
        const found = await figures();
        if (found === undefined) this.remove();
        else this.set(valueOf(found));
      },
    });
  }
  return { figures };
}

/** Callers that ask during a read share its answer. */
function shared<Found>(read: () => Promise<Found>): () => Promise<Found> {
  let reading: Promise<Found> | undefined;
  return () => (reading ??= read().finally(() => (reading = undefined)));
}
