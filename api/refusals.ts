import type { Logger } from '../src/observe/log.ts';

/** Why a request was refused: it had no token, an unknown one, or one without the scope that it needs. */
export type RefusalCause = 'noToken' | 'unknownToken' | 'scope';

/** Logs that requests are refused: the first refusal at once, and then at most once a minute how many more there were. */
export interface Refusals {
  /** `address`: the address of the peer; if there is a proxy, the proxy's. */
  count(cause: RefusalCause, address: string): void;
  close(): void;
}

const EVERY_MS = 60_000;

/** `name`: the name of the program. Secrets are never logged. */
export function createRefusals(name: string, log: Pick<Logger, 'warn'>, everyMs = EVERY_MS): Refusals {
  const message = `the ${name} refused requests: their tokens are missing, not known, or lack the scope`;
  let counts: Partial<Record<RefusalCause, number>> = {};
  let addresses = new Set<string>();
  let timer: NodeJS.Timeout | undefined;

  function write(): void {
    const refused = Object.values(counts).reduce((sum, each) => sum + each, 0);
    if (refused === 0) return; // no refusal in this minute: the next one is logged at once
    log.warn({ refused, ...counts, addresses: addresses.size, address: [...addresses].at(-1) }, message);
    counts = {};
    addresses = new Set();
    timer = setTimeout(() => {
      timer = undefined;
      write();
    }, everyMs).unref();
  }

  return {
    count(cause, address) {
      counts[cause] = (counts[cause] ?? 0) + 1;
      if (addresses.size < MOST_ADDRESSES) addresses.add(address);
      if (timer === undefined) write();
    },
    close() {
      clearTimeout(timer);
      timer = undefined;
      write();
      clearTimeout(timer);
    },
  };
}

/** At most this many addresses are counted, since an attacker may have very many. */
const MOST_ADDRESSES = 1_000;
