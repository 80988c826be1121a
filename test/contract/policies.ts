import { describe, expect, it } from 'vitest';
import {
  admitted,
  atMost,
  BURSTS,
  gapOf,
  MINUTE,
  reserved,
  Trial,
  type LimiterFactory,
  admittedWith,
  POLICY,
  refused,
} from './trial.ts';

/** What may go under which rules. */
export function policiesContract(create: LimiterFactory): void {
  describe('policies', () => {
    it('without a gap let no newcomer overtake a reservation either, when slots before it come free', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.askAll('abcd');
      await trial.refund('b');
      await trial.refund('c');
      expect(await trial.ask('newcomer')).toEqual(reserved(10_000, '3/10s', 10_000));
    });

    it('with a longer window find what was sent under a shorter one, once somebody has asked under it', async () => {
      const trial = new Trial(create, atMost(1, 1_000));
      const hourly = { policy: atMost(3, 3_600_000) };
      await trial.ask('a', hourly);
      for (const [at, id] of [
        [10_000, 'b'],
        [20_000, 'c'],
      ] as const) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(at));
      }
      trial.goTo(30_000);
      expect(await trial.ask('d', hourly)).toEqual(reserved(3_600_000, '3/1h', 3_570_000));
      trial.goTo(3_600_000 + 19_999);
      expect(await trial.peek('d', hourly)).toEqual(admitted(3_600_000 + 19_999));
    });
  });
}

/** Policies that an operator stores for one recipient. */
export function storedPoliciesContract(create: LimiterFactory): void {
  describe('a policy that is stored for a recipient', () => {
    it('ends at the instant that was given', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000), 1_000);
      await trial.ask('a');
      trial.goTo(999);
      expect(await trial.inspect()).toMatchObject({ source: 'stored', policyUntil: 1_000 });
      trial.goTo(1_000);
      expect(await trial.inspect()).toMatchObject({ source: 'limiter' });
      expect(await trial.peek('b')).toEqual(reserved(2_000, 'gap', 1_000));
      expect(await trial.unlimit()).toBe(false);
    });

    it('makes nobody wait longer than until its end, and then the limiter’s own holds', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.askAll('bc');
      await trial.limit(atMost(1, 60 * MINUTE), MINUTE);
      expect(await trial.slots()).toEqual({ b: MINUTE, c: MINUTE + 2_000 });
      expect(await trial.ask('d', { maxWaitMs: MINUTE + 4_000 })).toMatchObject({ kind: 'reserved', rule: '1/1h' });
      expect(await trial.slots()).toEqual({ b: MINUTE, c: MINUTE + 2_000, d: MINUTE + 4_000 });
      for (const [id, at] of Object.entries(await trial.slots())) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(at));
      }
    });

    it('is not affected by what the caller does to the object afterwards', async () => {
      const trial = new Trial(create);
      const policy = { rules: [{ max: 1, perMs: 5_000 }], minGapMs: 0 };
      await trial.limit(policy);
      policy.rules = [];
      await trial.ask('a');
      expect(await trial.peek('b')).toEqual(reserved(5_000, '1/5s', 5_000));
    });

    it('keeps what was sent for its own window', async () => {
      const trial = new Trial(create);
      await trial.limit(atMost(1, MINUTE));
      await trial.ask('a');
      trial.goTo(50_000);
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', '1/1m', 10_000));
    });
  });
}

/** Blocked asks that count as sent slots, where an option says so. */
export function countBlockedContract(create: LimiterFactory): void {
  const trialOf = (policy = POLICY) => new Trial(create, policy, { countBlocked: true });

  describe('where blocked asks count', () => {
    it('one that is refused counts as a slot, for itself too', async () => {
      const trial = trialOf();
      expect(await trial.ask('a')).toEqual(admittedWith(0, 'gap', 0, 2_000));
      trial.goTo(500);
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 2_000));
      trial.goTo(2_300);
      expect(await trial.ask('c', { maxWaitMs: 0 })).toEqual(refused('max-wait', '3/10s', 7_700));
      trial.goTo(9_999);
      expect(await trial.peek('d')).toEqual(admitted(10_000));
    });
  });
}
