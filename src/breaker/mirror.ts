import type { Shared, Store } from './store.ts';

/** One call that tells Redis what this worker found. @param seen the state there, as it was last read */
export type Telling = (store: Store, seen: string) => Promise<Shared>;

/** Keeps one breaker of this worker and the one in Redis the same. Nothing here rejects. */
export interface Mirror {
  /** Tells Redis now, and again with every `sync` until it answers. Takes the place of what was not told yet. */
  tell(telling: Telling): void;
  /** Tells what is to be told, or else reads. Once a second. */
  sync(): Promise<void>;
  /** What Redis made of a claim; undefined where it does not answer, or does not know yet that the breaker is open. */
  claim(trialId: string, forMs: number): Promise<Shared | undefined>;
  release(trialId: string): Promise<void>;
}

/**
 * Takes over what Redis has.
 *
 * @param wasTold whether this is the answer to something that it was told
 * @returns what Redis is to be told next; undefined where both are the same now
 */
export type Adopt = (shared: Shared, wasTold: boolean) => Telling | undefined;

/** Where others change the breaker all the time, the next `sync` goes on. */
const MAX_ROUNDS = 3;

export function createMirror(store: Store, adopt: Adopt): Mirror {
  let untold: Telling | undefined;
  let seen = '';
  /** An answer to what was asked before this worker's latest finding is behind. */
  let findings = 0;
  let syncing: Promise<void> | undefined;

  async function exchange(): Promise<void> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const before = findings;
      const telling = untold;
      const shared = await (telling ? telling(store, seen) : store.read());
      seen = shared.text;
      if (findings !== before) continue;
      untold = adopt(shared, telling !== undefined);
      if (untold === undefined) return;
    }
  }

  function sync(): Promise<void> {
    syncing ??= exchange()
      .catch(() => undefined) // what was known last stands; the connection's owner tells of a Redis that is away
      .finally(() => (syncing = undefined));
    return syncing;
  }

  return {
    tell(telling) {
      findings += 1;
      untold = telling;
      void sync();
    },
    sync,
    async claim(trialId, forMs) {
      await syncing;
      if (untold) return undefined;
      const before = findings;
      const shared = await store.claim(trialId, forMs).catch(() => undefined);
      if (shared && findings === before) untold = adopt(shared, false);
      return shared;
    },
    release: (trialId) =>
      store.release(trialId).then(
        () => undefined,
        () => undefined, // it expires
      ),
  };
}
