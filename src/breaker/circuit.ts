import type { Platform } from '../domain/notification.ts';
import type { BreakerChange, Entry, Evidence, OpenBreaker, Trial, TrialEnd } from './breaker.ts';
import { createLine } from './line.ts';
import { createMirror, type Telling } from './mirror.ts';
import { failureOf, found, isNews, merge, reopened, type Finding, type State, type Terms } from './state.ts';
import type { Shared, Store } from './store.ts';

/** One breaker of one provider: what a worker finds counts in it at once, and in all other workers where it has a store. */
export interface Circuit {
  current(): OpenBreaker | undefined;
  enter(notificationId: string): Promise<Entry>;
  /** Trouble was met, but not by a trial. */
  find(finding: Finding): void;
  settle(trial: Trial, evidence: Evidence): void;
  release(trial: Trial): void;
  deferUntil(enqueuedAt: number): number;
  /** Tells Redis what it does not know yet, or learns what it knows. Never rejects. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

export interface CircuitParts {
  readonly terms: Terms;
  /** Epoch milliseconds on this machine's clock. */
  readonly now: () => number;
  /** An id that nobody else makes. */
  readonly newId: () => string;
  readonly onChange: (change: BreakerChange) => void;
  readonly onTrial: (end: TrialEnd) => void;
}

/** Longer than any send takes. Whoever was killed with the trial keeps it no longer than this. */
const TRIAL_MS = 20_000;
/** Where another notification is the trial. */
const ELSEWHERE_MS = 1_000;
/** A crowd that comes back asks Redis for the trial no more often than this. */
const CLAIM_EVERY_MS = 250;
/** So long after the breaker is half open others go before the notification whose trial failed last. */
const STAND_BACK_MS = 2_000;

/** @param store undefined where the breaker is this worker's alone */
export function createCircuit(platform: Platform, parts: CircuitParts, store?: Store): Circuit {
  const { terms, now, newId, onChange, onTrial } = parts;
  const line = createLine();
  const mirror = store && createMirror(store, adopt);
  let known: State | undefined;
  /** The trial that this worker has, until `claimAgainAt`. */
  let heldId: string | undefined;
  let claimAgainAt = 0;
  let claiming: Promise<Trial | undefined> | undefined;

  function become(next: State | undefined): void {
    const before = known;
    known = next;
    if (isNews(before, next)) onChange({ platform, open: next && toOpen(next), before: before && toOpen(before) });
  }

  function toOpen({ trouble, code, since, until }: State): OpenBreaker {
    return { platform, trouble, code, since, until };
  }

  function adopt(shared: Shared, wasTold: boolean): Telling | undefined {
    const theirs = toState(shared);
    const next = wasTold && known ? merge(theirs, known) : theirs;
    become(next);
    return next && next !== theirs ? telling(next) : undefined;
  }

  function toState({ marker, forMs, state }: Shared): State | undefined {
    if (state === undefined) return undefined;
    const at = now();
    if (marker === 'open') return { ...state, until: at + forMs };
    return { ...state, until: known?.change === state.change ? Math.min(known.until, at) : at };
  }

  function telling(state: State): Telling {
    return (redis, seen) => redis.put(seen, state, leftMs(state));
  }

  function leftMs({ until }: State): number {
    return Math.max(0, Math.ceil(until - now()));
  }

  /** Where Redis does not answer, each worker tries by itself. */
  async function claim(notificationId: string): Promise<Trial | undefined> {
    const id = newId();
    const shared = await mirror?.claim(id, TRIAL_MS);
    const isClaimed = shared ? shared.marker === id : known !== undefined && known.until <= now();
    claimAgainAt = now() + (isClaimed ? TRIAL_MS : CLAIM_EVERY_MS);
    heldId = isClaimed ? id : undefined;
    return isClaimed ? { platform, notificationId, id, isShared: store !== undefined } : undefined;
  }

  function mayClaim({ until, failedId }: State, notificationId: string): boolean {
    const at = now();
    if (at < until || at < claimAgainAt) return false;
    return failedId !== notificationId || at >= until + STAND_BACK_MS;
  }

  function withoutTrial(): Entry {
    if (known === undefined) return { kind: 'closed' };
    const at = now();
    return { kind: 'open', open: { ...toOpen(known), until: at < known.until ? known.until : at + ELSEWHERE_MS } };
  }

  /** Whether the trial was still this worker's. */
  function take({ id }: Trial): boolean {
    if (heldId !== id) return false;
    const isOurs = now() < claimAgainAt;
    heldId = undefined;
    claimAgainAt = 0;
    return isOurs;
  }

  return {
    current: () => known && toOpen(known),
    async enter(notificationId) {
      if (known === undefined || !mayClaim(known, notificationId)) return withoutTrial();
      if (claiming) {
        await claiming;
        return withoutTrial();
      }
      claiming = claim(notificationId).finally(() => (claiming = undefined));
      const trial = await claiming;
      return trial ? { kind: 'trial', trial } : withoutTrial();
    },
    find(finding) {
      const next = found(known, finding, { now: now(), change: newId() }, terms);
      if (next === known) return;
      become(next);
      mirror?.tell(telling(next));
    },
    settle(trial, evidence) {
      // While the trial was under way another answer may have opened the breaker for longer: that one counts.
      if (!take(trial) || known === undefined || now() < known.until) return;
      const failure = failureOf(known, evidence);
      onTrial({ platform, result: failure ? 'failure' : 'success' });
      if (failure === undefined) {
        become(undefined);
        mirror?.tell((redis) => redis.succeed(trial.id));
      } else {
        const next = reopened(known, failure, trial.notificationId, { now: now(), change: newId() }, terms);
        become(next);
        mirror?.tell((redis) => redis.fail(trial.id, next, leftMs(next)));
      }
    },
    release(trial) {
      take(trial);
      onTrial({ platform, result: 'unused' });
      void mirror?.release(trial.id);
    },
    deferUntil: (enqueuedAt) => line.next(known, enqueuedAt, now()),
    sync: () => mirror?.sync() ?? Promise.resolve(),
    async close() {
      await claiming;
      if (heldId) await mirror?.release(heldId);
      await mirror?.sync();
    },
  };
}
