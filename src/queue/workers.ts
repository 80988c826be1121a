import { createHash } from 'node:crypto';
import { z } from 'zod';
import { namesOf, type Account } from '../notification/device.ts';
import {
  type CountedApart,
  categoryFaults,
  policyFaults,
  type CategoryPolicy,
  type Policy,
  type Rule,
} from '../domain/limits.ts';
import { parseJson } from '../domain/json.ts';
import { quietFaults, quietText, type QuietHours } from '../domain/quiet-hours.ts';
import { repeat, within } from '../domain/time.ts';
import { defineScript, readScript, type Call, type ScriptRedis } from '../redis/scripts.ts';
import { workersKey } from './names.ts';

/**
 * The registry of workers. Each worker writes an entry about itself every 5 s, so that commands and metrics can show which
 * workers are alive. The entry of a worker that was killed or frozen stays for a while, but its time is not renewed.
 */

const WRITE_EVERY_MS = 5_000;
/** A worker that was not seen for this long counts as gone: it missed two writes, and the third is late. */
const GONE_AFTER_MS = 15_000;
/** After this many writes (ten minutes), a worker also removes the entries of workers that were not seen for an hour. */
const PRUNE_EVERY = 120;
/** A worker that stops waits at most this long for Redis to remove its entry. */
const CLOSE_MS = 1_000;
/** A policy that is longer than this as JSON (some thousand categories) is not stored. */
const MAX_POLICY_TEXT = 100_000;
/** The longest texts and lists in an entry. Entries stay small, since each worker writes its entry every 5 s. */
const [MAX_NAME, MAX_CODE, MAX_APPS, MAX_ACCOUNTS, MAX_BREAKERS] = [100, 100, 50, 100, 20];
const NO_DIGEST = '-';

const breakerSchema = z.object({
  /** `apns`, `apns~teacher`, `webpush@fcm.googleapis.com` */
  service: z.string(),
  trouble: z.string(),
  code: z.string(),
  since: z.number(),
  until: z.number(),
});

const unreachableSchema = z.object({
  /** `fcm`, `webpush@fcm.googleapis.com` */
  service: z.string(),
  host: z.string(),
  /** `ENOTFOUND`, `ECONNREFUSED` */
  cause: z.string(),
  since: z.number(),
});

export const workerFactsSchema = z.object({
  /** BullMQ's id of the worker (with several shards: in the first one). The value of a job lock begins with this id. */
  id: z.string(),
  version: z.string(),
  /** The version of the layout that the worker follows (layout.ts). Absent: a worker of an older version, which follows none. */
  layout: z.number().optional(),
  host: z.string(),
  pid: z.number(),
  startedAt: z.number(),
  /** Redis's clock minus the clock of the worker's machine, in milliseconds. */
  clockOffsetMs: z.number(),
  /** WORKER_CONCURRENCY */
  concurrency: z.number(),
  /** LOCK_DURATION, ms: after this time others take a killed worker's jobs. Absent: a worker of an older version. */
  lockMs: z.number().optional(),
  /** OUTCOMES_MAX; 0: the worker writes no outcomes. Absent: a worker of an older version. */
  outcomesMax: z.number().optional(),
  /** LIMIT_MAX_OVERTAKEN. Absent: a worker of an older version. */
  mostOvertaken: z.number().optional(),
  /** How many jobs the worker has, including jobs whose passes sleep. */
  inHand: z.number(),
  /** How many of these jobs sleep. They take none of the WORKER_CONCURRENCY places. */
  asleep: z.number(),
  /** The worker got a signal, and takes no more jobs. */
  stopping: z.boolean().default(false),
  /** What the worker did since its start (observe/metrics.ts). Absent: a worker of an older version. */
  tally: z
    .object({
      passes: z.number(),
      lastPassAt: z.number().optional(),
      delivered: z.number(),
      dead: z.number(),
      requeued: z.number(),
      late: z.array(z.number()).readonly(),
    })
    .optional(),
  /** The quotas that the worker shares. `account`: the quota's name (`quotaNameOf`); `rules`: such as `600000/1m`. */
  quotas: z.array(z.object({ account: z.string(), rules: z.string() })).optional(),
  /** The platforms for which the environment's app has credentials. */
  platforms: z.array(z.string()),
  /** `apps`: the first names in APPS_FILE; `appCount`: how many apps the file has. */
  apps: z.array(z.string()).default([]),
  appCount: z.number().default(0),
  /** Accounts that the worker has credentials for: `apns`, `fcm~teacher`; at most 100. Absent: a worker of an older version. */
  accounts: z.array(z.string()).optional(),
  /** Circuit breakers that are not closed, as this worker knows them. */
  breakers: z.array(breakerSchema).default([]),
  /** Providers and sign-in servers that this worker cannot connect to. A breaker opens only by answers to sends. */
  unreachable: z.array(unreachableSchema).default([]),
  /** The Redises whose `maxmemory-policy` is not `noeviction`. */
  evicting: z.array(z.object({ redis: z.enum(['queue', 'limiter']), policy: z.string() })).optional(),
  /**
   * The worker asks for slots, but got none from `since` to `lastAt`, its last ask. Absent if it gets slots or asks for none.
   */
  withoutSlot: z.object({ code: z.string(), since: z.number(), lastAt: z.number() }).optional(),
});

/** What a worker says about itself. Instants are epoch milliseconds on Redis's clock. */
export type WorkerFacts = Readonly<z.output<typeof workerFactsSchema>>;

/** The limits of a worker, from its variables and its LIMITS_FILE. */
export interface WorkerPolicy {
  readonly policy: Policy;
  readonly categories: Readonly<Record<string, CategoryPolicy>>;
  readonly quietHours?: QuietHours;
  readonly apartRules: Readonly<Record<CountedApart, readonly Rule[]>>;
}

export interface SeenWorker extends WorkerFacts {
  /** When the worker last wrote: epoch milliseconds on Redis's clock. */
  readonly seenAt: number;
  readonly silentMs: number;
  /** Seen within the last 15 s. */
  readonly alive: boolean;
  /** A digest of the worker's policy: equal policies have equal ids. Absent if the worker stored no policy. */
  readonly policyId?: string;
}

/** The registry at one instant. */
export interface SeenWorkers {
  /** Redis's clock, epoch milliseconds. */
  readonly now: number;
  /** The oldest first. A worker that ended by itself is left out. A killed worker stays for an hour. */
  readonly workers: readonly SeenWorker[];
  /** By `policyId`, without policies that this version cannot read. */
  readonly policies: ReadonlyMap<string, WorkerPolicy>;
}

export interface PresenceOptions {
  /** The queue's connection: while Redis does not answer, commands wait. */
  readonly redis: ScriptRedis;
  /** QUEUE_PREFIX itself, also with several shards: there is one registry. */
  readonly prefix: string;
  readonly policy: WorkerPolicy;
  readonly facts: () => WorkerFacts;
  readonly everyMs?: number;
}

export interface Presence {
  /** Resolves when the first entry is written, or could not be written. Never rejects. */
  readonly written: Promise<void>;
  /** Writes no more, and removes the entry. */
  close(): Promise<void>;
}

/** Writes a worker into the registry every 5 s until `close`. A failed write is not repeated, since the next one comes soon. */
export function startPresence({ redis, prefix, policy, facts, everyMs = WRITE_EVERY_MS }: PresenceOptions): Presence {
  const call = callOf(redis);
  const key = workersKey(prefix);
  const text = policyJson(policy);
  const isStored = text.length <= MAX_POLICY_TEXT;
  const digest = isStored ? digestOf(text) : NO_DIGEST;
  let writes = 0;
  let id = '';

  async function write(): Promise<void> {
    const line = bounded(facts());
    ({ id } = line);
    const send = (withPolicy: boolean, prune: string): Promise<unknown> =>
      call(key, 'seen', id, digest, JSON.stringify(line), withPolicy && isStored ? text : '', prune);
    const isFirst = writes === 0;
    const known = await send(isFirst, writes++ % PRUNE_EVERY === 0 ? 'prune' : '');
    if (known === 0) await send(true, ''); // the registry was lost, or this process was away for longer than an hour
  }

  const writing = repeat(write, everyMs);
  return {
    written: writing.now(),
    async close() {
      void writing.stop();
      if (id === '') return;
      const gone = call(key, 'gone', id).catch(() => undefined); // sent after a write that is under way
      await within(gone, CLOSE_MS);
    },
  };
}

export function policyIdOf(policy: WorkerPolicy): string {
  return digestOf(policyJson(policy));
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}

/** The workers that were seen within the last hour. Takes one command. */
export async function readWorkers(redis: ScriptRedis, prefix: string): Promise<SeenWorkers> {
  const [now = '0', ...fields] = (await callOf(redis)(workersKey(prefix), 'read')) as string[];
  const at = Number(now);
  const workers: SeenWorker[] = [];
  const policies = new Map<string, WorkerPolicy>();
  for (let index = 0; index < fields.length; index += 2) {
    const [name = '', value = ''] = [fields[index], fields[index + 1]];
    if (name.startsWith(POLICY)) {
      const policy = policyIn(value);
      if (policy !== undefined) policies.set(name.slice(POLICY.length), policy);
      continue;
    }
    const [, seenAt, digest = '', json = ''] = /^(\d+) (\S+) (.*)$/s.exec(value) ?? [];
    const facts = workerFactsSchema.safeParse(parseJson(json));
    if (!facts.success) continue;
    const silentMs = Math.max(0, at - Number(seenAt));
    const policyId = digest === NO_DIGEST ? {} : { policyId: digest };
    const seen = { seenAt: Number(seenAt), silentMs, alive: silentMs < GONE_AFTER_MS, ...policyId };
    workers.push({ ...facts.data, ...seen });
  }
  return {
    now: at,
    workers: workers.toSorted((a, b) => a.startedAt - b.startedAt || a.id.localeCompare(b.id)),
    policies,
  };
}

/** Whether a worker has credentials for this account. Also true if the worker's entry may have left out the app. */
export function hasAccount({ platforms, apps, appCount, accounts }: WorkerFacts, account: Account): boolean {
  if (accounts !== undefined && accounts.length < MAX_ACCOUNTS) return accounts.includes(account);
  const { platform, app } = namesOf(account);
  return app === undefined ? platforms.includes(platform) : apps.includes(app) || appCount > apps.length;
}

/** The accounts that a worker has credentials for. Workers of an older version name only those of the environment's app. */
export function accountsOf({ accounts, platforms }: WorkerFacts): readonly Account[] {
  return (accounts ?? platforms) as Account[];
}

/** Those of the accounts that no living worker has credentials for. */
export function lackedByAll(workers: readonly SeenWorker[], accounts: Iterable<Account>): Account[] {
  const alive = workers.filter((worker) => worker.alive);
  const lacked = [...accounts].filter((account) => !alive.some((worker) => hasAccount(worker, account)));
  return [...new Set(lacked)].toSorted();
}

/** What a worker asks about the credentials of the other living workers if it lacks some itself. */
export interface OtherWorkers {
  /** Whether one living worker has credentials for all these accounts; also true if Redis does not answer. Never rejects. */
  have(accounts: readonly Account[]): Promise<boolean>;
}

/** Reads the registry only when it is needed, and not more often than workers write to it. */
export function createOtherWorkers(redis: ScriptRedis, prefix: string): OtherWorkers {
  let last = { at: -Infinity, living: Promise.resolve<readonly SeenWorker[] | undefined>(undefined) };
  const living = (): typeof last.living => {
    const at = performance.now();
    if (at - last.at >= WRITE_EVERY_MS) {
      const read = readWorkers(redis, prefix).then(
        ({ workers }) => workers.filter(({ alive, stopping }) => alive && !stopping),
        () => undefined,
      );
      last = { at, living: read };
    }
    return last.living;
  };
  return {
    async have(accounts) {
      const found = await living();
      return found?.some((worker) => accounts.every((account) => hasAccount(worker, account))) ?? true;
    },
  };
}

/** The policy that most living workers have. */
export interface SharedPolicy {
  readonly policy: WorkerPolicy;
  readonly workers: number;
  /** How many living workers have another policy, or none that this version can read. */
  readonly others: number;
  /** How often a reservation may be overtaken: the highest value of all living workers. Absent if no worker reports a value. */
  readonly mostOvertaken?: number;
}

/** Undefined if no worker is alive, or none stored a policy. Of two equally frequent policies, the one of the newest worker. */
export function sharedPolicy({ workers, policies }: SeenWorkers): SharedPolicy | undefined {
  const living = workers.filter(({ alive }) => alive);
  const counts = new Map<string, number>();
  for (const { policyId = NO_DIGEST } of living) counts.set(policyId, (counts.get(policyId) ?? 0) + 1);
  const known = living.toReversed().filter(({ policyId }) => policyId !== undefined && policies.has(policyId));
  const best = known.toSorted((a, b) => (counts.get(b.policyId ?? '') ?? 0) - (counts.get(a.policyId ?? '') ?? 0))[0];
  const policy = policies.get(best?.policyId ?? '');
  if (policy === undefined) return undefined;
  const count = counts.get(best?.policyId ?? '') ?? 0;
  const most = living.flatMap(({ mostOvertaken }) => mostOvertaken ?? []);
  return {
    ...{ policy, workers: count, others: living.length - count },
    ...(most.length > 0 && { mostOvertaken: Math.max(...most) }),
  };
}

const POLICY = 'policy:';
const LUA = readScript('workers.lua', import.meta.url);

function callOf(redis: ScriptRedis): Call<unknown> {
  return defineScript(redis, 'pushpacerWorkers', LUA, 1);
}

function bounded(facts: WorkerFacts): WorkerFacts {
  return {
    ...facts,
    version: facts.version.slice(0, MAX_NAME),
    host: facts.host.slice(0, MAX_NAME),
    apps: facts.apps.slice(0, MAX_APPS),
    ...(facts.accounts && { accounts: facts.accounts.slice(0, MAX_ACCOUNTS) }),
    ...(facts.quotas && { quotas: facts.quotas.slice(0, MAX_APPS) }),
    breakers: facts.breakers
      .slice(0, MAX_BREAKERS)
      .map((breaker) => ({ ...breaker, code: breaker.code.slice(0, MAX_CODE) })),
    unreachable: facts.unreachable
      .slice(0, MAX_BREAKERS)
      .map((each) => ({ ...each, host: each.host.slice(0, MAX_NAME), cause: each.cause.slice(0, MAX_CODE) })),
  };
}

/** A policy as JSON; the same policy always gives the same text. */
function policyJson({ policy, categories, quietHours, apartRules }: WorkerPolicy): string {
  const { background, liveactivity } = apartRules;
  return JSON.stringify({
    policy: { rules: policy.rules.map(plainRule), minGapMs: policy.minGapMs },
    categories: Object.entries(categories)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { rules, minGapMs, exempt }]) => [name, { rules: rules.map(plainRule), minGapMs, exempt }]),
    ...(quietHours && { quietHours: JSON.parse(quietText(quietHours)) as unknown }),
    apartRules: { background: background.map(plainRule), liveactivity: liveactivity.map(plainRule) },
  });
}

function plainRule({ max, perMs }: Rule): Rule {
  return { max, perMs };
}

const ruleSchema = z.object({ max: z.number(), perMs: z.number() });
const limitsSchema = z.object({ rules: z.array(ruleSchema), minGapMs: z.number() });
const policySchema = z.object({
  policy: limitsSchema,
  categories: z.array(
    z.tuple([z.string(), limitsSchema.extend({ exempt: z.array(z.enum(['gap', 'rules', 'quietHours'])).optional() })]),
  ),
  quietHours: z.unknown().optional(),
  apartRules: z.object({ background: z.array(ruleSchema), liveactivity: z.array(ruleSchema) }),
});

/** The policy in this text; undefined if this version cannot read it, or a limiter would refuse it. */
function policyIn(json: string): WorkerPolicy | undefined {
  const read = policySchema.safeParse(parseJson(json));
  if (!read.success) return undefined;
  const { policy, categories: entries, quietHours, apartRules } = read.data;
  // Without a prototype, since `constructor` is a valid category.
  const categories = Object.create(null) as Record<string, CategoryPolicy>;
  for (const [name, { exempt, ...limits }] of entries) categories[name] = { ...limits, ...(exempt && { exempt }) };
  const faults = [
    ...policyFaults(policy, ''),
    ...Object.values(categories).flatMap((each) => categoryFaults(each, '')),
    ...Object.values(apartRules).flatMap((rules) => policyFaults({ rules, minGapMs: 0 }, '')),
    ...(quietHours === undefined ? [] : quietFaults(quietHours)),
  ];
  if (faults.length > 0) return undefined;
  return { policy, categories, ...(quietHours !== undefined && { quietHours: quietHours as QuietHours }), apartRules };
}
