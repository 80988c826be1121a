import { expect, it } from 'vitest';
import { checks, type ChaosResult } from '../../../scripts/chaos/verdict.ts';

const good: ChaosResult = {
  notifications: 100,
  delivered: 90,
  deadLettered: 5,
  deadLetters: { unregistered: 5 },
  expired: 3,
  dropped: 2,
  stillQueued: 0,
  unaccounted: 0,
  lost: 0,
  gapViolations: 0,
  windowViolations: 0,
  minGapMs: 500,
  duplicates: 2,
  duplicateBound: 2,
  unexplainedDuplicates: 0,
  changedIds: 0,
  duplicatesBy: { answer: 1, kill: 1, stop: 0, redis: 0, cut: 0 },
  secretsLeaked: 0,
  processesLeft: 0,
  crashes: 0,
  requeues: 40,
  kills: 3,
  stops: 3,
  restarts: 2,
  redisRestarts: 1,
  redisPauses: 1,
  redisCuts: 1,
  refusals: 30,
  drainMs: 10_000,
  longestStallMs: 0,
  seed: 1,
  seconds: 20,
};

const passes = (result: ChaosResult) => checks(result).every(({ ok }) => ok);

it('passes where everything was struck and nothing broke', () => expect(passes(good)).toBe(true));

it.each([
  [{ lost: 1 }],
  [{ unaccounted: 1 }],
  [{ stillQueued: 1 }],
  [{ gapViolations: 1 }],
  [{ windowViolations: 1 }],
  [{ unexplainedDuplicates: 1 }],
  [{ duplicates: 3 }],
  [{ changedIds: 1 }],
  [{ secretsLeaked: 1 }],
  [{ processesLeft: 1 }],
  [{ crashes: 1 }],
  [{ delivered: 0 }],
  [{ requeues: 0 }],
  [{ kills: 0 }],
  [{ stops: 0 }],
  [{ restarts: 0 }],
  [{ redisRestarts: 0 }],
  [{ redisPauses: 0 }],
  [{ redisCuts: 0 }],
  [{ refusals: 0 }],
])('fails on %j', (fault) => expect(passes({ ...good, ...fault })).toBe(false));
