import { setTimeout as sleep } from 'node:timers/promises';
import { PLATFORMS, type Platform } from '../domain/notification.ts';
import { readScript } from '../redis/scripts.ts';
import type { Breakers } from './breaker.ts';
import { createCircuit, type CircuitOptions } from './circuit.ts';

/** The part of ioredis that the breakers use; `Redis` and `Cluster` both have it. */
export interface BreakerRedis {
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

export interface BreakersOptions extends CircuitOptions {
  /** A client that the caller opens and closes. It must not be a subscriber. */
  readonly redis: BreakerRedis;
  /** The first part of all keys. A prefix without a hash tag is put into braces. */
  readonly prefix: string;
}

const SCRIPT = readScript('breaker.lua', import.meta.url);
/** How often a worker reads what other workers found. */
const SYNC_EVERY_MS = 1_000;
const ANSWER_MS = 1_000;

/** `{pushpacer}`, `apns` → `{pushpacer}:breaker:apns`, `{pushpacer}:breaker:apns:trial`. */
export function breakerKeys(prefix: string, platform: Platform): [state: string, trial: string] {
  const state = `${/\{.+?\}/.test(prefix) ? prefix : `{${prefix}}`}:breaker:${platform}`;
  return [state, `${state}:trial`];
}

/** The breakers of a worker. All workers of a prefix share auth, configuration and quota; each finds outages itself. */
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
      await sync(); // Redis answers in order, so it has then handled all earlier calls too
    },
  };
}
