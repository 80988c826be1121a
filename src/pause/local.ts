import type { Platform } from '../domain/notification.ts';
import type { PauseChange } from './pauses.ts';
import type { Standing } from './rules.ts';
import type { Reading, Shared } from './store.ts';

/** What one worker knows of one provider's pause. */
export interface Local {
  readonly standing: Standing | undefined;
  /** `until` by Redis's clock, by which the pause is known there; 0 where it is not. */
  readonly version: number;
  /** Whether some worker has the probe, as far as Redis told. */
  isLent(): boolean;
  /** What this worker found out itself, and Redis does not know yet. */
  become(standing: Omit<Standing, 'platform'> | undefined): void;
  /** What Redis says. */
  adopt(reading: Reading): void;
  /** Tells of the pause unless it was told as it is. */
  tell(by: PauseChange['by']): void;
}

export interface LocalParts {
  readonly now: () => number;
  readonly onChange: (change: PauseChange) => void;
  /** Told in the same tick, of each change. */
  readonly onTurn: (change: Pick<PauseChange, 'pause' | 'before'>) => void;
}

/** Our own pause comes back from Redis later by the way there; the number that jobs were given stays. */
const OWN_MS = 100;
/** A reading may have been a second under way; a clock that was set moves by more. */
const DRIFT_MS = 2_000;

interface Known {
  readonly standing: Standing;
  readonly version: number;
}

export function createLocal(platform: Platform, { now, onChange, onTurn }: LocalParts): Local {
  let known: Known | undefined;
  let told: Known | undefined;
  let leaseUntil = -Infinity;

  function turn(next: Known | undefined): void {
    const before = known;
    known = next;
    if (isOther(before, next)) onTurn({ pause: next?.standing, before: before?.standing });
  }

  return {
    get standing() {
      return known?.standing;
    },
    get version() {
      return known?.version ?? 0;
    },
    isLent: () => performance.now() < leaseUntil,
    become(standing) {
      leaseUntil = -Infinity;
      turn(standing && { standing: { platform, ...standing }, version: 0 });
    },
    adopt({ now: theirs, shared }) {
      leaseUntil = shared ? performance.now() + shared.leaseUntil - theirs : -Infinity;
      turn(shared && { standing: toLocal(shared, now() - theirs, known, platform), version: shared.until });
    },
    tell(by) {
      const before = told;
      told = known;
      if (!isOther(before, known)) return;
      onChange({ platform, pause: known?.standing, before: before?.standing, by });
    },
  };
}

/** One distance of the clocks for each reading, and none for what was read before: `until` is one number for all jobs. */
function toLocal(shared: Shared, aheadMs: number, known: Known | undefined, platform: Platform): Standing {
  const { trouble, code, step } = shared;
  const standing = { platform, trouble, code, since: shared.since + aheadMs, until: shared.until + aheadMs, step };
  if (known === undefined || (known.version !== 0 && known.version !== shared.until)) return standing;
  const { since, until } = known.standing;
  const isKept = Math.abs(standing.until - until) < (known.version === 0 ? OWN_MS : DRIFT_MS);
  return isKept ? { ...standing, since, until } : standing;
}

function isOther(one: Known | undefined, other: Known | undefined): boolean {
  if (one === undefined || other === undefined) return one !== other;
  if (one.standing.trouble !== other.standing.trouble) return true;
  if (one.version !== 0 && other.version !== 0) return one.version !== other.version;
  return Math.abs(one.standing.until - other.standing.until) >= OWN_MS;
}
