import type { Redis } from 'ioredis';
import type { Rivals } from '../install.ts';
import { createCase, type Case } from './case.ts';
import { flexibleSingleCase, flexibleUnionCase } from './flexible.ts';
import { createOurCases, TURNS, type OurCases } from './ours.ts';
import { rollingCase } from './rolling.ts';
import { upstashCase } from './upstash.ts';

interface RivalCases {
  readonly rolling: Case;
  readonly flexibleUnion: Case;
  readonly flexibleSingle: Case;
  readonly upstash: Case;
}

export interface Cases {
  readonly set: Case;
  readonly ours: OurCases;
  /** Left out where only a quick check is wanted. */
  readonly rivals?: RivalCases;
}

/** Every case, all over one connection. */
export function createCases(redis: Redis, rivals: Rivals | undefined): Cases {
  return {
    set: setCase(redis),
    ours: createOurCases(redis),
    ...(rivals && {
      rivals: {
        rolling: rollingCase(rivals, redis),
        flexibleUnion: flexibleUnionCase(rivals, redis),
        flexibleSingle: flexibleSingleCase(rivals, redis),
        upstash: upstashCase(rivals, redis),
      },
    }),
  };
}

export function allCases({ set, ours, rivals }: Cases): Case[] {
  return [set, ...Object.values({ ...ours }), ...Object.values({ ...rivals })];
}

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
