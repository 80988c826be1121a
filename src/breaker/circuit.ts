import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Service } from '../notification/device.ts';
import { TROUBLES, type Trouble } from '../notification/outcome.ts';
import { doubledMs } from '../domain/time.ts';
import type { BreakerChange, BreakerAnswer, Deferred, Evidence, OpenBreaker, Trial, TrialEnd } from './breaker.ts';

/** How long a breaker stays open: `baseMs` at first, doubled after each failed trial up to `maxMs`, in milliseconds. */
export interface CircuitOptions {
  readonly baseMs: number;
  readonly maxMs: number;
  /** Epoch milliseconds on this machine's clock. */
  readonly now?: () => number;
  readonly onChange: (change: BreakerChange) => void;
  readonly onTrial?: (end: TrialEnd) => void;
}

/** The arguments of breaker.lua: a verb, the id of a trial or '', and what the verb needs. */
export type Question = ['open' | 'claim' | 'close' | 'release' | 'read', string, ...(string | number)[]];

/**
 * - `step`: how many trials have failed
 * - `isSuspected`: only many answers together show the trouble, so the fault may be in some devices
 * - `failed`: the latest recipients whose notifications showed the trouble, or whose trial failed
 */
const OWN = {
  step: z.number(),
  isSuspected: z.boolean().default(false),
  failed: z.array(z.string()).default([]),
};
const STATE = z.object({ trouble: z.enum(TROUBLES), code: z.string(), since: z.number(), ...OWN });
const TEXT = z.string().transform((text): unknown => JSON.parse(text));
const ANSWER = z.tuple([TEXT.pipe(STATE).nullable(), z.coerce.number(), z.string().nullable()]);
type State = OpenBreaker & z.infer<typeof STATE>;

/** Longer than any send takes. A worker that is killed during its trial blocks other trials for this long at most. */
const TRIAL_MS = 20_000;
/** A worker that did not get the trial asks for it again after this: by then the trial has most likely been answered. */
const AGAIN_MS = 1_000;
/** The first notification comes back this long after the open time ends here: in Redis it may end a round trip later. */
const FIRST_AFTER_MS = 100;
/** For this long after the open time, only recipients that have not failed may get the trial. */
const STAND_BACK_MS = 2_000;
/**
 * If the trouble is only suspected, a notification to a recipient that has not failed is let through as an early trial, one in
 * each EARLY_EVERY_MS. So a few bad devices do not stop the others for long, and a provider that is really down gets at most
 * eight requests a second from each worker.
 */
const EARLY = 'early';
const EARLY_EVERY_MS = 125;
/**
 * Deferred notifications that may be early trials come back this far apart; all others come back when the breaker is half open.
 * A good notification behind some that will fail should still be sent within a second or two.
 */
const EARLY_LINE_MS = 250;
const EARLY_AHEAD_MS = 12 * EARLY_LINE_MS;
/** At most this many of the latest failed recipients are remembered and shared with the other workers. */
const MAX_FAILED = 100;
/** A new Retry-After prolongs the open time only if it ends more than this after the known open time. */
const SLACK_MS = 1_000;
/** Deferred notifications come back in the order of enqueuing, 20 times as fast: those of an hour within three minutes. */
const ENQUEUED_PER_MS = 20;
/** With AGAIN_MS this is less than KEPT_MS of breaker.lua, so deferred notifications come back before the state expires. */
const MAX_PLACE_MS = 590_000;
/** The open time if a provider asks for fewer sends and names no time. FCM's documentation asks for a minute. */
const QUOTA_MS = 60_000;
/** The longest open time if the quota is only suspected: the time in the answer may be about one subscription alone. */
const MAX_SUSPECTED_MS = 600_000;

/** The breaker of one service. @param ask resolves to Redis's answer, or to undefined if none came in time */
export function createCircuit(
  service: Service,
  { baseMs, maxMs, now = Date.now, onChange, onTrial }: CircuitOptions,
  ask: (question: Question) => Promise<unknown>,
) {
  const suspicion = createSuspicion();
  let known: State | undefined;
  /** The recipients in `known.failed`, and recipients that failed since `known` was read. Empty while the breaker is closed. */
  let failed = new Set<string>();
  /** The change that Redis has not confirmed yet. Until then, Redis's answers to other questions are out of date. */
  let unconfirmed: Question | undefined;
  let claimAgainAt = 0;
  let earlyAgainAt = 0;
  let earlyLineEnd = 0;
  /**
   * How many deferred notifications may still come back first, to be the trial: for recipients that have not failed (`firsts`),
   * and for recipients that have failed.
   */
  let firsts = 0;
  let failedFirsts = 0;
  /**
   * The earliest `enqueuedAt` of all notifications deferred since the breaker opened, or since its last trial failed. One that
   * was enqueued before the breaker opened counts as enqueued at that time: else all others would wait for longer because of it.
   */
  let earliest = Infinity;

  function become(next: State | undefined, closed: Pick<BreakerChange, 'byTrial'> = {}): void {
    const before = known;
    known = next;
    failed = next === undefined ? new Set() : latestOf([...failed, ...next.failed]);
    if (before?.trouble === next?.trouble && before?.step === next?.step) return;
    if (next === undefined) suspicion.clear(); // answers from before the breaker closed say nothing about the provider now
    firsts = failedFirsts = 1;
    earliest = Infinity;
    if (before === undefined) earlyAgainAt = earlyLineEnd = now() + EARLY_LINE_MS;
    onChange({ service, open: next, before, ...closed });
  }

  /** Asks Redis; answers the id of the trial that is under way. Without a readable answer the last known state stays. */
  async function askRedis(question: Question): Promise<string | null> {
    const answer = await ask(question)
      .then((raw) => ANSWER.parse(raw))
      .catch(() => undefined);
    if (answer === undefined) return null;
    const [state, forMs, trialId] = answer;
    if (question === unconfirmed) unconfirmed = undefined;
    const isOwn = known?.trouble === 'outage' && state === null; // this worker itself found the outage: Redis does not know of it
    if (!unconfirmed && !isOwn) become(state ? { ...state, service, until: now() + forMs } : undefined);
    return trialId;
  }

  function change(next: State | undefined, question: Question): void {
    become(next, next === undefined ? { byTrial: true } : {});
    if (next?.trouble === 'outage') return;
    unconfirmed = question;
    void askRedis(question);
  }

  /** How long the breaker is to stay open. If a quota is only suspected, `evidence.trouble` is absent, also after a trial. */
  function openMs(evidence: Evidence, trouble: Trouble, step: number): number {
    if (trouble !== 'quota') return doubledMs(baseMs, maxMs, step);
    const { retryAfterMs = QUOTA_MS } = evidence;
    const mostMs = evidence.trouble === undefined ? MAX_SUSPECTED_MS : Infinity;
    return Math.max(Math.min(Math.ceil(retryAfterMs), mostMs), baseMs);
  }

  function open(
    evidence: Evidence,
    trouble: Trouble,
    { step, isSuspected }: Pick<State, 'step' | 'isSuspected'>,
    trialId = '',
  ): void {
    const forMs = openMs(evidence, trouble, step);
    const since = known?.since ?? now();
    const state = { trouble, code: evidence.code, since, step, isSuspected, failed: [...failed] };
    const next = { ...state, service, until: now() + forMs };
    change(next, ['open', trialId, JSON.stringify(state), forMs, trouble === 'quota' ? forMs : 0]);
  }

  /** Opens the breaker for trouble that no trial found. If the breaker is already open, only a longer quota prolongs it. */
  function find(evidence: Evidence, trouble: Trouble, isSuspected: boolean): void {
    const until = trouble === 'quota' ? now() + openMs(evidence, trouble, 0) : 0;
    if (known === undefined || (known.trouble === 'outage' && trouble !== 'outage'))
      open(evidence, trouble, { step: 0, isSuspected });
    else if (until > known.until + SLACK_MS) open(evidence, trouble, known);
  }

  function settle(evidence: Evidence, { id }: Trial): void {
    const isEarly = id === EARLY;
    if (!isEarly) claimAgainAt = 0;
    // During the trial another answer may have opened the breaker for longer: then the trial decides nothing.
    if (known === undefined || (!isEarly && now() < known.until)) return;
    // A provider that refuses can be reached, so an outage is over. But after a refusal, a provider that cannot be reached
    // counts as still refusing.
    const refusal = known.trouble === 'outage' ? undefined : evidence.trouble;
    const isStill = evidence.suspect === known.trouble || evidence.suspect === 'outage';
    const trouble = refusal ?? (isStill ? known.trouble : undefined);
    onTrial?.({ service, result: trouble ? 'failure' : 'success' });
    if (trouble === undefined) change(undefined, ['close', id]);
    else if (!isEarly) {
      const isSuspected = known.isSuspected && evidence.trouble === undefined;
      open(evidence, trouble, { step: known.step + 1, isSuspected }, id);
    }
  }

  return {
    current: () => known,
    hasAnsweredWell: () => !suspicion.isNothingGood(now()),
    async enter(recipientId: string): Promise<BreakerAnswer> {
      const isNext = () => known && now() >= known.until + (failed.has(recipientId) ? STAND_BACK_MS : 0);
      if (now() >= claimAgainAt && isNext()) {
        claimAgainAt = now() + AGAIN_MS;
        const id = randomUUID();
        const isClaimed = known?.trouble === 'outage' || (await askRedis(['claim', id, TRIAL_MS])) === id;
        // Redis's answer may show that a trial of this recipient has failed on another worker.
        if (isClaimed && isNext()) {
          claimAgainAt = now() + TRIAL_MS;
          return { kind: 'trial', trial: { service, id } };
        }
        void askRedis(['release', id]);
      }
      if (known?.isSuspected && !failed.has(recipientId) && now() >= earlyAgainAt) {
        earlyAgainAt = now() + EARLY_EVERY_MS;
        return { kind: 'trial', trial: { service, id: EARLY } };
      }
      return known ? { kind: 'open', open: known } : { kind: 'closed' };
    },
    report(evidence: Evidence, trial?: Trial): void {
      const isBad = (evidence.trouble ?? evidence.suspect) !== undefined;
      if (isBad && known !== undefined) failed = latestOf([...failed, evidence.recipientId]);
      if (trial) settle(evidence, trial);
      const suspected = suspicion.add(evidence, now());
      if (evidence.trouble !== undefined) find(evidence, evidence.trouble, false);
      else if (suspected !== undefined) {
        if (known === undefined) failed = latestOf(suspected.recipientIds);
        find(evidence, suspected.trouble, suspected.trouble !== 'quota');
      }
    },
    release({ id }: Trial): void {
      onTrial?.({ service, result: 'unused' });
      if (id === EARLY) {
        earlyAgainAt = 0;
        return;
      }
      claimAgainAt = 0;
      void askRedis(['release', id]);
    },
    deferUntil({ recipientId, enqueuedAt }: Deferred): number {
      const hasFailed = failed.has(recipientId);
      const earlyAt = Math.max(now(), earlyAgainAt, earlyLineEnd);
      const isEarly =
        known?.isSuspected === true && !hasFailed && earlyAt <= Math.min(known.until, now() + EARLY_AHEAD_MS);
      if (isEarly) {
        earlyLineEnd = earlyAt + EARLY_LINE_MS;
        return earlyAt;
      }
      // Recipients that failed come back after STAND_BACK_MS: if they came sooner, they would be deferred once more, and lose
      // their order.
      const freeAt = Math.max(now(), (known?.until ?? 0) + (hasFailed ? STAND_BACK_MS : 0));
      earliest = Math.min(earliest, Math.max(enqueuedAt, known?.since ?? now()));
      if (hasFailed ? failedFirsts-- > 0 : firsts-- > 0) return freeAt + FIRST_AFTER_MS;
      const place = Math.floor((enqueuedAt - earliest) / ENQUEUED_PER_MS);
      return freeAt + AGAIN_MS + Math.min(Math.max(0, place), MAX_PLACE_MS);
    },
    /** Whether the breaker is closed and Redis has confirmed that. If Redis then has a state, it is from another worker. */
    isQuiet: () => known === undefined && unconfirmed === undefined,
    /** Reads the state from Redis, or repeats a change that could not be written. */
    sync: () => askRedis(unconfirmed ?? ['read', '']),
  };
}

function latestOf(recipientIds: readonly string[]): Set<string> {
  return new Set([...new Set(recipientIds)].slice(-MAX_FAILED));
}

/** How many answers are looked at. If half of the answers fail by chance, 80 failures among 100 practically never occur. */
const ANSWERS = 100;
/** On a busy provider, only answers within this time count. */
const WINDOW_MS = 10_000;
/** A provider that fails in less than this share of its answers is not stopped: retries with backoff get through. */
const OUTAGE_SHARE = 0.8;
/** How many different recipients must fail on a busy provider: so many bad devices hardly ever fail within ten seconds. */
const MANY = 20;
/**
 * If fewer than MANY recipients failed, or if the suspect is `configuration`, trouble is certain only if no answer was good for
 * this long. With little traffic, most answers can come from a few devices that fail again and again.
 */
const NOTHING_GOOD_MS = 30_000;
/** How many different recipients must fail for an outage, if no answer was good. */
const FEW = 5;

type Weighed = Pick<Evidence, 'recipientId' | 'trouble' | 'suspect'>;
type Answer = Weighed & { readonly at: number };

/** Trouble that many answers together show. */
export interface Found {
  readonly trouble: Trouble;
  /** The recipients whose notifications failed. */
  readonly recipientIds: readonly string[];
}

/** Finds trouble that no single answer proves, in the latest answers of one service to this worker. */
export function createSuspicion() {
  let answers: Answer[] = [];
  let lastGoodAt = -Infinity;

  const isNothingGood = (at: number): boolean => at - lastGoodAt >= NOTHING_GOOD_MS;

  function isCertain(suspect: Trouble, same: readonly Answer[], at: number): boolean {
    const since = (ms: number): Answer[] => same.filter((answer) => answer.at > at - ms);
    // Bad tokens are counted in a row, over any length of time; a good answer ends the row.
    if (suspect === 'configuration') return isNothingGood(at) && recipientsOf(since(at - lastGoodAt)).length >= MANY;
    if (suspect === 'outage') {
      if (isNothingGood(at) && recipientsOf(since(NOTHING_GOOD_MS)).length >= FEW) return true;
      const latest = answers.filter((answer) => answer.at > at - WINDOW_MS);
      if (since(WINDOW_MS).length < OUTAGE_SHARE * latest.length) return false;
    }
    return recipientsOf(since(WINDOW_MS)).length >= MANY;
  }

  return {
    /** The trouble that this answer makes certain, if any. @param at epoch milliseconds */
    add({ recipientId, trouble, suspect }: Weighed, at: number): Found | undefined {
      answers.push({ recipientId, trouble, suspect, at });
      if (answers.length > ANSWERS) answers.shift();
      if ((trouble ?? suspect) === undefined) lastGoodAt = at;
      if (suspect === undefined) return undefined;
      const same = answers.filter((answer) => answer.suspect === suspect);
      if (!isCertain(suspect, same, at)) return undefined;
      answers = [];
      return { trouble: suspect, recipientIds: recipientsOf(same) };
    },
    isNothingGood,
    clear: () => void (answers = []),
  };
}

function recipientsOf(answers: readonly Answer[]): string[] {
  return [...new Set(answers.map(({ recipientId }) => recipientId))];
}
