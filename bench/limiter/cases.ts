import type { Redis } from 'ioredis';
import type { Policy } from '../../src/domain/limits.ts';
import { createRedisLimiter, type RedisLimiterOptions } from '../../src/limiter/redis/redis-limiter.ts';
import { onClock } from '../../test/support/redis-clock.ts';
import { createFlexible, createRolling, createUpstash, type FlexibleOptions, type Rivals } from '../rivals.ts';

/** One thing to measure: asks of one kind, to one limiter. */
export interface Case {
  readonly name: string;
  /** The commands that its client sends, as `INFO commandstats` names them; theirs include what they run inside. */
  readonly commands: readonly string[];
  /** Prepares `asks` asks, untimed, with new recipients. */
  prepare(asks: number): Promise<void>;
  /** The next ask. Rejects if the answer is not the one that the case measures. */
  ask(): Promise<void>;
}

export type Cases = ReturnType<typeof createCases>;

/** Every case, all over one connection; those of the rivals are left out where only a quick check is wanted. */
export function createCases(redis: Redis, rivals: Rivals | undefined) {
  return {
    set: setCase(redis),
    ours: createOurCases(redis),
    ...(rivals && { rivals: createRivalCases(redis, rivals) }),
  };
}

export function allCases({ set, ours, rivals }: Cases): Case[] {
  return [set, ...Object.values(ours), ...Object.values({ ...rivals })];
}

/** How many asks are on their way at once, over one connection. */
export const IN_FLIGHT = 128;

/** Calls `ask` with 0 to `count` - 1, in this order, with IN_FLIGHT of them unanswered at any time. */
export async function pump(count: number, ask: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      await ask(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(IN_FLIGHT, count) }, lane));
}

/** The asks of one recipient: `before` asks that are not measured, then `measured` ones. */
interface Script {
  readonly name: string;
  readonly commands: readonly string[];
  readonly before: number;
  readonly measured: number;
  /** The recipient's ask number `step`, from 0; rejects where the answer is not the expected one. */
  readonly ask: (recipientId: string, step: number) => Promise<void>;
}

/** More than the asks in flight, so that a recipient's asks arrive one after the other, some milliseconds apart. */
const LEAST_RECIPIENTS = 256;
let recipients = 0;

/** A name that no other ask of this process has used; all are of the same length. */
export function newRecipient(): string {
  recipients += 1;
  return `teacher-${String(recipients).padStart(7, '0')}`;
}

/** Turns a recipient's script into asks that go round all recipients, step by step. */
export function createCase({ name, commands, before, measured, ask }: Script): Case {
  let ids: string[] = [];
  let cursor = 0;
  const askFor = (index: number): Promise<void> => {
    const recipientId = ids[index % ids.length] as string;
    return ask(recipientId, Math.floor(index / ids.length));
  };
  return {
    name,
    commands,
    async prepare(asks) {
      const count = Math.max(LEAST_RECIPIENTS, Math.ceil(asks / measured));
      ids = Array.from({ length: count }, newRecipient);
      cursor = before * count;
      await pump(cursor, askFor);
    },
    ask() {
      const index = cursor;
      cursor += 1;
      return askFor(index);
    },
  };
}

/** Throws if a case measured another answer than it says. */
export function expectAnswer(name: string, expected: string, found: string): void {
  if (found !== expected) throw new Error(`${name}: expected each ask to be ${expected}, found one ${found}`);
}

/** Ten a minute: the first is sent beforehand, the other nine are measured, so that a recipient has 5 slots on average. */
const TURNS = { before: 1, measured: 9 };

/** The least that a trip to Redis with a write costs: nothing is limited. */
function setCase(redis: Redis): Case {
  return createCase({
    name: 'plain SET',
    commands: ['set'],
    ...TURNS,
    async ask(recipientId, step) {
      await redis.set(recipientId, step);
    },
  });
}

const TEN_A_MINUTE = { max: 10, perMs: 60_000 };
const HUNDRED_AN_HOUR = { max: 100, perMs: 3_600_000 };
const ONE_RULE: Policy = { rules: [TEN_A_MINUTE], minGapMs: 0 };
/** The gap is shorter than the time between two asks of a recipient, so each of them is admitted. */
const TWO_RULES: Policy = { rules: [TEN_A_MINUTE], minGapMs: 1 };
const TWO_WINDOWS: Policy = { rules: [TEN_A_MINUTE, HUNDRED_AN_HOUR], minGapMs: 0 };
/** Limits as in real use: all asks but the first must wait. */
export const PACED: Policy = { rules: [TEN_A_MINUTE], minGapMs: 2_000 };

function createOurCases(redis: Redis) {
  return {
    first: admitting(redis, 'first ask', { policy: TWO_RULES }, { before: 0, measured: 1 }),
    admitted: admitting(redis, 'admitted, one rule', { policy: ONE_RULE }),
    twoRules: admitting(redis, 'admitted, two rules (10/1m and a gap)', { policy: TWO_RULES }),
    twoWindows: admitting(redis, 'admitted, two rules (10/1m and 100/1h)', { policy: TWO_WINDOWS }),
    twoScopes: admitting(redis, 'admitted, two scopes of two rules', {
      policy: TWO_RULES,
      categories: { messages: TWO_RULES },
    }),
    blocked: blocked(redis),
    returning: returning(redis),
  };
}

function admitting(redis: Redis, what: string, options: Omit<RedisLimiterOptions, 'redis'>, turns = TURNS): Case {
  const limiter = createRedisLimiter({ redis, ...options });
  const category = options.categories === undefined ? {} : { category: 'messages' };
  const name = `pushpacer, ${what}`;
  return createCase({
    name,
    commands: ['evalsha'],
    ...turns,
    async ask(recipientId, step) {
      const { kind } = await limiter.admit({ recipientId, id: idOf(recipientId, step), ...category });
      expectAnswer(name, 'admitted', kind);
    },
  });
}

/** Newcomers that must wait: each is given a slot, behind those that wait already. */
function blocked(redis: Redis): Case {
  const limiter = createRedisLimiter({ redis, policy: PACED });
  const name = 'pushpacer, blocked, and a slot reserved';
  return createCase({
    name,
    commands: ['evalsha'],
    ...TURNS,
    async ask(recipientId, step) {
      const { kind } = await limiter.admit({ recipientId, id: idOf(recipientId, step) });
      expectAnswer(name, step === 0 ? 'admitted' : 'reserved', kind);
    },
  });
}

/** Those that were blocked come back at their slots, on a clock that is set to them, and are admitted. */
function returning(redis: Redis): Case {
  const name = 'pushpacer, returning at its slot';
  const jobs = TURNS.measured + 1;
  /** By recipient the instant at which all its jobs ask first, and by job its slot. */
  const instants = new Map<string, number>();
  let clockMs = 0;
  const limiter = createRedisLimiter({ redis: onClock(redis, () => clockMs), policy: PACED });
  return createCase({
    name,
    commands: ['evalsha'],
    before: jobs,
    measured: TURNS.measured,
    async ask(recipientId, step) {
      const isReturning = step >= jobs;
      const id = idOf(recipientId, isReturning ? step - jobs + 1 : step);
      if (step === 0) instants.set(recipientId, Date.now());
      clockMs = instants.get(isReturning ? id : recipientId) ?? NaN;
      const answer = await limiter.admit({ recipientId, id });
      if (answer.kind === 'reserved') instants.set(id, answer.at);
      else instants.delete(id);
      expectAnswer(name, step === 0 || isReturning ? 'admitted' : 'reserved', answer.kind);
    },
  });
}

function idOf(recipientId: string, step: number): string {
  return `msg-${recipientId}-${step}`;
}

const POINTS_A_MINUTE: FlexibleOptions = { points: 10, duration: 60, keyPrefix: 'minute' };
const POINTS_AN_HOUR: FlexibleOptions = { points: 100, duration: 3_600, keyPrefix: 'hour' };

function createRivalCases(redis: Redis, rivals: Rivals) {
  // One of its limiters has both a rule and a gap, so it compares with pushpacer's two rules.
  const rolling = createRolling(rivals, redis, { interval: 60_000, maxInInterval: 10, minDifference: 1 });
  const upstash = createUpstash(rivals, redis, 10, '60 s');
  const admittedIf = (isAdmitted: boolean): string => (isAdmitted ? 'admitted' : 'blocked');
  const consuming = (...rules: readonly FlexibleOptions[]) => {
    const limiter = createFlexible(rivals, redis, ...rules);
    return (recipientId: string): Promise<string> =>
      limiter.consume(recipientId).then(
        () => 'admitted',
        (refusal: unknown) => (refusal instanceof Error ? refusal.message : 'refused'),
      );
  };
  return {
    rolling: rivalCase('rolling-rate-limiter, rule and least difference', ['multi', 'exec'], async (recipientId) =>
      admittedIf(!(await rolling.limitWithInfo(recipientId)).blocked),
    ),
    flexibleUnion: rivalCase(
      'rate-limiter-flexible, union of two rules (fixed windows)',
      ['evalsha'],
      consuming(POINTS_A_MINUTE, POINTS_AN_HOUR),
    ),
    flexibleSingle: rivalCase(
      'rate-limiter-flexible, one rule (fixed window)',
      ['evalsha'],
      consuming(POINTS_A_MINUTE),
    ),
    upstash: rivalCase('@upstash/ratelimit, one rule (two counters)', ['evalsha'], async (recipientId) =>
      admittedIf((await upstash.limit(recipientId)).success),
    ),
  };
}

/** Asks that are all admitted. */
function rivalCase(name: string, commands: readonly string[], ask: (recipientId: string) => Promise<string>): Case {
  return createCase({
    name,
    commands,
    ...TURNS,
    ask: async (recipientId) => {
      expectAnswer(name, 'admitted', await ask(recipientId));
    },
  });
}
