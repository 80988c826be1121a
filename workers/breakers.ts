import type { BreakerChange, Breakers, OpenBreaker } from '../src/breaker/breaker.ts';
import { createBreakers, type BreakerRedis } from '../src/breaker/redis-breakers.ts';
import type { Config } from '../src/config/config.ts';
import { namesOf, serviceOf, type Service } from '../src/domain/device.ts';
import { needsOperator, type Trouble } from '../src/domain/outcome.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import type { ReachFailure } from '../src/providers/provider.ts';
import type { AccountReach, Accounts } from './accounts.ts';

export interface BreakerParts {
  readonly redis: BreakerRedis;
  readonly metrics: Pick<Metrics, 'breakerOpened' | 'breakerTrial'>;
  readonly log: Logger;
}

/** The circuit breakers of this replica, logged and counted. */
export function startBreakers(
  { providerPause, queue }: Pick<Config, 'providerPause' | 'queue'>,
  { redis, metrics, log }: BreakerParts,
): Breakers {
  return createBreakers({
    ...providerPause,
    redis,
    prefix: queue.prefix,
    onChange: createBreakerListener({ metrics, log }),
    onTrial: ({ service, result }) => metrics.breakerTrial(service, result),
  });
}

const OPENED: Readonly<Record<Trouble, string>> = {
  auth:
    'circuit breaker open: the provider refuses the credentials; all workers defer its notifications until a trial is ' +
    'accepted; replace the key or service account: a changed file is read without a restart',
  configuration:
    'circuit breaker open: the provider refuses the topic, or the tokens of many recipients; all workers defer its ' +
    'notifications until a trial is accepted; check that endpoint, topic or project, and tokens are of the same app ' +
    'and environment; a changed file is read without a restart',
  quota:
    'circuit breaker open: the provider asks for fewer requests; all workers defer its notifications, and try one after `forMs`',
  outage:
    'circuit breaker open: the provider cannot be reached, or answers with errors; this worker defers its notifications, ' +
    'and tries one after `forMs`',
};
const STILL_OPEN: Readonly<Record<Trouble, string>> = {
  auth: 'circuit breaker stays open: the provider still refuses the credentials; check the key or service account',
  configuration:
    'circuit breaker stays open: the provider still refuses topic or tokens; check endpoint, topic or project, and tokens',
  quota: 'circuit breaker stays open: the provider still asks for fewer requests; the next trial comes after `forMs`',
  outage:
    'circuit breaker stays open: the provider still cannot be reached, or answers with errors; the next trial comes after `forMs`',
};

/** Logs what happens to breakers, as an error where an operator has to act, and counts openings. */
export function createBreakerListener({ metrics, log }: Omit<BreakerParts, 'redis'>): (change: BreakerChange) => void {
  return ({ service, open, before }) => {
    const at = Date.now();
    const names = namesOf(service);
    if (open === undefined) {
      if (before === undefined) return;
      const { trouble, since } = before;
      log.info(
        { ...names, trouble, openMs: Math.max(0, at - since) },
        'circuit breaker closed: the provider accepted a trial, and deferred notifications are sent',
      );
      return;
    }
    const { trouble, code } = open;
    const isNew = before?.trouble !== trouble;
    if (isNew) metrics.breakerOpened(service, trouble);
    const level = needsOperator(trouble) ? 'error' : 'warn';
    log[level]({ ...names, trouble, code, forMs: openMs(open, at) }, (isNew ? OPENED : STILL_OPEN)[trouble]);
  };
}

/** How much longer the breaker stays open, in milliseconds; 0 where it is closed or half open. */
export function openMs(open: Pick<OpenBreaker, 'until'> | undefined, at: number = Date.now()): number {
  return open === undefined ? 0 : Math.max(0, Math.round(open.until - at));
}

/**
 * What `/readyz` says: every provider of the environment's app; of the other apps, and of single servers (`webpush@host`), those
 * whose breaker is not closed, or which cannot be reached.
 *
 * @param unreached by service
 */
export function describeProviders(
  services: Iterable<readonly [Service, OpenBreaker | undefined]>,
  unreached: ReadonlyMap<Service, UnreachedServer>,
  at: number,
): Readonly<Record<string, unknown>> {
  const providers: Record<string, unknown> = {};
  const apps = new Map<string, Record<string, unknown>>();
  const all = new Map<Service, OpenBreaker | undefined>(services);
  for (const service of unreached.keys()) if (!all.has(service)) all.set(service, undefined);
  for (const [service, open] of all) {
    const { platform, app, server } = namesOf(service);
    const name = server === undefined ? platform : `${platform}@${server}`;
    const failing = unreached.get(service);
    const isInTrouble = open !== undefined || failing !== undefined;
    const described = { ...describeBreaker(open, at), ...(failing && { unreachable: describeUnreached(failing, at) }) };
    if (app === undefined && (server === undefined || isInTrouble)) providers[name] = described;
    else if (isInTrouble && app !== undefined) apps.set(app, { ...apps.get(app), [name]: described });
  }
  return { providers, ...(apps.size > 0 && { apps: Object.fromEntries(apps) }) };
}

function describeBreaker(open: OpenBreaker | undefined, at: number): Readonly<Record<string, unknown>> {
  if (open === undefined) return { breaker: 'closed' };
  const { trouble, code, since } = open;
  return { breaker: 'open', trouble, code, since: new Date(since).toISOString(), forMs: openMs(open, at) };
}

function describeUnreached({ host, failure: { cause, forMs } }: UnreachedServer, at: number): object {
  return { host, cause, since: new Date(at - forMs).toISOString(), forMs: Math.round(forMs) };
}

/** A server that cannot be reached. */
export type UnreachedServer = AccountReach & { readonly failure: ReachFailure };

/** Which providers cannot be reached, also while there is nothing to send: a breaker opens only by answers to sends. */
export interface ReachWatch {
  /** By service; of several servers the one that is away for the longest time. */
  unreached(): ReadonlyMap<Service, UnreachedServer>;
  stop(): void;
}

interface ReachParts {
  readonly accounts: Pick<Accounts, 'reach' | 'signIn'>;
  readonly log: Logger;
  /** How often to look, milliseconds. */
  readonly everyMs?: number;
}

const LOOK_EVERY_MS = 1_000;
/** The second warning comes after this, the third after twice this, and so on. */
const WARN_AGAIN_MS = 10_000;

/** Warns when a server cannot be reached, again each time that this has lasted twice as long, and logs the end. */
export function watchReach({ accounts, log, everyMs = LOOK_EVERY_MS }: ReachParts): ReachWatch {
  const warned = new Map<string, { readonly last: UnreachedServer; readonly againMs: number }>();

  function look(): void {
    const reach = new Map(
      accounts.reach().map((each) => [`${serviceOf(each.account, each.server)} ${each.host}`, each]),
    );
    for (const [key, found] of reach) {
      if (!isUnreached(found)) continue;
      if (found.isSignIn) accounts.signIn(found.account);
      const before = warned.get(key);
      const { forMs } = found.failure;
      const isDue = before === undefined || forMs >= before.againMs;
      if (isDue) {
        const { cause, detail } = found.failure;
        log.warn(
          { ...factsOf(found), cause, detail, forMs: Math.round(forMs) },
          messageOf(found, before === undefined),
        );
      }
      warned.set(key, { last: found, againMs: isDue ? nextWarningMs(forMs) : before.againMs });
    }
    for (const [key, { last }] of warned) {
      const found = reach.get(key);
      if (found !== undefined && isUnreached(found)) continue;
      warned.delete(key);
      log.info(
        { ...factsOf(last), lastedMs: Math.round(last.failure.forMs) },
        found === undefined ? NOT_TRIED : REACHED,
      );
    }
  }

  look();
  const timer = setInterval(look, everyMs).unref();
  return {
    unreached() {
      const all = accounts.reach().filter(isUnreached);
      const byTime = all.toSorted((a, b) => a.failure.forMs - b.failure.forMs);
      return new Map(byTime.map((each) => [serviceOf(each.account, each.server), each])); // the last one stays
    },
    stop: () => clearInterval(timer),
  };
}

/** 10 s, 20 s, 40 s, …: the first one that is still ahead. */
function nextWarningMs(forMs: number): number {
  let atMs = WARN_AGAIN_MS;
  while (atMs <= forMs) atMs *= 2;
  return atMs;
}

function isUnreached(found: AccountReach): found is UnreachedServer {
  return found.failure !== undefined;
}

function factsOf({ account, server, host, isSignIn }: AccountReach): object {
  return { ...namesOf(serviceOf(account, server)), host, ...(isSignIn && { isSignIn }) };
}

function messageOf({ isSignIn }: AccountReach, isFirst: boolean): string {
  const who = isSignIn ? "the provider's sign-in" : 'the provider';
  const still = isFirst ? '' : 'still ';
  const waits = isSignIn ? 'when the last sign-in has run out, its notifications wait' : 'its notifications wait';
  return `${who} ${still}cannot be reached: ${waits}, at no attempt, and it is tried again; ${CHECK}`;
}

const CHECK =
  '`cause` tells why: check the name servers, the firewall, the endpoint and the CA file; the next warning comes when this has ' +
  'lasted twice as long';
const REACHED = 'the provider is reached again: its notifications are sent';
const NOT_TRIED =
  'the provider that could not be reached is not tried any more: its credentials were replaced, or nothing is sent to it';
