import { setTimeout as sleep } from 'node:timers/promises';
import { PLATFORMS, type Platform } from '../domain/notification.ts';
import { readScript } from '../redis/scripts.ts';
import type { Breakers } from './breaker.ts';
import { createCircuit, type CircuitOptions } from './circuit.ts';

/** What the breakers need of ioredis: both `Redis` and `Cluster` have it. */
export interface BreakerRedis {
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

export interface BreakersOptions extends CircuitOptions {
  /** A client that the caller opens and closes. It must not be a subscriber. */
  readonly redis: BreakerRedis;
  /** The first part of all keys, with a hash tag; one that has none becomes one. */
  readonly prefix: string;
}

const SCRIPT = readScript('breaker.lua', import.meta.url);
/** How long a worker may take to learn what another one found out, beside Redis's answer. */
const SYNC_EVERY_MS = 1_000;
const ANSWER_MS = 1_000;

/** `{pushpacer}`, `apns` → `{pushpacer}:breaker:apns`, `{pushpacer}:breaker:apns:trial`. A prefix without a hash tag becomes one. */
export function breakerKeys(prefix: string, platform: Platform): [state: string, trial: string] {
  const state = `${/\{.+?\}/.test(prefix) ? prefix : `{${prefix}}`}:breaker:${platform}`;
  return [state, `${state}:trial`];
}

/** Breakers for auth, configuration and quota that all workers of a prefix share, and for outages that they do not. */
export function createBreakers({ redis, prefix, ...options }: BreakersOptions): Breakers {
  const circuitOf = (platform: Platform) =>
    createCircuit(platform, options, async (question) => {
      const answered = redis.eval(SCRIPT, 2, ...breakerKeys(prefix, platform), ...question);
      return Promise.race([answered, sleep(ANSWER_MS, undefined, { ref: false })]);
    });
  const entries = PLATFORMS.map((platform) => [platform, circuitOf(platform)]);
  const circuits = Object.fromEntries(entries) as Record<Platform, ReturnType<typeof circuitOf>>;

  const sync = () => Promise.all(PLATFORMS.map((platform) => circuits[platform].sync()));
  const timer = setInterval(() => void sync(), SYNC_EVERY_MS).unref();
  void sync();

  return {
    current: (platform) => circuits[platform].current(),
    enter: (platform, notificationId) => circuits[platform].enter(notificationId),
    report: (evidence, trial) => circuits[evidence.platform].report(evidence, trial),
    release: (trial) => circuits[trial.platform].release(trial),
    deferUntil: (platform, enqueuedAt) => circuits[platform].deferUntil(enqueuedAt),
    async close() {
      clearInterval(timer);
      await sync(); // then Redis has also answered what it was told before
    },
  };
}
