import { setTimeout as sleep } from 'node:timers/promises';
import type { ProvidersProcess } from '../demo/providers-process.ts';
import { arrivalInstant } from '../sandbox/journal.ts';
import { tokenOf } from '../src/notification/device.ts';
import type { Device, Platform } from '../src/notification/notification.ts';
import { type Fault, ODDITIES } from './faults.ts';
import { SHARDS, slotOfRecipient, slotOfShard, type ChaosCluster } from './cluster.ts';
import { isIn, missingAdmissions, type Forgetting } from './forgotten.ts';
import { type Fleet, HARMLESS_STOP_MS, type Freeze, type Incident, type KillableRedis } from './fleet.ts';
import type { ChaosQueue, Enqueued } from './queue.ts';

/** A provider's connections were cut: answers under way may be lost. Epoch milliseconds. */
export interface Cut {
  readonly platform: Platform;
  readonly at: number;
}

/** One device of thousands that got an odd answer. */
interface OddDevice {
  readonly token: string;
  /** The provider's code. */
  readonly word: string;
}

/** What is recorded of the faults that are injected. */
export interface Recorded {
  readonly incidents: Incident[];
  readonly freezes: Freeze[];
  readonly cuts: Cut[];
  readonly oddDevices: OddDevice[];
  readonly failovers: Forgetting[];
  readonly slotsMoved: { readonly slot: number; readonly keys: number }[];
}

export interface Injected extends Recorded {
  readonly counts: Readonly<Record<Fault['kind'], number>>;
}

export interface Targets {
  readonly fleet: Fleet;
  readonly redis: KillableRedis | ChaosCluster;
  readonly queue: ChaosQueue;
  /** All notifications, by their ids. */
  readonly inputs: ReadonlyMap<string, Enqueued>;
  readonly providers: Pick<ProvidersProcess, 'order' | 'script' | 'entries'>;
  /** Devices that get notifications until the end. */
  readonly devices: readonly Device[];
}

/** Injects every fault of the plan at its time. Resolves when all of them have ended. */
export async function inject(plan: readonly Fault[], targets: Targets, signal: AbortSignal): Promise<Injected> {
  const counts: Record<string, number> = {};
  const recorded: Recorded = { incidents: [], freezes: [], cuts: [], oddDevices: [], failovers: [], slotsMoved: [] };
  const ofCluster = targets.redis;
  /** Faults of a cluster come one after the other. */
  let before: Promise<void> = Promise.resolve();
  const startedAt = performance.now();
  const injections = plan.map(async (fault) => {
    await sleep(Math.max(0, startedAt + fault.atMs - performance.now()), undefined, { signal });
    if (isOfCluster(fault) && 'failOver' in ofCluster) {
      before = before.then(() => strikeCluster(fault, ofCluster, targets, recorded));
      await before;
    } else {
      await injectFault(fault, targets, recorded, signal);
    }
    counts[fault.kind] = (counts[fault.kind] ?? 0) + 1;
  });
  await Promise.all(injections);
  return { ...recorded, counts: counts as Injected['counts'] };
}

type OfCluster = Extract<Fault, { kind: 'kill-redis' | 'pause-redis' | 'cut-clients' | 'move-slot' }>;

function isOfCluster(fault: Fault): fault is OfCluster {
  return ['kill-redis', 'pause-redis', 'cut-clients', 'move-slot'].includes(fault.kind);
}

async function strikeCluster(
  fault: OfCluster,
  cluster: ChaosCluster,
  { queue, providers, inputs }: Targets,
  { incidents, failovers, slotsMoved }: Recorded,
): Promise<void> {
  if (fault.kind === 'cut-clients') return cluster.cutClients();
  const slot = slotOfFault(fault, queue.prefix, inputs);
  if (fault.kind === 'pause-redis') return cluster.pause(slot, fault.forMs);
  if (fault.kind === 'move-slot') {
    slotsMoved.push({ slot, keys: await cluster.moveSlot(slot) });
    return;
  }
  const ids = new Set<string>();
  await cluster.failOver({
    slot,
    lagMs: fault.lagMs ?? 0,
    awayMs: fault.forMs,
    witness: async (ranges) => {
      const shards = Array.from({ length: SHARDS }, (_, shard) => shard).filter((shard) =>
        isIn({ ranges }, slotOfShard(queue.prefix, shard)),
      );
      for (const some of await Promise.all(shards.map((shard) => queue.inHandOf(shard))))
        for (const id of some.keys()) ids.add(id);
    },
    successor: async (failover, master) => {
      incidents.push({ kind: 'redis', at: failover.at, until: failover.until, ids });
      const admissions = await missingAdmissions(failover, master, providers.entries, queue.prefix, inputs);
      failovers.push({ ...failover, admissions });
    },
  });
}

function slotOfFault(
  { of, pick = 0 }: Exclude<OfCluster, { kind: 'cut-clients' }>,
  prefix: string,
  inputs: Targets['inputs'],
): number {
  if (of === 'shard') return slotOfShard(prefix, pick % SHARDS);
  const recipients = [...new Set([...inputs.values()].map(({ input }) => input?.recipientId ?? ''))];
  return slotOfRecipient(recipients[pick % recipients.length] ?? '');
}

/** One fault, from its beginning to its end. */
export async function injectFault(
  fault: Fault,
  targets: Targets,
  recorded: Recorded,
  signal: AbortSignal,
): Promise<void> {
  const { fleet, redis, queue, providers, devices } = targets;
  const { incidents, cuts, oddDevices } = recorded;
  const wait = (ms: number): Promise<void> => sleep(ms, undefined, { signal });
  switch (fault.kind) {
    case 'kill-worker':
      return fleet.kill(fault.worker, async (log) => {
        const at = arrivalInstant();
        incidents.push({ kind: 'kill', log, at, until: at, ids: new Set((await queue.inHand()).keys()) });
      });
    case 'restart-worker':
      return fleet.restart(fault.worker);
    case 'stop-worker':
      return freeze(fault, targets, recorded);
    case 'move-slot':
      throw new RangeError('only a cluster has slots');
    case 'kill-redis': {
      if ('failOver' in redis) throw new RangeError('a cluster is killed by its own orders');
      const at = arrivalInstant();
      const ids = new Set(await queue.inHandAtTheEnd());
      await redis.kill();
      await wait(fault.forMs);
      await redis.start();
      incidents.push({ kind: 'redis', at, until: arrivalInstant(), ids });
      return;
    }
    case 'pause-redis':
      return queue.pause(fault.forMs);
    case 'cut-clients':
      return queue.cutClients();
    case 'answers':
      await providers.order({ do: 'rates', platform: fault.platform, rates: fault.rates });
      await wait(fault.forMs);
      return providers.order({ do: 'rates', platform: fault.platform, rates: [] });
    case 'go-away':
      await providers.order({ do: 'go-away', platform: fault.platform, every: fault.every });
      await wait(fault.forMs);
      return providers.order({ do: 'go-away', platform: fault.platform, every: 0 });
    case 'drop-connections':
      cuts.push({ platform: fault.platform, at: arrivalInstant() });
      return providers.order({ do: 'drop', platform: fault.platform });
    case 'close-idle':
      return providers.order({ do: 'close-idle', platform: fault.platform });
    case 'odd-device': {
      const own = devices.filter(({ platform }) => platform === fault.platform);
      const device = own[fault.pick % own.length];
      const oddity = ODDITIES.find(({ word }) => word === fault.word);
      if (device === undefined || oddity === undefined) throw new RangeError(`no device for ${fault.word}`);
      const token = tokenOf(device);
      oddDevices.push({ token, word: fault.word });
      const answers = Array.from({ length: oddity.times }, () => oddity.answer);
      return providers.script(fault.platform, token, answers);
    }
    case 'revoke-key':
      await providers.order({ do: 'revoke', platform: fault.platform });
      await wait(fault.forMs);
      return providers.order({ do: 'restore', platform: fault.platform });
    case 'provider-down':
      cuts.push({ platform: fault.platform, at: arrivalInstant() });
      await providers.order({ do: 'down', platform: fault.platform });
      await wait(fault.forMs);
      return providers.order({ do: 'up', platform: fault.platform });
  }
}

/** Freezes a worker for a while, and records the jobs that workers have meanwhile. */
async function freeze(
  { worker, forMs }: Extract<Fault, { kind: 'stop-worker' }>,
  { fleet, queue }: Targets,
  { incidents, freezes }: Recorded,
): Promise<void> {
  let holders: ReadonlyMap<string, string> = new Map();
  let seenAt = Infinity;
  const frozen = await fleet.freeze(worker, forMs, async () => {
    holders = await queue.inHand();
    seenAt = arrivalInstant();
  });
  const { at, thawedAt } = frozen;
  // If Redis was away, its answer is from after the freeze.
  if (seenAt > thawedAt) holders = new Map();
  if (forMs >= HARMLESS_STOP_MS) incidents.push({ kind: 'stop', at, until: at, ids: new Set(holders.keys()) });
  freezes.push({ ...frozen, holders });
}
