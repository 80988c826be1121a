import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from '../domain/account.ts';
import { PLATFORMS } from '../domain/notification.ts';
import { readScript } from '../redis/scripts.ts';
import type { BreakerAnswer, Breakers } from './breaker.ts';
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
/** Reads the states of many breakers in one call. */
const READ_ALL = "return redis.call('MGET', unpack(KEYS))";
/** More keys than `unpack` takes in one call are read in several. */
const MAX_KEYS = 1_000;
/** How often a worker reads what other workers found. */
const SYNC_EVERY_MS = 1_000;
const ANSWER_MS = 1_000;

/**
 * `{pushpacer}`, `apns` → `{pushpacer}:breaker:apns`, `{pushpacer}:breaker:apns:trial`. For the account `apns~teacher`:
 * `{pushpacer}:breaker:apns~teacher`, `{pushpacer}:breaker:apns~teacher:trial`.
 */
export function breakerKeys(prefix: string, account: Account): [state: string, trial: string] {
  const state = `${/\{.+?\}/.test(prefix) ? prefix : `{${prefix}}`}:breaker:${account}`;
  return [state, `${state}:trial`];
}

type Circuit = ReturnType<typeof createCircuit>;

/** The breakers of a worker. All workers of a prefix share auth, configuration and quota; each finds outages itself. */
export function createBreakers({ redis, prefix, ...options }: BreakersOptions): Breakers {
  const circuits = new Map<Account, Circuit>();
  const ask = (script: string, keys: readonly string[], args: readonly (string | number)[] = []) =>
    Promise.race([redis.eval(script, keys.length, ...keys, ...args), sleep(ANSWER_MS, undefined, { ref: false })]);
  const circuitOf = (account: Account): Circuit =>
    createCircuit(account, options, (question) => ask(SCRIPT, breakerKeys(prefix, account), question));

  function use(accounts: Iterable<Account>): void {
    const used = new Set([...PLATFORMS, ...accounts]);
    for (const account of circuits.keys()) if (!used.has(account)) circuits.delete(account);
    for (const account of used) if (!circuits.has(account)) circuits.set(account, circuitOf(account));
  }

  /** One call reads all breakers that are closed, however many there are. Only those that another worker opened are read alone. */
  async function sync(): Promise<void> {
    const all = [...circuits];
    const quiet = all.filter(([, circuit]) => circuit.isQuiet());
    const busy = all.filter(([, circuit]) => !circuit.isQuiet());
    const opened = openedElsewhere(quiet);
    await Promise.all([...busy.map(([, circuit]) => circuit.sync()), opened]);
  }

  async function openedElsewhere(quiet: readonly (readonly [Account, Circuit])[]): Promise<void> {
    for (let from = 0; from < quiet.length; from += MAX_KEYS) {
      const some = quiet.slice(from, from + MAX_KEYS);
      const keys = some.map(([account]) => breakerKeys(prefix, account)[0]);
      const states = await ask(READ_ALL, keys).catch(() => undefined);
      if (!Array.isArray(states)) return; // Redis did not answer: the next reading is a second away
      const opened = some.filter((_, index) => states[index] !== null);
      await Promise.all(opened.map(([, circuit]) => circuit.sync()));
    }
  }

  use([]);
  const timer = setInterval(() => void sync(), SYNC_EVERY_MS).unref();
  void sync();

  return {
    use(accounts) {
      use(accounts);
      void sync();
    },
    all: () => [...circuits].map(([account, circuit]) => [account, circuit.current()] as const),
    current: (account) => circuits.get(account)?.current(),
    enter: async (account, notificationId) => circuits.get(account)?.enter(notificationId) ?? CLOSED,
    report: (evidence, trial) => circuits.get(evidence.account)?.report(evidence, trial),
    release: (trial) => circuits.get(trial.account)?.release(trial),
    deferUntil: (account, enqueuedAt) => circuits.get(account)?.deferUntil(enqueuedAt) ?? (options.now ?? Date.now)(),
    async close() {
      clearInterval(timer);
      await sync(); // Redis answers in order, so it has then handled all earlier calls too
    },
  };
}

const CLOSED: BreakerAnswer = { kind: 'closed' };
