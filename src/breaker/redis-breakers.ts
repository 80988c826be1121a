import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Platform } from '../domain/notification.ts';
import type { Breakers } from './breaker.ts';
import { createCircuit, type CircuitOptions, type Question } from './circuit.ts';

/** What the breakers need of ioredis: both `Redis` and `Cluster` have it. */
export interface BreakerRedis {
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

export interface BreakersOptions extends CircuitOptions {
  /** A client that the caller opens and closes. It must not be a subscriber. */
  readonly redis: BreakerRedis;
  /** The first part of all keys, with a hash tag; one that has none becomes one. */
  readonly prefix: string;
  readonly platforms: readonly Platform[];
}

const SCRIPT = readFileSync(new URL('breaker.lua', import.meta.url), 'utf8');
/** How long a worker may take to learn what another one found out, beside Redis's answer. */
const SYNC_EVERY_MS = 1_000;
const ANSWER_MS = 1_000;

/** `{pushpacer}`, `apns` → `{pushpacer}:breaker:apns`, `{pushpacer}:breaker:apns:trial`. A prefix without a hash tag becomes one. */
export function breakerKeys(prefix: string, platform: Platform): [state: string, trial: string] {
  const state = `${/\{.+?\}/.test(prefix) ? prefix : `{${prefix}}`}:breaker:${platform}`;
  return [state, `${state}:trial`];
}

/** Breakers for auth, configuration and quota that all workers of a prefix share, and for outages that they do not. */
export function createBreakers({ redis, prefix, platforms, ...options }: BreakersOptions): Breakers {
  const ask = (platform: Platform, question: Question): Promise<unknown> =>
    Promise.race([
      redis.eval(SCRIPT, 2, ...breakerKeys(prefix, platform), ...question),
      sleep(ANSWER_MS, undefined, { ref: false }),
    ]);
  const circuits = new Map(
    platforms.map((platform) => [platform, createCircuit(platform, options, (question) => ask(platform, question))]),
  );

  function of(platform: Platform) {
    const circuit = circuits.get(platform);
    if (circuit === undefined) throw new Error(`there is no circuit breaker for ${platform}`);
    return circuit;
  }

  const sync = () => Promise.all([...circuits.values()].map((circuit) => circuit.sync()));
  const timer = setInterval(() => void sync(), SYNC_EVERY_MS).unref();
  void sync();

  return {
    current: (platform) => of(platform).current(),
    enter: (platform, notificationId) => of(platform).enter(notificationId),
    report: (evidence, trial) => of(evidence.platform).report(evidence, trial),
    release: (trial) => of(trial.platform).release(trial),
    deferUntil: (platform, enqueuedAt) => of(platform).deferUntil(enqueuedAt),
    async close() {
      clearInterval(timer);
      await sync(); // what was told before has been answered then, too
    },
  };
}
