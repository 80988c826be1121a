import { randomUUID } from 'node:crypto';
import type { OptionNames } from '../../domain/faults.ts';
import type { CategoryPolicy, Policy, Overtaking } from '../../domain/limits.ts';
import { quietText, type QuietHours } from '../../domain/quiet-hours.ts';
import { createDeadline } from '../../redis/deadline.ts';
import {
  checkAsk,
  checkBlock,
  checkCategories,
  checkFollow,
  checkKeep,
  checkLimit,
  checkLimiterOptions,
  checkOvertaking,
  checkPrefix,
  checkQuiet,
  checkQuietHours,
  checkRecipient,
  checkSlot,
  MAX_BLOCK_MS,
} from '../checks.ts';
import { checkOnUnavailable, withFallback, type OnUnavailable } from '../fallback.ts';
import type {
  Admission,
  Ask,
  NotToBeSent,
  Follow,
  SlotId,
  Limiter,
  Released,
  WaitingAsk,
  WaitingLimiter,
} from '../limiter.ts';
import { DEFAULT_OVERTAKING } from '../overtaking.ts';
import { FIRST_LEAD_MS, foreseeFirst, inspectionOf, movedOf, replan, type Replanned } from '../recipient-state.ts';
import { createClock, type Clock } from '../../redis/clock.ts';
import {
  allKeys,
  categoryKeys,
  defineScripts,
  entryOf,
  idOf,
  memberOf,
  jobIdIn,
  readReleased,
  recipientKeys,
  waitingFields,
  type LimiterRedis,
} from './keys.ts';
import { createLook, toMoves } from './look.ts';
import { createQuietTerms } from './quiet-terms.ts';
import { createPolicies, readAdmit, readSettings, toAdmission, toOptions } from './wire.ts';

/** The limits of a Redis limiter, its client, what it keeps, and what happens while Redis does not answer. */
export interface RedisLimiterOptions {
  /** A client that the caller opens and closes. It must not be in subscriber mode; auto-pipelining makes it slower. */
  readonly redis: LimiterRedis;
  /** The overall policy, for asks without a policy of their own. */
  readonly policy: Policy;
  /** Policies of categories, by their names; each holds in addition to the overall policy. Default: none. */
  readonly categories?: Readonly<Record<string, CategoryPolicy>>;
  /** When recipients get no alert, unless `quiet` stored other hours for one of them. Default: no time is quiet. */
  readonly quietHours?: QuietHours | undefined;
  /** The first part of every key; braces are removed. Default: `pushpacer`. */
  readonly prefix?: string;
  /** How long an answer may take before LimiterUnavailableError, in milliseconds. Default: 2,000. */
  readonly timeoutMs?: number;
  /**
   * Sent slots are kept for the longest window of `policy` and of the ask's own policy. If asks for one recipient bring different
   * policies, give the longest of all their windows here, in milliseconds. Default: 0.
   */
  readonly keepMs?: number;
  /** An ask that waits or is refused counts as a sent slot, so a caller that asks too often is kept waiting. Default: false. */
  readonly countBlocked?: boolean;
  /** Stores the ids of sent slots, so that `inspect` shows them; takes about twice the memory. Default: false. */
  readonly keepIds?: boolean;
  /** How far reservations that go first are moved before others. Default: 20 times, 10 minutes. */
  readonly overtaking?: Overtaking;
  /** What happens while Redis does not answer. Default: `closed`. */
  readonly onUnavailable?: OnUnavailable;
  /** Called with true when answers begin to come from the fallback, and with false when they no longer do. */
  readonly onOutage?: ((isAway: boolean) => void) | undefined;
}

const OPTIONS: OptionNames<RedisLimiterOptions> = {
  ...{ redis: true, policy: true, categories: true, quietHours: true, prefix: true, timeoutMs: true, keepMs: true },
  ...{ countBlocked: true, keepIds: true, onUnavailable: true, onOutage: true, overtaking: true },
};

/**
 * The limiter that all workers share. {@link Limiter} says what it promises, docs/limiter.md and admit.lua describe its
 * algorithm. Throws InputError if an option is not usable.
 */
export function createRedisLimiter(options: RedisLimiterOptions): Limiter {
  checkLimiterOptions(options, OPTIONS);
  const { onUnavailable = 'closed', ...own } = options;
  checkOnUnavailable(onUnavailable);
  // No answer is `ended` here: no ask has a join, and nothing is canceled.
  return withFallback(createWaitingLimiter(own) as Limiter, { ...own, onUnavailable });
}

export interface WaitingLimiterOptions extends Omit<RedisLimiterOptions, 'onUnavailable' | 'onOutage'> {
  /** Shared with other limiters on the same Redis. Default: a clock of its own. */
  readonly clock?: Clock;
}

/** As `createRedisLimiter`, for notifications that can be canceled and that wait together. */
export function createWaitingLimiter(options: WaitingLimiterOptions): WaitingLimiter {
  const { redis, policy, categories = {}, prefix = 'pushpacer', timeoutMs = 2_000, keepMs = 0 } = options;
  const { quietHours, countBlocked = false, keepIds = false, clock = createClock() } = options;
  const { overtaking = DEFAULT_OVERTAKING } = options;
  checkPrefix(prefix);
  checkOvertaking(overtaking);
  checkCategories(categories);
  checkKeep(keepMs);
  checkQuietHours(quietHours);
  const quietTerms = createQuietTerms(quietHours, categories);
  const policies = createPolicies(policy, categories, keepMs);
  const scripts = defineScripts(redis, 1 + policies.categories.length);
  const answered = createDeadline(timeoutMs);
  const look = createLook({ redis, prefix, categories: policies.categories.length, quietTerms, overtaking, answered });
  const sentEntry = keepIds ? (entry: string) => entry : memberOf;

  async function ask(mode: 'admit' | 'peek', asked: WaitingAsk): Promise<Admission | NotToBeSent> {
    checkAsk(asked);
    const { recipientId, id, renew, everyRule } = asked;
    const category = policies.categoryOf(asked);
    const ofScopes = policies.policiesOf(asked.policy, category);
    const keys = recipientKeys(prefix, recipientId);
    const own = category === undefined ? undefined : categoryKeys(keys, category);
    const how = renew === true ? RENEWING[mode] : asked.join?.kind === 'latest' ? 'latest' : mode;
    const entry = entryOf(id);
    const terms = quietTerms.of(recipientId, category, clock.now());
    const name = asked.enqueuedAt !== undefined && entry !== id ? jobIdIn(id) : undefined;
    const isNoted = mode === 'admit' && overtaking.mostTimes > 0;
    const noting = asked.goesFirst === true && !isNoted ? { ...asked, goesFirst: false } : asked;
    const options = toOptions(noting, name, countBlocked);
    const args = [entry, sentEntry(entry), how, options, ofScopes.text];
    if (everyRule === true || terms.args.length > 0) args.push(everyRule === true ? '1' : '', ...terms.args);
    const ofOverall = [keys.settings, keys.sent, keys.reserved];
    const askedAt = performance.now();
    const reply = await answered(
      own === undefined
        ? scripts.admit[0](...ofOverall, keys.waiting, ...args)
        : scripts.admit[1](...ofOverall, own.sent, own.reserved, own.heldBack, keys.waiting, ...args),
    );
    if (quietTerms.learns(recipientId, reply)) return ask(mode, asked);
    const answer = readAdmit(reply, ofScopes);
    clock.observe(askedAt, performance.now(), answer.now);
    return toAdmission(answer, asked, category, clock, terms.windows);
  }

  /** Never `ended`: a peek does not look whether the notification was canceled, superseded or merged. */
  function peek(asked: Ask): Promise<Admission> {
    return ask('peek', asked) as Promise<Admission>;
  }

  /** Removes the id from the reserved slots, in every scope. `more`: further arguments of release.lua. */
  async function release(slot: SlotId, ...more: (string | number)[]): Promise<Released> {
    const category = policies.categoryOf(slot);
    const keys = recipientKeys(prefix, slot.recipientId);
    const own = category === undefined ? undefined : categoryKeys(keys, category);
    const sets = own === undefined ? [keys.reserved] : [keys.reserved, own.reserved, own.heldBack];
    return releaseFrom(keys.waiting, sets, entryOf(slot.id), ...(more.length > 0 ? more : ['']));
  }

  /** Removes the id from the sent slots, in every scope; `only`: if it has this slot, '' for any slot. */
  async function refund(slot: SlotId, only: number | ''): Promise<Released> {
    const category = policies.categoryOf(slot);
    const keys = recipientKeys(prefix, slot.recipientId);
    const own = category === undefined ? undefined : categoryKeys(keys, category);
    const sent = own === undefined ? [keys.sent] : [keys.sent, own.sent];
    const lines = own === undefined ? [keys.reserved] : [keys.reserved, own.heldBack];
    const args = ['', 0, '', 1 + sent.length, only];
    return releaseFrom(keys.waiting, [...sent, ...lines], sentEntry(entryOf(slot.id)), ...args);
  }

  async function releaseFrom(waiting: string, sets: readonly string[], ...args: (string | number)[]) {
    const script = scripts.release[sets.length - 1] ?? scripts.release[0];
    return readReleased(await answered(script(waiting, ...sets, ...args)));
  }

  async function set(what: string, recipientId: string, until: number | '', value: string, mostMs: number | '') {
    const { settings } = recipientKeys(prefix, recipientId);
    return readSettings(await answered(scripts.settings(settings, what, until, value, mostMs)));
  }

  async function moveAll(recipientId: string, follow: Follow): Promise<void> {
    await moveSlots(recipientId, follow);
    if (follow.onUnslotted !== undefined) await findUnslotted(recipientId, follow.onUnslotted);
  }

  /** Reads in parts, so that no part blocks Redis for long. */
  async function findUnslotted(recipientId: string, onFound: (jobIds: readonly string[]) => Promise<void>) {
    const { waiting } = recipientKeys(prefix, recipientId);
    let cursor = '0';
    do {
      const [next, fields] = await answered(redis.hscan(waiting, cursor, 'COUNT', FIELDS_A_STEP));
      const jobIds = fields.flatMap((field, index) => (index % 2 === 0 ? unslottedIn(field, fields[index + 1]) : []));
      if (jobIds.length > 0) await onFound(jobIds);
      cursor = next;
    } while (cursor !== '0');
  }

  /**
   * Repeats while new reservations appear: an id that asked meanwhile has a slot behind the old slots, so later than needed.
   * Also repeats while others move or use the same slots: then part of the plan was not carried out, or `onMoved` may have
   * reported an older slot last.
   */
  async function moveSlots(recipientId: string, { onMoving, onMoved, leadMs = 0 }: Follow): Promise<void> {
    const { waiting } = recipientKeys(prefix, recipientId);
    const keys = [...allKeys(prefix, recipientId, policies.categories), waiting];
    const seen = new Set<string>();
    const reported = new Map<string, number>();
    const announce = async (places: readonly Replanned[]): Promise<void> => {
      const sooner = movedOf(places, idOf).filter(({ at, from }) => at < from);
      if (sooner.length > 0) await onMoving?.(sooner);
    };
    const report = async (places: readonly Replanned[]): Promise<void> => {
      for (const { id, at } of places) reported.set(id, at);
      const moved = movedOf(places, idOf);
      if (moved.length > 0) await onMoved?.(moved);
    };
    let isWhole = true;
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const state = await look(recipientId, policies);
      // A plan that came too late to be carried out leaves more time to the next one.
      const planned = replan(state, leadMs, round === 0 ? undefined : FIRST_LEAD_MS * 2 ** round);
      const movedByOthers = planned
        .filter(({ id, wasAt }) => (reported.get(id) ?? wasAt) !== wasAt)
        .map((one) => ({ ...one, at: one.wasAt, wasAt: reported.get(one.id) ?? one.wasAt }));
      await announce(movedByOthers);
      await report(movedByOthers);
      if (isWhole && planned.every(({ id }) => seen.has(id))) return;
      for (const { id } of planned) seen.add(id);
      const misplaced = planned.filter((one) => one.at !== one.wasAt || one.isHeldBack !== one.wasHeldBack);
      if (misplaced.length === 0) return;
      isWhole = true;
      for (let from = 0; from < misplaced.length; from += MOVES_A_STEP) {
        const step = misplaced.slice(from, from + MOVES_A_STEP);
        await announce(step);
        const done = new Set((await answered(scripts.move(...keys, ...toMoves(step, state)))).map(Number));
        if (done.size < step.length) isWhole = false;
        await report(step.filter((_, index) => done.has(index + 1)));
      }
    }
  }

  /** Removes what is stored for the recipient. True if there was something. */
  async function remove(what: 'unlimit' | 'unblock' | 'unquiet', recipientId: string, follow: Follow = {}) {
    checkRecipient(recipientId);
    checkFollow(follow);
    const { done } = await set(what, recipientId, '', '', '');
    await moveAll(recipientId, follow);
    return done;
  }

  return {
    admit: (asked) => ask('admit', asked),
    peek,
    async moveUp(recipientId, follow = {}) {
      checkRecipient(recipientId);
      checkFollow(follow);
      await moveAll(recipientId, follow);
    },
    async foreseeFirst({ recipientId, id, category }, refusedMs) {
      const state = await look(recipientId, policies);
      return foreseeFirst(state, { entry: entryOf(id), category, at: state.now + refusedMs });
    },
    async refund(slot) {
      checkSlot(slot);
      return (await refund(slot, '')).hadSlot;
    },
    refundAt: refund,
    async cancel(slot) {
      checkSlot(slot);
      return (await release(slot)).hadSlot;
    },
    release({ enqueuedAt, how, ...slot }) {
      return release(slot, jobIdIn(slot.id), enqueuedAt, how);
    },
    async forget({ recipientId, id, enqueuedAt }) {
      const { end, holder } = waitingFields(jobIdIn(id), enqueuedAt);
      await answered(redis.hdel(recipientKeys(prefix, recipientId).waiting, end, holder));
    },
    async limit(recipientId, stored, { until, ...follow } = {}) {
      checkLimit(recipientId, stored, until, undefined);
      checkFollow(follow);
      const { done, now } = await set('limit', recipientId, until ?? '', policies.textOf(stored), '');
      if (!done) checkLimit(recipientId, stored, until, now);
      await moveAll(recipientId, follow);
    },
    unlimit: (recipientId, follow) => remove('unlimit', recipientId, follow),
    async block(recipientId, block, follow = {}) {
      checkBlock(recipientId, block, undefined);
      checkFollow(follow);
      const { done, now } = await set('block', recipientId, block.until, block.reason, MAX_BLOCK_MS);
      if (!done) checkBlock(recipientId, block, now);
      await moveAll(recipientId, follow);
    },
    unblock: (recipientId, follow) => remove('unblock', recipientId, follow),
    async quiet(recipientId, hours, follow = {}) {
      checkQuiet(recipientId, hours);
      checkFollow(follow);
      await set('quiet', recipientId, '', quietText(hours), '');
      await moveAll(recipientId, follow);
    },
    unquiet: (recipientId, follow) => remove('unquiet', recipientId, follow),
    async reset(recipientId, follow = {}) {
      checkRecipient(recipientId);
      checkFollow(follow);
      const keys = recipientKeys(prefix, recipientId);
      const sent = policies.categories.map(([category]) => categoryKeys(keys, category).sent);
      const wasSent = (await answered(redis.unlink(keys.sent, ...sent))) > 0;
      await moveAll(recipientId, follow);
      return wasSent;
    },
    async inspect(recipientId) {
      checkRecipient(recipientId);
      // One after the other: a slot that is free at the first answer is not ahead of the time of the second one.
      const next = await peek({ recipientId, id: randomUUID() });
      const state = await look(recipientId, policies);
      return inspectionOf(state, next, keepIds, idOf);
    },
  };
}

const RENEWING = { admit: 'renew', peek: 'peek-renew' } as const;

/** How many fields of the hash of waiting.lua one command reads. */
const FIELDS_A_STEP = 500;
/** How many reservations one script call moves. */
const MOVES_A_STEP = 500;
/** At most this many rounds look for reservations that were made meanwhile. */
const MOST_ROUNDS = 5;

/** From a field of waiting.lua: the id of a job that waits without a slot, or has ended. Empty for other fields. */
function unslottedIn(field: string, value = ''): string[] {
  const first = /^(?:end|part):(.+)@\d+$/s.exec(field)?.[1];
  if (first === undefined) return [];
  const { name = first } = JSON.parse(value) as { readonly name?: string };
  return [name];
}
