import { setTimeout as sleep } from 'node:timers/promises';
import type { Platform } from '../../src/domain/notification.ts';
import type { ProvidersProcess } from '../support/providers-process.ts';
import type { Fault } from './faults.ts';
import type { Fleet } from './fleet.ts';
import type { ChaosQueue } from './queue.ts';
import type { MortalRedis } from './redis.ts';

/** A strike after which what was in hand may alert a second time. */
export interface Incident {
  readonly kind: 'kill' | 'stop' | 'redis';
  /** When it struck, and until when what was in hand may still have gone out; epoch milliseconds. */
  readonly at: number;
  readonly until: number;
  /** The notifications that workers had in hand. */
  readonly ids: ReadonlySet<string>;
}

/** A provider's connections were cut: answers under way may be lost. Epoch milliseconds. */
export interface Cut {
  readonly platform: Platform;
  readonly at: number;
}

/** What was done. */
export interface Struck {
  readonly counts: Readonly<Record<Fault['kind'], number>>;
  readonly incidents: readonly Incident[];
  readonly cuts: readonly Cut[];
}

export interface Victims {
  readonly fleet: Fleet;
  readonly redis: MortalRedis;
  readonly queue: ChaosQueue;
  readonly providers: Pick<ProvidersProcess, 'order'>;
}

/** A worker that is stopped for less keeps its jobs: their locks are renewed every half of that time. */
const HARMLESS_STOP_MS = 2_000;

/** Does to the victims what the plan says, when it says so, and resolves when all of it is over and healed. */
export async function inject(plan: readonly Fault[], victims: Victims, signal: AbortSignal): Promise<Struck> {
  const counts: Record<string, number> = {};
  const incidents: Incident[] = [];
  const cuts: Cut[] = [];
  const startedAt = performance.now();
  const strikes = plan.map(async (fault) => {
    await sleep(Math.max(0, startedAt + fault.atMs - performance.now()), undefined, { signal });
    await strike(fault, victims, { incidents, cuts, signal });
    counts[fault.kind] = (counts[fault.kind] ?? 0) + 1;
  });
  await Promise.all(strikes);
  return { counts: counts as Struck['counts'], incidents, cuts };
}

interface Notes {
  readonly incidents: Incident[];
  readonly cuts: Cut[];
  readonly signal: AbortSignal;
}

async function strike(fault: Fault, victims: Victims, { incidents, cuts, signal }: Notes): Promise<void> {
  const { fleet, redis, queue, providers } = victims;
  const wait = (ms: number): Promise<void> => sleep(ms, undefined, { signal });
  const witness = (kind: Incident['kind']) => async () => {
    const at = epochMs();
    incidents.push({ kind, at, until: at, ids: new Set(await queue.inHand()) });
  };
  switch (fault.kind) {
    case 'kill-worker':
      return fleet.kill(fault.worker, witness('kill'));
    case 'restart-worker':
      return fleet.restart(fault.worker);
    case 'stop-worker':
      return fleet.freeze(
        fault.worker,
        fault.forMs,
        fault.forMs < HARMLESS_STOP_MS ? () => Promise.resolve() : witness('stop'),
      );
    case 'kill-redis': {
      const at = epochMs();
      const ids = new Set(await queue.inHandAtTheEnd());
      await redis.kill();
      await wait(fault.forMs);
      await redis.start();
      incidents.push({ kind: 'redis', at, until: epochMs(), ids });
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
      await providers.order({ do: 'go-away', every: fault.every });
      await wait(fault.forMs);
      return providers.order({ do: 'go-away', every: 0 });
    case 'drop-connections':
      cuts.push({ platform: fault.platform, at: epochMs() });
      return providers.order({ do: 'drop', platform: fault.platform });
    case 'revoke-key':
      await providers.order({ do: 'revoke', platform: fault.platform });
      await wait(fault.forMs);
      return providers.order({ do: 'restore', platform: fault.platform });
    case 'provider-down':
      cuts.push({ platform: fault.platform, at: epochMs() });
      await providers.order({ do: 'down', platform: fault.platform });
      await wait(fault.forMs);
      return providers.order({ do: 'up', platform: fault.platform });
  }
}

/** As the journal's stamps: it never steps. */
export function epochMs(): number {
  return performance.timeOrigin + performance.now();
}
