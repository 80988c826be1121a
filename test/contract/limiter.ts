import { describe } from 'vitest';
import { answersContract, causesContract } from './answers.ts';
import { blocksContract } from './blocks.ts';
import { checksContract } from './checks.ts';
import { countBlockedContract } from './count-blocked.ts';
import { heldBackContract } from './held-back.ts';
import { inspectContract, oversightContract } from './operator.ts';
import { placesContract } from './places.ts';
import { policiesContract, scopesContract } from './policies.ts';
import { quietContract } from './quiet.ts';
import { slotsContract, undoingContract } from './slots.ts';
import { storedPoliciesContract } from './stored-policies.ts';
import type { LimiterFactory } from './trial.ts';
import { urgentContract } from './urgent.ts';

/** What every limiter keeps: the promise of docs/limiter.md. */
export function limiterContract(name: string, create: LimiterFactory): void {
  describe(`${name}: the promise of a limiter`, () => {
    slotsContract(create);
    placesContract(create);
    undoingContract(create);
    answersContract(create);
    causesContract(create);
    policiesContract(create);
    scopesContract(create);
    heldBackContract(create);
    storedPoliciesContract(create);
    blocksContract(create);
    oversightContract(create);
    quietContract(create);
    urgentContract(create);
    countBlockedContract(create);
    inspectContract(create);
    checksContract(create);
  });
}
