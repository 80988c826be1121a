import type { Redis } from 'ioredis';
import type { Policy } from '../../src/domain/limits.ts';
import { createRedisLimiter, type RedisLimiterOptions } from '../../src/limiter/redis/redis-limiter.ts';
import { createCase, expectAnswer, type Case } from './case.ts';

const TEN_A_MINUTE = { max: 10, perMs: 60_000 };
const HUNDRED_AN_HOUR = { max: 100, perMs: 3_600_000 };
/** Ten a minute: the first is sent beforehand, the other nine are measured, so that a recipient has 5 slots on average. */
export const TURNS = { before: 1, measured: 9 };
const SCRIPT = ['evalsha'];

const ONE_RULE: Policy = { rules: [TEN_A_MINUTE], minGapMs: 0 };
/** The gap is shorter than the time between two asks of a recipient, so each of them is admitted. */
const TWO_RULES: Policy = { rules: [TEN_A_MINUTE], minGapMs: 1 };
const TWO_WINDOWS: Policy = { rules: [TEN_A_MINUTE, HUNDRED_AN_HOUR], minGapMs: 0 };
/** Limits as in real use: all asks but the first must wait. */
export const PACED: Policy = { rules: [TEN_A_MINUTE], minGapMs: 2_000 };

export interface OurCases {
  readonly first: Case;
  readonly admitted: Case;
  readonly blocked: Case;
  readonly returning: Case;
  readonly twoRules: Case;
  readonly twoWindows: Case;
  readonly twoScopes: Case;
}

export function createOurCases(redis: Redis): OurCases {
  return {
    first: createCase({
      ...admitting(redis, 'first ask', { policy: TWO_RULES }),
      before: 0,
      measured: 1,
    }),
    admitted: createCase(admitting(redis, 'admitted, one rule', { policy: ONE_RULE })),
    twoRules: createCase(admitting(redis, 'admitted, two rules (10/1m and a gap)', { policy: TWO_RULES })),
    twoWindows: createCase(admitting(redis, 'admitted, two rules (10/1m and 100/1h)', { policy: TWO_WINDOWS })),
    twoScopes: createCase(
      admitting(redis, 'admitted, two scopes of two rules', {
        policy: TWO_RULES,
        categories: { messages: TWO_RULES },
      }),
    ),
    blocked: blocked(redis),
    returning: returning(redis),
  };
}

function admitting(redis: Redis, what: string, options: Omit<RedisLimiterOptions, 'redis'>) {
  const limiter = createRedisLimiter({ redis, ...options });
  const category = options.categories === undefined ? {} : { category: 'messages' };
  const name = nameOf(what);
  return {
    name,
    commands: SCRIPT,
    ...TURNS,
    async ask(recipientId: string, step: number): Promise<void> {
      const { kind } = await limiter.admit({ recipientId, id: idOf(recipientId, step), ...category });
      expectAnswer(name, 'admitted', kind);
    },
  };
}

/** Newcomers that must wait: each is given a slot, behind those that wait already. */
function blocked(redis: Redis): Case {
  const limiter = createRedisLimiter({ redis, policy: PACED });
  const name = nameOf('blocked, and a slot reserved');
  return createCase({
    name,
    commands: SCRIPT,
    ...TURNS,
    async ask(recipientId, step) {
      const { kind } = await limiter.admit({ recipientId, id: idOf(recipientId, step) });
      expectAnswer(name, step === 0 ? 'admitted' : 'reserved', kind);
    },
  });
}

/** Those that were blocked come back at their slots, on a clock that is set to them, and are admitted. */
function returning(redis: Redis): Case {
  const name = nameOf('returning at its slot');
  const jobs = TURNS.measured + 1;
  const slots = new Map<string, number>();
  let clockMs = 0;
  const limiter = createRedisLimiter({ redis, policy: PACED, now: () => clockMs });
  return createCase({
    name,
    commands: SCRIPT,
    before: jobs,
    measured: TURNS.measured,
    async ask(recipientId, step) {
      const isReturning = step >= jobs;
      const id = idOf(recipientId, isReturning ? step - jobs + 1 : step);
      clockMs = isReturning ? (slots.get(id) ?? NaN) : startOf(slots, recipientId);
      const answer = await limiter.admit({ recipientId, id });
      if (answer.kind === 'reserved') slots.set(id, answer.at);
      else slots.delete(id);
      expectAnswer(name, step === 0 || isReturning ? 'admitted' : 'reserved', answer.kind);
    },
  });
}

/** The instant of a recipient's first ask: all its jobs ask at the same instant. */
function startOf(slots: Map<string, number>, recipientId: string): number {
  const start = slots.get(recipientId) ?? Date.now();
  slots.set(recipientId, start);
  return start;
}

function nameOf(what: string): string {
  return `pushpacer, ${what}`;
}

function idOf(recipientId: string, step: number): string {
  return `msg-${recipientId}-${step}`;
}
