import { setTimeout as sleep } from 'node:timers/promises';
import { accountIn, type Account, type Service } from '../notification/device.ts';
import { PLATFORMS } from '../notification/notification.ts';
import { readScript } from '../redis/scripts.ts';
import type { BreakerAnswer, Breakers } from './breaker.ts';
import { createCircuit, type CircuitOptions } from './circuit.ts';

/** The part of ioredis that the breakers use; `Redis` and `Cluster` both have it. */
export interface BreakerRedis {
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

export interface BreakersOptions extends CircuitOptions {
  /** A client that the caller opens and closes. It must not be in subscriber mode. */
  readonly redis: BreakerRedis;
  /** The first part of all keys. A prefix without a hash tag is put into braces. */
  readonly prefix: string;
}

const SCRIPT = readScript('breaker.lua', import.meta.url);
const READ_ALL = "return redis.call('MGET', unpack(KEYS))";
/** `unpack` takes at most this many keys in one call. */
const MAX_KEYS = 1_000;
/** How often a worker reads what other workers found. */
const SYNC_EVERY_MS = 1_000;
const ANSWER_MS = 1_000;
/** Only few push services exist, but hosts that clients made up, or many hosts of one vendor, must not fill the memory. */
const MAX_SERVERS = 256;

/**
 * `{pushpacer}`, `apns` → `{pushpacer}:breaker:apns`, `{pushpacer}:breaker:apns:trial`. For the app `teacher` at one push service:
 * `{pushpacer}:breaker:webpush~teacher@fcm.googleapis.com`, `….com:trial`.
 */
export function breakerKeys(prefix: string, service: Service): [state: string, trial: string] {
  const state = `${/\{.+?\}/.test(prefix) ? prefix : `{${prefix}}`}:breaker:${service}`;
  return [state, `${state}:trial`];
}

type Circuit = ReturnType<typeof createCircuit>;

/**
 * The breakers of a worker. All workers of a prefix share auth, configuration and quota; each worker finds outages itself. The
 * breaker of a server (a push service) is made with that server's first answer, because only the devices say which servers
 * there are.
 */
export function createBreakers({ redis, prefix, ...options }: BreakersOptions): Breakers {
  const ofAccounts = new Map<Service, Circuit>();
  /** The breakers of single servers, in the order of the servers' latest answers. */
  const ofServers = new Map<Service, Circuit>();
  const all = (): [Service, Circuit][] => [...ofAccounts, ...ofServers];
  const circuitOf = (service: Service): Circuit | undefined => ofAccounts.get(service) ?? ofServers.get(service);
  const ask = (script: string, keys: readonly string[], args: readonly (string | number)[] = []) =>
    Promise.race([redis.eval(script, keys.length, ...keys, ...args), sleep(ANSWER_MS, undefined, { ref: false })]);
  const create = (service: Service): Circuit =>
    createCircuit(service, options, (question) => ask(SCRIPT, breakerKeys(prefix, service), question));

  function use(accounts: Iterable<Account>): void {
    const used = new Set([...PLATFORMS, ...accounts]);
    for (const account of ofAccounts.keys()) if (!used.has(account as Account)) ofAccounts.delete(account);
    for (const service of ofServers.keys()) if (!used.has(accountIn(service))) ofServers.delete(service);
    for (const account of used) if (!ofAccounts.has(account)) ofAccounts.set(account, create(account));
  }

  /** The breaker of a service that has answered. If a server has no breaker yet, one is made. */
  function answered(service: Service): Circuit | undefined {
    const account = accountIn(service);
    if (account === service || !ofAccounts.has(account)) return ofAccounts.get(service);
    const circuit = ofServers.get(service) ?? create(service);
    ofServers.delete(service);
    ofServers.set(service, circuit);
    const [oldest] = ofServers.keys();
    if (ofServers.size > MAX_SERVERS && oldest !== undefined) ofServers.delete(oldest);
    return circuit;
  }

  /**
   * One call reads all breakers that are closed in this worker. A breaker that is not closed, here or in Redis, is read alone.
   */
  async function sync(): Promise<void> {
    const quiet = all().filter(([, circuit]) => circuit.isQuiet());
    const others = all().filter(([, circuit]) => !circuit.isQuiet());
    await Promise.all([...others.map(([, circuit]) => circuit.sync()), syncQuiet(quiet)]);
  }

  async function syncQuiet(quiet: readonly [Service, Circuit][]): Promise<void> {
    for (let from = 0; from < quiet.length; from += MAX_KEYS) {
      const some = quiet.slice(from, from + MAX_KEYS);
      const keys = some.map(([service]) => breakerKeys(prefix, service)[0]);
      const states = await ask(READ_ALL, keys).catch(() => undefined);
      if (!Array.isArray(states)) return; // Redis did not answer; it is read again a second later
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
    all: () => all().map(([service, circuit]) => [service, circuit.current()] as const),
    current: (service) => circuitOf(service)?.current(),
    hasAnsweredWell: (service) => circuitOf(service)?.hasAnsweredWell() ?? false,
    enter: async (service, recipientId) => circuitOf(service)?.enter(recipientId) ?? CLOSED,
    report: (evidence, trial) => answered(evidence.service)?.report(evidence, trial),
    release: (trial) => circuitOf(trial.service)?.release(trial),
    deferUntil: (service, deferred) => circuitOf(service)?.deferUntil(deferred) ?? (options.now ?? Date.now)(),
    async close() {
      clearInterval(timer);
      await sync(); // Redis answers in order, so by then it has handled all earlier calls too
    },
  };
}

const CLOSED: BreakerAnswer = { kind: 'closed' };
