import { randomUUID } from 'node:crypto';
import type { OptionNames } from '../../domain/faults.ts';
import { type CategoryPolicy, type Policy, isUrgent, type Exemption } from '../../domain/limits.ts';
import { quietText, type QuietHours, type Window } from '../../domain/quiet-hours.ts';
import { createDeadline } from '../../redis/deadline.ts';
import {
  checkAsk,
  checkBlock,
  checkCategories,
  checkFollow,
  checkSlot,
  checkKeep,
  checkLimit,
  checkLimiterOptions,
  checkPrefix,
  checkQuiet,
  checkQuietHours,
  checkRecipient,
  MAX_BLOCK_MS,
} from '../checks.ts';
import { checkOnUnavailable, withFallback, type OnUnavailable } from '../fallback.ts';
import type {
  Admission,
  Ask,
  Ended,
  Follow,
  Held,
  Limiter,
  QuietView,
  WaitingAsk,
  WaitingLimiter,
} from '../limiter.ts';
import { withQuietMs, createQuietClock, quietView, type Quiet } from '../pace.ts';
import { createClock, type Clock } from './clock.ts';
import {
  categoryKeys,
  entryOf,
  memberOf,
  recipientKeys,
  type CategoryKeys,
  defineScripts,
  type LimiterRedis,
} from './keys.ts';
import { lookAt, toInspection, type LookedAt, misplaced, movedOf, reservedIn, toMoves, waitingIn } from './look.ts';
import { readAdmit, readInspect, readSettings, createScopes, toAdmission, toOptions } from './wire.ts';

/** The limits of a Redis limiter, its client, what it keeps, and what happens while Redis does not answer. */
export interface RedisLimiterOptions {
  /** A client that the caller opens and closes. It must not be a subscriber; auto-pipelining makes it slower. */
  readonly redis: LimiterRedis;
  /** The overall policy, for asks without a policy of their own. */
  readonly policy: Policy;
  /** Policies of categories, by their names; each holds in addition to the overall one. Default: none. */
  readonly categories?: Readonly<Record<string, CategoryPolicy>>;
  /** When nobody gets an alert, unless `quiet` stored other hours for a recipient. Default: no time is quiet. */
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
  /** Asks that must wait or are refused count as sent slots too, so a caller that asks too often is kept waiting. Default: false. */
  readonly countBlocked?: boolean;
  /** Stores the ids of sent slots, so that `inspect` shows them; takes about twice the memory. Default: false. */
  readonly keepIds?: boolean;
  /** What happens while Redis does not answer. Default: `closed`. */
  readonly onUnavailable?: OnUnavailable;
  /** Called with true when answers begin to come from the fallback, and with false when they no longer do. */
  readonly onOutage?: ((isAway: boolean) => void) | undefined;
  /** Epoch milliseconds in place of Redis's clock, for tests. Default: Redis's clock. */
  readonly now?: () => number;
}

const OPTIONS: OptionNames<RedisLimiterOptions> = {
  ...{ redis: true, policy: true, categories: true, quietHours: true, prefix: true, timeoutMs: true, keepMs: true },
  ...{ countBlocked: true, keepIds: true, onUnavailable: true, onOutage: true, now: true },
};

/**
 * The limiter that all workers share. {@link Limiter} has its promise, docs/limiter.md and admit.lua its algorithm. Throws
 * InputError if an option is not usable.
 */
export function createRedisLimiter(options: RedisLimiterOptions): Limiter {
  checkLimiterOptions(options, OPTIONS);
  const { onUnavailable = 'closed', ...own } = options;
  checkOnUnavailable(onUnavailable);
  return withFallback(createWaitingLimiter(own) as Limiter, { ...own, onUnavailable }); // without a canceller and a join nothing is `ended`
}

export interface WaitingLimiterOptions extends Omit<RedisLimiterOptions, 'onUnavailable' | 'onOutage'> {
  /** That of other limiters on the same Redis. Default: one of its own. */
  readonly clock?: Clock;
}

/** The same limiter, for notifications that can be canceled and that wait together. */
export function createWaitingLimiter(options: WaitingLimiterOptions): WaitingLimiter {
  const { redis, policy, categories = {}, prefix = 'pushpacer', timeoutMs = 2_000, keepMs = 0, now } = options;
  const { countBlocked = false, keepIds = false } = options;
  checkPrefix(prefix);
  checkCategories(categories);
  checkKeep(keepMs);
  checkQuietHours(options.quietHours);
  const quietTerms = createQuietTerms(options.quietHours, categories);
  const scopes = createScopes({ policy, categories, keepMs });
  const scripts = defineScripts(redis, 1 + scopes.categories.length);
  const answered = createDeadline(timeoutMs);
  const { clock = createClock() } = options;
  const sentEntry = keepIds ? (entry: string) => entry : memberOf;

  async function ask(mode: 'admit' | 'peek', asked: WaitingAsk): Promise<Admission | Ended> {
    checkAsk(asked);
    const { recipientId, id, renew, everyRule } = asked;
    const category = scopes.categoryOf(asked);
    const keys = recipientKeys(prefix, recipientId);
    const how = renew === true ? RENEWING[mode] : asked.join?.kind === 'latest' ? 'latest' : mode;
    const policies = scopes.policiesOf(asked.policy, category);
    const entry = entryOf(id);
    const terms = quietTerms.of(recipientId, category, now?.() ?? Date.now());
    const bounds = withQuietOptions(toOptions(boundOf(asked, terms), countBlocked), asked, terms);
    const args = [entry, sentEntry(entry), how, now?.() ?? '', bounds, policies.text];
    if (everyRule === true) args.push(1);
    if (terms.args.length > 0) args.push(...(everyRule === true ? [] : ['']), ...terms.args);
    const askedAt = performance.now();
    const reply = await answered(
      category === undefined
        ? scripts.admit[0](keys.settings, keys.sent, keys.reserved, keys.waiting, ...args)
        : scripts.admit[1](
            ...[keys.settings, keys.sent, keys.reserved, ...inOrder(categoryKeys(keys, category)), keys.waiting],
            ...args,
          ),
    );
    if (quietTerms.learns(recipientId, reply)) return ask(mode, asked);
    const answer = readAdmit(reply, policies);
    clock.observe(askedAt, performance.now(), answer.now);
    return withQuietMs(toAdmission(answer, asked, category, clock, terms.windows), terms.windows, answer.now);
  }

  /** Does not look at what ended. */
  function peek(asked: Ask): Promise<Admission> {
    return ask('peek', asked) as Promise<Admission>;
  }

  /** The keys of the sent slots in every scope of this ask. */
  function sentSets(slot: Held): [string, ...string[]] {
    const category = scopes.categoryOf(slot);
    const keys = recipientKeys(prefix, slot.recipientId);
    return category === undefined ? [keys.sent] : [keys.sent, categoryKeys(keys, category).sent];
  }

  /** The keys of the reserved and held-back slots in every scope of this ask. */
  function waitingSets(slot: Held): [string, ...string[]] {
    const category = scopes.categoryOf(slot);
    const keys = recipientKeys(prefix, slot.recipientId);
    if (category === undefined) return [keys.reserved];
    const ofCategory = categoryKeys(keys, category);
    return [keys.reserved, ofCategory.reserved, ofCategory.heldBack];
  }

  async function release(sets: readonly [string, ...string[]], entry: string): Promise<boolean> {
    const script = scripts.release[sets.length - 1] ?? scripts.release[0];
    return Number(await answered(script(...sets, entry))) === 1;
  }

  /** The settings, and all sets of the overall scope and of every category. */
  function allKeys(recipientId: string): string[] {
    const keys = recipientKeys(prefix, recipientId);
    const ofCategories = scopes.categories.flatMap(([category]) => inOrder(categoryKeys(keys, category)));
    return [keys.settings, keys.sent, keys.reserved, ...ofCategories];
  }

  function look(recipientId: string): Promise<LookedAt> {
    const keys = allKeys(recipientId);
    return lookAt(1 + scopes.categories.length, async (leaveOut, most) => {
      const args = [now?.() ?? '', scopes.allPolicies, leaveOut, most];
      return readInspect(await answered(scripts.inspect(...keys, ...args)));
    });
  }

  async function set(what: string, recipientId: string, until: number | '', value: string, mostMs: number | '') {
    const { settings } = recipientKeys(prefix, recipientId);
    return readSettings(await answered(scripts.settings(settings, what, now?.() ?? '', until, value, mostMs)));
  }

  /** Repeats while new reservations appear: those that asked meanwhile were placed behind the old slots, so too late. */
  async function moveAll(recipientId: string, { onMoved, leadMs = 0 }: Follow): Promise<void> {
    const keys = allKeys(recipientId);
    const seen = new Set<string>();
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const looked = await look(recipientId);
      const waiting = waitingIn(looked, scopes);
      if (waiting.every(({ entry }) => seen.has(entry))) return;
      for (const { entry } of waiting) seen.add(entry);
      const quiet = quietTerms.windowsOf(looked.quiet, looked.now);
      const places = misplaced(waiting, looked, scopes, { leadMs, quiet });
      for (let from = 0; from < places.length; from += MOVES_A_STEP) {
        const step = places.slice(from, from + MOVES_A_STEP);
        const done = new Set((await answered(scripts.move(...keys, toMoves(step, scopes)))).map(Number));
        const moved = movedOf(step.filter((_, index) => done.has(index + 1)));
        if (moved.length > 0) await onMoved?.(moved);
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
    moveUp: moveAll,
    async refund(slot) {
      checkSlot(slot);
      return release(sentSets(slot), sentEntry(entryOf(slot.id)));
    },
    async cancel(slot) {
      checkSlot(slot);
      return release(waitingSets(slot), entryOf(slot.id));
    },
    async limit(recipientId, stored, { until, ...follow } = {}) {
      checkLimit(recipientId, stored, until, undefined);
      checkFollow(follow);
      const { done, now: heard } = await set('limit', recipientId, until ?? '', scopes.textOf(stored), '');
      if (!done) checkLimit(recipientId, stored, until, heard);
      await moveAll(recipientId, follow);
    },
    unlimit: (recipientId, follow) => remove('unlimit', recipientId, follow),
    async block(recipientId, block, follow = {}) {
      checkBlock(recipientId, block, undefined);
      checkFollow(follow);
      const { done, now: heard } = await set('block', recipientId, block.until, block.reason, MAX_BLOCK_MS);
      if (!done) checkBlock(recipientId, block, heard);
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
      const sent = scopes.categories.map(([category]) => categoryKeys(keys, category).sent);
      const wasSent = (await answered(redis.unlink(keys.sent, ...sent))) > 0;
      await moveAll(recipientId, follow);
      return wasSent;
    },
    async inspect(recipientId) {
      checkRecipient(recipientId);
      const [looked, next] = await Promise.all([look(recipientId), peek({ recipientId, id: randomUUID() })]);
      const { quiet, now: at } = looked;
      const reserved = reservedIn(looked, scopes, quietTerms.windowsOf(quiet, at));
      return { ...toInspection(looked, next, reserved, { policy, keepIds }), ...quietTerms.viewOf(quiet, at) };
    },
  };
}

const RENEWING = { admit: 'renew', peek: 'peek-renew' } as const;

/** How many reservations one script call moves. */
const MOVES_A_STEP = 500;
/** How often reservations that came meanwhile are looked for, at most. */
const MOST_ROUNDS = 5;

function inOrder({ sent, reserved, heldBack }: CategoryKeys): [string, string, string] {
  return [sent, reserved, heldBack];
}

/** What an ask sends to admit.lua about quiet hours, and about limits that are skipped. */
interface Terms {
  /** ARGV[8] to ARGV[10]; empty for an ask without any of them. */
  readonly args: readonly string[];
  /** The quiet times that hold for this ask. */
  readonly windows: readonly Window[];
}

/** The quiet hours of this limiter, and those of recipients that answers of admit.lua contained. */
interface QuietTerms {
  of(recipientId: string, category: string | undefined, now: number): Terms;
  /** Reads an answer of admit.lua. True if it contains other quiet hours than were known: ask again. */
  learns(recipientId: string, reply: unknown): boolean;
  /** The quiet times under the quiet hours that are stored for a recipient, or under those of this limiter. */
  windowsOf(stored: string | undefined, now: number): readonly Window[];
  /** The same for `inspect`. */
  viewOf(stored: string | undefined, now: number): { readonly quiet?: QuietView };
}

/** The most recipients with quiet hours of their own that are remembered; those that are forgotten cost one ask more. */
const MOST_RECIPIENTS = 10_000;
const NONE: Terms = { args: [], windows: [] };

function createQuietTerms(
  quietHours: QuietHours | undefined,
  categories: Readonly<Record<string, CategoryPolicy>>,
): QuietTerms {
  const clock = createQuietClock();
  const stored = new Map<string, string>();
  const skipped = new Map<string, readonly Exemption[]>(
    Object.entries(categories).flatMap(([name, { exempt }]) => (exempt === undefined ? [] : [[name, exempt]])),
  );

  function quietOf(text: string | undefined, now: number): Quiet | undefined {
    if (text !== undefined) return clock.ofText(text, now);
    return quietHours && clock.of(quietHours, now);
  }

  return {
    of(recipientId, category, now) {
      const own = stored.get(recipientId);
      const exempt = category === undefined ? undefined : skipped.get(category);
      if (own === undefined && quietHours === undefined && exempt === undefined) return NONE;
      const limits = exempt !== undefined && isUrgent({ exempt }) ? exempt.join(' ') : '';
      if (exempt?.includes('quietHours') === true) return { args: ['-', '', limits], windows: [] };
      const { text = '', windows = [] } = quietOf(own, now) ?? {};
      return { args: [text, own ?? '', limits], windows };
    },
    learns(recipientId, reply) {
      if (!Array.isArray(reply) || reply[0] !== 'quiet') return false;
      const text = String(reply[1]);
      stored.delete(recipientId);
      if (text !== '') stored.set(recipientId, text);
      const [oldest] = stored.keys();
      if (stored.size > MOST_RECIPIENTS && oldest !== undefined) stored.delete(oldest);
      return true;
    },
    windowsOf: (text, now) => quietOf(text, now)?.windows ?? [],
    viewOf(text, now) {
      const hours = text === undefined ? quietHours : (JSON.parse(text) as QuietHours);
      return hours === undefined
        ? {}
        : { quiet: quietView(hours, text !== undefined, quietOf(text, now)?.windows ?? [], now) };
    },
  };
}

/** The ask with bounds that hold without quiet times: then all of a wait counts. */
function boundOf(asked: Ask, { windows }: Terms): Ask {
  const { maxWaitMs = Infinity, expiresInMs } = asked;
  if (expiresInMs === undefined || windows.length > 0) return asked;
  return { ...asked, maxWaitMs: Math.min(maxWaitMs, expiresInMs) };
}

/** ARGV[5] of admit.lua, with the bounds that only matter if there are quiet times. */
function withQuietOptions(text: string, { maxQuietMs, expiresInMs }: Ask, { windows }: Terms): string {
  if (windows.length === 0 || (maxQuietMs === undefined && expiresInMs === undefined)) return text;
  return JSON.stringify({
    ...(text !== '' && (JSON.parse(text) as object)),
    ...bound('maxQuiet', maxQuietMs),
    ...bound('expiresIn', expiresInMs),
  });
}

function bound(name: string, ms = Infinity): object {
  return ms === Infinity ? {} : { [name]: Math.max(0, Math.floor(ms)) };
}
