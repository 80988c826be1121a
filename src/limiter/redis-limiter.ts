import { readFileSync } from 'node:fs';
import type { Policy } from '../domain/limits.ts';
import { checkAsk } from './ask.ts';
import { createClock, type Clock } from './clock.ts';
import { answerWithin } from './errors.ts';
import { memberOf, recipientKeys, type RecipientKeys } from './keys.ts';
import type { Admission, Ask, Limiter } from './limiter.ts';
import { paceOf, type Pace } from './pace.ts';

/** What the limiter needs of ioredis: both `Redis` and `Cluster` have it. */
export interface LimiterRedis {
  defineCommand(name: string, definition: { lua: string; numberOfKeys: number }): void;
  unlink(...keys: string[]): Promise<number>;
}

export interface RedisLimiterOptions {
  /** A client that the caller opens and closes. It must not be a subscriber; auto-pipelining makes it slower. */
  readonly redis: LimiterRedis;
  /** What holds for an ask that brings no policy of its own. */
  readonly policy: Policy;
  /** The first part of every key; braces are left out. */
  readonly prefix?: string;
  /** How long an answer may take before LimiterUnavailableError. */
  readonly timeoutMs?: number;
  /**
   * What was sent is remembered for the longest window of `policy` and of the ask's own. Where asks of one recipient
   * bring different policies, give the longest of all their windows.
   */
  readonly keepMs?: number;
  /** Epoch milliseconds in place of Redis's clock, for tests. */
  readonly now?: () => number;
}

type Kind = Admission['kind'];
/** Kind, slot, Redis's now, the scope and the limit that decide (from 1; 0 for none), 1 where it is repeated. */
type AdmitReply = [kind: Kind, at: number, now: number, scope: number, limit: number, repeated: 0 | 1];

/** The commands that `defineCommand` puts on the client. */
interface Scripts {
  pushpacerAdmit(sentKey: string, reservedKey: string, ...args: (string | number)[]): Promise<AdmitReply>;
  pushpacerRelease(key: string, id: string): Promise<0 | 1>;
  pushpacerPostpone(sentKey: string, id: string, at: number, now: number | ''): Promise<0 | 1>;
}

/** The limiter that all workers share. The promise is in limiter.ts, the algorithm in admit.lua and docs/limiter.md. */
export function createRedisLimiter(options: RedisLimiterOptions): Limiter {
  const { redis, policy: ownPolicy, prefix = 'pushpacer', timeoutMs = 2_000, keepMs = 0, now } = options;
  const ownKeepMs = Math.max(keepMs, paceOf(ownPolicy).longestMs);
  const scripts = defineScripts(redis);
  const clock = createClock();

  async function ask(mode: 'admit' | 'peek', asked: Ask): Promise<Admission> {
    checkAsk(asked);
    const pace = paceOf(asked.policy ?? ownPolicy);
    const { sent, reserved } = keysOf(asked.recipientId);
    const args = askArgs(mode, asked, now?.());
    const askedAt = performance.now();
    const call = scripts.pushpacerAdmit(sent, reserved, ...args, ...scopeArgs(pace, ownKeepMs));
    const reply = await answerWithin(call, timeoutMs);
    clock.observe(askedAt, performance.now(), reply[2]);
    return toAdmission(reply, pace, clock);
  }

  async function release(key: string, id: string): Promise<boolean> {
    return (await answerWithin(scripts.pushpacerRelease(key, memberOf(id)), timeoutMs)) === 1;
  }

  function keysOf(recipientId: string): RecipientKeys {
    return recipientKeys(prefix, recipientId);
  }

  return {
    admit: (asked) => ask('admit', asked),
    peek: (asked) => ask('peek', asked),
    refund: (recipientId, id) => release(keysOf(recipientId).sent, id),
    async postpone(recipientId, id, at) {
      const { sent } = keysOf(recipientId);
      const call = scripts.pushpacerPostpone(sent, memberOf(id), Math.round(at), now?.() ?? '');
      return (await answerWithin(call, timeoutMs)) === 1;
    },
    cancel: (recipientId, id) => release(keysOf(recipientId).reserved, id),
    async reset(recipientId) {
      const { sent, reserved } = keysOf(recipientId);
      return (await answerWithin(redis.unlink(sent, reserved), timeoutMs)) > 0;
    },
  };
}

function defineScripts(redis: LimiterRedis): Scripts {
  redis.defineCommand('pushpacerAdmit', { lua: readScript('admit.lua'), numberOfKeys: 2 });
  redis.defineCommand('pushpacerRelease', { lua: readScript('release.lua'), numberOfKeys: 1 });
  redis.defineCommand('pushpacerPostpone', { lua: readScript('postpone.lua'), numberOfKeys: 1 });
  return redis as unknown as Scripts;
}

function readScript(file: string): string {
  return readFileSync(new URL(file, import.meta.url), 'utf8');
}

/** ARGV[1] to ARGV[5] of admit.lua. */
function askArgs(mode: string, { id, maxWaitMs, renew }: Ask, now: number | undefined): (string | number)[] {
  const bound = maxWaitMs === undefined || maxWaitMs === Infinity ? '' : Math.floor(maxWaitMs);
  return [memberOf(id), mode, bound, renew === true ? 1 : 0, now ?? ''];
}

/** What follows them for each scope. */
function scopeArgs({ limits, holdMs, longestMs }: Pace, keepMs: number): number[] {
  const pairs = limits.flatMap(({ max, perMs }) => [max, perMs]);
  return [Math.max(keepMs, longestMs), holdMs, limits.length, ...pairs];
}

function toAdmission(reply: AdmitReply, { limits }: Pace, clock: Clock): Admission {
  const [kind, at, now, , limit, repeated] = reply;
  const rule = limits[limit - 1]?.name ?? 'none';
  switch (kind) {
    case 'admitted':
      return { kind, at, sendAt: clock.toLocal(at), repeated: repeated === 1, rule };
    case 'reserved':
      return { kind, at, waitMs: at - now, rule };
    case 'refused':
      return { kind, waitMs: at - now, rule };
  }
}
