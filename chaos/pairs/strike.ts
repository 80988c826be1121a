import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProvidersProcess } from '../../demo/providers-process.ts';
import { tokenOf } from '../../src/notification/device.ts';
import type { Device } from '../../src/notification/notification.ts';
import { WORDS } from '../faults.ts';
import type { Fleet, KillableRedis } from '../fleet.ts';
import { injectFault, type Recorded } from '../inject.ts';
import type { ChaosQueue } from '../queue.ts';
import type { PairFault, Visitor } from './acts.ts';

interface Targets {
  readonly fleet: Fleet;
  readonly queue: ChaosQueue;
  readonly server: KillableRedis;
  readonly redis: Redis;
  readonly providers: Pick<ProvidersProcess, 'order' | 'script' | 'entries'>;
  readonly devices: readonly Device[];
  /** The environment of the usual workers. */
  readonly env: Readonly<Record<string, string>>;
  /** The program of the earlier version; undefined if it is not there. */
  readonly earlier: string | undefined;
}

/** By how much the clock of that visitor is ahead. */
export const AHEAD_MS = 30_000;
/** More than requests will come. */
const MANY = 200;

/** One fault, from its beginning to its end. */
export async function strike(
  fault: PairFault,
  targets: Targets,
  recorded: Recorded,
  signal: AbortSignal,
): Promise<void> {
  const { fleet, redis, providers, devices } = targets;
  switch (fault.kind) {
    case 'script-flush':
      await redis.script('FLUSH');
      return;
    case 'visitor': {
      const visitor = visitorOf(fault.what, targets);
      if (visitor !== undefined) await fleet.visit(visitor, fault.forMs);
      return;
    }
    case 'gone-device': {
      const device = devices[fault.pick % devices.length];
      if (device === undefined) throw new RangeError('expected a device');
      const { platform } = device;
      const token = tokenOf(device);
      await providers.script(
        platform,
        token,
        Array.from({ length: MANY }, () => WORDS[platform].gone),
      );
      await sleep(fault.forMs, undefined, { signal });
      return providers.script(platform, token, []);
    }
    default: {
      const { server, queue } = targets;
      return injectFault(
        fault,
        { fleet, queue, providers, devices, redis: server, inputs: new Map() },
        recorded,
        signal,
      );
    }
  }
}

function visitorOf(what: Visitor, { env, earlier }: Targets) {
  if (what === 'earlier') return earlier === undefined ? undefined : { name: what, env, program: earlier };
  if (what === 'clock-ahead') return { name: what, env: { ...env, NODE_OPTIONS: `--import=${clockAhead(AHEAD_MS)}` } };
  const family = what === 'without-fcm' ? /^FCM_/ : /^APNS_/;
  return { name: what, env: Object.fromEntries(Object.entries(env).filter(([name]) => !family.test(name))) };
}

/** A module that moves the clock of the process that loads it: `Date.now()` and `new Date()`. */
function clockAhead(byMs: number): string {
  const script = `const Real = Date, now = Date.now;
    globalThis.Date = new Proxy(Real, {
      construct: (of, given, as) => Reflect.construct(of, given.length === 0 ? [now() + ${byMs}] : given, as),
      get: (of, name) => (name === 'now' ? () => now() + ${byMs} : Reflect.get(of, name)),
    });`;
  return `data:text/javascript,${encodeURIComponent(script)}`;
}
