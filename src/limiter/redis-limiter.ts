import { randomUUID } from 'node:crypto';
import type { Policy } from '../domain/limits.ts';
import { checkAsk } from './ask.ts';
import {
  checkBlock,
  checkCategories,
  checkHeld,
  checkKeep,
  checkLimit,
  checkRecipient,
  MAX_BLOCK_MS,
} from './checks.ts';
import { createClock } from './redis/clock.ts';
import { createDeadline } from './errors.ts';
import { categoryKeys, entryOf, memberOf, recipientKeys, type ScopeKeys } from './redis/keys.ts';
import type { Admission, Ask, Held, Limiter } from './limiter.ts';
import { withFallback, type OnUnavailable } from './fallback.ts';
import { toInspection } from './redis/inspect-reply.ts';
import { createScopes } from './redis/scopes.ts';
import { defineScripts, type LimiterRedis } from './redis/scripts.ts';
import { nowOf, numeric, toAdmission, toOptions } from './redis/wire.ts';

export interface RedisLimiterOptions {
  /** A client that the caller opens and closes. It must not be a subscriber; auto-pipelining makes it slower. */
  readonly redis: LimiterRedis;
  /** What holds overall for an ask that brings no policy of its own. */
  readonly policy: Policy;
  /** What holds beside it for the asks of a category. */
  readonly categories?: Readonly<Record<string, Policy>>;
  /** The first part of every key; braces are left out. */
  readonly prefix?: string;
  /** How long an answer may take before LimiterUnavailableError. */
  readonly timeoutMs?: number;
  /**
   * What was sent is remembered for the longest window of `policy` and of the ask's own. Where asks of one recipient
   * bring different policies, give the longest of all their windows.
   */
  readonly keepMs?: number;
  /** Asks that have to wait, or are refused, count as slots too: whoever keeps asking is kept waiting. */
  readonly countBlocked?: boolean;
  /** Keeps the ids of what was sent, so that `inspect` tells them; about twice the memory. */
  readonly keepIds?: boolean;
  /** What happens while Redis does not answer (fallback.ts); `closed` where it is left out. */
  readonly onUnavailable?: OnUnavailable;
  /** Told when answers begin to come from elsewhere (true), and when they no longer do (false). */
  readonly onOutage?: ((isAway: boolean) => void) | undefined;
  /** Epoch milliseconds in place of Redis's clock, for tests. */
  readonly now?: () => number;
}

/** The limiter that all workers share. The promise is in limiter.ts, the algorithm in admit.lua and docs/limiter.md. */
export function createRedisLimiter(options: RedisLimiterOptions): Limiter {
  const { onUnavailable = 'closed', ...own } = options;
  return withFallback(createStrictLimiter(own), { ...own, onUnavailable });
}

function createStrictLimiter(options: RedisLimiterOptions): Limiter {
  const { redis, policy, categories = {}, prefix = 'pushpacer', timeoutMs = 2_000, keepMs = 0, now } = options;
  const { countBlocked = false, keepIds = false } = options;
  checkCategories(categories);
  checkKeep(keepMs);
  const scopes = createScopes({ policy, categories, keepMs });
  const scripts = defineScripts(redis, 1 + scopes.categories.length);
  const answered = createDeadline(timeoutMs);
  const clock = createClock();
  const sentEntry = keepIds ? (entry: string) => entry : memberOf;

  async function ask(mode: 'admit' | 'peek', asked: Ask): Promise<Admission> {
    checkAsk(asked);
    const { recipientId, id, renew } = asked;
    const category = scopes.categoryOf(asked);
    const keys = recipientKeys(prefix, recipientId);
    const how = renew === true ? RENEWING[mode] : mode;
    const policies = scopes.policiesOf(asked.policy, category);
    const entry = entryOf(id);
    const args = [entry, sentEntry(entry), how, now?.() ?? '', toOptions(asked, countBlocked), policies.text];
    const askedAt = performance.now();
    const answer = await answered(
      category === undefined
        ? scripts.admit[0](keys.settings, keys.sent, keys.reserved, ...args)
        : scripts.admit[1](keys.settings, keys.sent, keys.reserved, ...inOrder(categoryKeys(keys, category)), ...args),
    );
    const reply = numeric(answer);
    clock.observe(askedAt, performance.now(), nowOf(reply));
    return toAdmission(reply, policies, category, clock);
  }

  /** The sets of one kind in every scope of what is held. */
  function setsOf(kind: keyof ScopeKeys, held: Held): string[] {
    const category = scopes.categoryOf(held);
    const keys = recipientKeys(prefix, held.recipientId);
    return category === undefined ? [keys[kind]] : [keys[kind], categoryKeys(keys, category)[kind]];
  }

  async function release(kind: keyof ScopeKeys, held: Held): Promise<boolean> {
    checkHeld(held);
    const sets = setsOf(kind, held);
    const entry = kind === 'sent' ? sentEntry(entryOf(held.id)) : entryOf(held.id);
    return Number(await answered(scripts.release[sets.length === 1 ? 0 : 1](...sets, entry))) === 1;
  }

  /** Settings and the sets of every scope there is. */
  function allKeys(recipientId: string): string[] {
    const keys = recipientKeys(prefix, recipientId);
    const ofCategories = scopes.categories.flatMap((category) => inOrder(categoryKeys(keys, category)));
    return [keys.settings, ...inOrder(keys), ...ofCategories];
  }

  async function set(what: string, recipientId: string, until: number | '', value: string, mostMs: number | '') {
    const args = [what, now?.() ?? '', scopes.allPolicies, until, value, mostMs];
    const [done, heard] = await answered(scripts.settings(...allKeys(recipientId), ...args));
    return { done: Number(done) === 1, heard: Number(heard) };
  }

  return {
    admit: (asked) => ask('admit', asked),
    peek: (asked) => ask('peek', asked),
    refund: (held) => release('sent', held),
    cancel: (held) => release('reserved', held),
    async postpone(held, at) {
      checkHeld(held, at);
      const sets = setsOf('sent', held);
      const args = [sentEntry(entryOf(held.id)), Math.round(at), now?.() ?? ''];
      return Number(await answered(scripts.postpone[sets.length === 1 ? 0 : 1](...sets, ...args))) === 1;
    },
    async limit(recipientId, stored, { until } = {}) {
      checkLimit(recipientId, stored, until, undefined);
      const { done, heard } = await set('limit', recipientId, until ?? '', scopes.textOf(stored), '');
      if (!done) checkLimit(recipientId, stored, until, heard);
    },
    async unlimit(recipientId) {
      checkRecipient(recipientId);
      return (await set('unlimit', recipientId, '', '', '')).done;
    },
    async block(recipientId, block) {
      checkBlock(recipientId, block, undefined);
      const { done, heard } = await set('block', recipientId, block.until, block.reason, MAX_BLOCK_MS);
      if (!done) checkBlock(recipientId, block, heard);
    },
    async unblock(recipientId) {
      checkRecipient(recipientId);
      return (await set('unblock', recipientId, '', '', '')).done;
    },
    async reset(recipientId) {
      checkRecipient(recipientId);
      return (await answered(redis.unlink(...allKeys(recipientId).slice(1)))) > 0;
    },
    async inspect(recipientId) {
      checkRecipient(recipientId);
      const [reply, next] = await Promise.all([
        answered(scripts.inspect(...allKeys(recipientId), now?.() ?? '', scopes.allPolicies)),
        ask('peek', { recipientId, id: randomUUID() }),
      ]);
      return toInspection(reply, next, { policy, keepIds });
    },
  };
}

const RENEWING = { admit: 'renew', peek: 'peek-renew' } as const;

function inOrder({ sent, reserved }: ScopeKeys): [string, string] {
  return [sent, reserved];
}
