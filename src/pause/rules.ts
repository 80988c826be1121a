import { TROUBLES, type Trouble } from '../domain/trouble.ts';
import type { Pause } from './pauses.ts';

/** How long pauses are, in milliseconds. */
export interface PauseTerms {
  /** The first one. */
  readonly baseMs: number;
  /** Where doubling ends. */
  readonly maxMs: number;
}

/** A pause as a worker keeps it. */
export interface Standing extends Pause {
  /** How many probes have failed. */
  readonly step: number;
}

/** Trouble that was met without a probe. */
export interface Opening {
  readonly trouble: Trouble;
  readonly code: string;
  readonly forMs: number;
  /** Whether it makes a standing pause longer even where its trouble is no worse. */
  readonly mayExtend: boolean;
}

/** What a probe met. */
export type Failure = Omit<Opening, 'mayExtend'>;

/** A provider that wants less and does not say for how long; FCM's documentation asks for a minute. */
const QUOTA_MS = 60_000;
/** A time that is named beyond this is a mistake. */
const MAX_NAMED_MS = 86_400_000;
/** A time that is longer by less does not count, in pause.lua either: the answers of one moment name times that differ by the moment. */
export const SLACK_MS = 1_000;

/** How long a pause is after so many failed probes. */
export function pauseMs(trouble: Trouble, step: number, retryAfterMs: number | undefined, terms: PauseTerms): number {
  const doubled = Math.min(terms.baseMs * 2 ** Math.min(step, 30), terms.maxMs);
  if (trouble !== 'quota') return doubled;
  const named = Math.min(Math.max(0, retryAfterMs ?? QUOTA_MS), MAX_NAMED_MS);
  return Math.ceil(step === 0 ? named : Math.max(named, doubled));
}

/** What `open` in pause.lua makes of it, in this worker alone; the same object where nothing changes. */
export function opened(standing: Standing | undefined, opening: Opening, now: number): Omit<Standing, 'platform'> {
  const { trouble, code, forMs, mayExtend } = opening;
  const until = now + forMs;
  if (standing === undefined) return { trouble, code, since: now, until, step: 0 };
  const isWorse = TROUBLES.indexOf(trouble) < TROUBLES.indexOf(standing.trouble);
  if (!isWorse && !(mayExtend && until > standing.until + SLACK_MS)) return standing;
  const told = isWorse || trouble === standing.trouble ? { trouble, code } : {};
  return { ...standing, ...told, until: Math.max(until, standing.until + 1) };
}

/** What `settle` in pause.lua makes of a probe that failed. Who cannot be reached has said nothing about credentials. */
export function reopened(standing: Standing, { trouble, code, forMs }: Failure, now: number): Standing {
  const told = trouble === 'outage' && standing.trouble !== 'outage' ? {} : { trouble, code };
  return { ...standing, ...told, until: Math.max(now + forMs, standing.until + 1), step: standing.step + 1 };
}
