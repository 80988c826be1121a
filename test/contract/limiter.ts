import { describe } from 'vitest';
import { answersContract, causesContract } from './answers.ts';
import { blocksContract, inspectContract, oversightContract } from './operator.ts';
import { checksContract } from './checks.ts';
import { countBlockedContract, policiesContract, storedPoliciesContract } from './policies.ts';
import { heldBackContract, scopesContract, urgentContract } from './categories.ts';
import { overtakingContract } from './overtaking.ts';
import { placesContract, slotsContract, undoingContract } from './slots.ts';
import { quietContract } from './quiet.ts';
import type { LimiterFactory } from './trial.ts';

/**
 * What every limiter keeps: the promise of docs/limiter.md. These are examples: one of each promise, and those that random
 * steps meet too seldom. test/limiter/model.test.ts compares every field of every answer with a reference, for many more.
 */
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
    overtakingContract(create);
    oversightContract(create);
    quietContract(create);
    urgentContract(create);
    countBlockedContract(create);
    inspectContract(create);
    checksContract(create);
  });
}
