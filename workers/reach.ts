import { namesOf, serviceOf, type Service } from '../src/notification/device.ts';
import type { Logger } from '../src/observe/log.ts';
import type { ReachFailure } from '../src/providers/provider.ts';
import type { AccountReach, Accounts } from './accounts.ts';

export type UnreachedServer = AccountReach & { readonly failure: ReachFailure };

/** Knows which providers cannot be reached, also while there is nothing to send: a breaker opens only by answers to sends. */
export interface ReachWatch {
  /** For each service: of its servers that cannot be reached, the one that could not be reached for the longest time. */
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

/** Warns when a server cannot be reached, warns again each time that this has lasted twice as long, and logs the end. */
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
        found === undefined ? NOT_TRIED : last.isSignIn ? SIGN_IN_REACHED : REACHED,
      );
    }
  }

  look();
  const timer = setInterval(look, everyMs).unref();
  return {
    unreached() {
      const all = accounts.reach().filter(isUnreached);
      const byTime = all.toSorted((a, b) => a.failure.forMs - b.failure.forMs);
      return new Map(byTime.map((each) => [serviceOf(each.account, each.server), each])); // the last one of a service stays
    },
    stop: () => clearInterval(timer),
  };
}

/** The first of the times 10 s, 20 s, 40 s, … that is longer than `forMs`. */
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
/** The server of the sign-in may answer with a refusal, so nothing is said of notifications. */
const SIGN_IN_REACHED = "the provider's sign-in can be reached again";
const NOT_TRIED =
  'the provider that could not be reached is not tried any more: its credentials were replaced, or nothing is sent to it';
