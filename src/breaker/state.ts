import { doubledMs } from '../domain/doubled.ts';
import { TROUBLES, type Trouble } from '../domain/trouble.ts';
import type { Evidence } from './breaker.ts';

/** A breaker that is open or half open, as a worker knows it. Times are epoch milliseconds. */
export interface State {
  readonly trouble: Trouble;
  readonly code: string;
  readonly since: number;
  /** On this machine's clock; never shared, since clocks differ. */
  readonly until: number;
  /** How many trials have failed. */
  readonly step: number;
  /** The notification whose trial failed last. */
  readonly failedId: string | null;
  /** Another one after each change, so that no two are taken for the same. */
  readonly change: string;
}

/** How long breakers stay open, in milliseconds: at first, and where doubling ends. */
export interface Terms {
  readonly baseMs: number;
  readonly maxMs: number;
}

/** Trouble that one answer, or many together, told of. */
export type Finding = Pick<Evidence, 'code' | 'retryAfterMs'> & { readonly trouble: Trouble };

/** When something was found, and the `change` that it makes. */
export interface Moment {
  readonly now: number;
  readonly change: string;
}

/** Where a provider asks for less and names no time. FCM's documentation asks for a minute. */
const QUOTA_MS = 60_000;
/** A time that a provider names beyond a day is a mistake. */
const MAX_NAMED_MS = 86_400_000;
/** A Retry-After that ends later by less is the same one, told by another answer. */
const SLACK_MS = 1_000;

/** How long the breaker stays open, in whole milliseconds. */
export function openMs({ trouble, retryAfterMs }: Finding, step: number, { baseMs, maxMs }: Terms): number {
  if (trouble !== 'quota') return doubledMs(baseMs, maxMs, step);
  return Math.ceil(Math.min(Math.max(retryAfterMs ?? QUOTA_MS, baseMs), MAX_NAMED_MS));
}

/** After an answer that was no trial's: `known` itself where it changes nothing. */
export function found(known: State | undefined, finding: Finding, { now, change }: Moment, terms: Terms): State {
  const { trouble, code, retryAfterMs } = finding;
  // Sends that were under way when it opened make it no longer, unless the provider names the time.
  const isNoLonger = known !== undefined && retryAfterMs === undefined;
  const until = isNoLonger ? known.until : now + openMs(finding, 0, terms);
  return merge(known, { trouble, code, since: now, until, step: 0, failedId: null, change });
}

/** The worse trouble's name, and the longer quota's time; `known` itself where `added` changes neither. */
export function merge(known: State | undefined, added: State): State {
  if (known === undefined) return added;
  const isWorse = TROUBLES.indexOf(added.trouble) < TROUBLES.indexOf(known.trouble);
  const isLonger = added.trouble === 'quota' && added.until > known.until + SLACK_MS;
  if (!isWorse && !isLonger) return known;
  const { trouble, code } = isWorse ? added : known;
  return { ...known, trouble, code, until: isLonger ? added.until : known.until, change: added.change };
}

/** After a trial that failed. */
export function reopened(
  known: State,
  finding: Finding,
  failedId: string,
  { now, change }: Moment,
  terms: Terms,
): State {
  const { trouble, code } = finding;
  const step = known.step + 1;
  return { trouble, code, since: known.since, until: now + openMs(finding, step, terms), step, failedId, change };
}

/** What a trial's answer says against the provider; undefined where it is back. */
export function failureOf(open: Pick<State, 'trouble' | 'code'>, evidence: Evidence): Finding | undefined {
  const { trouble, suspect, code, retryAfterMs } = evidence;
  // Who refuses us is there: the outage is over, and the refusal is another breaker's.
  if (trouble !== undefined) return open.trouble === 'outage' ? undefined : { trouble, code, retryAfterMs };
  if (suspect === open.trouble) return { trouble: suspect, code, retryAfterMs };
  // Who cannot be reached has not taken back what was said of credentials, configuration or quota.
  if (suspect === 'outage') return { trouble: open.trouble, code: open.code };
  return undefined;
}

/** Whether anybody has to be told. Two workers that open a breaker in one moment make one opening of it. */
export function isNews(before: State | undefined, next: State | undefined): boolean {
  if (before === undefined || next === undefined) return before !== next;
  if (before.change === next.change) return false;
  const isLonger = Math.abs(next.until - before.until) > SLACK_MS;
  return isLonger || before.trouble !== next.trouble || before.step !== next.step;
}
