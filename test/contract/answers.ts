import { describe, expect, it } from 'vitest';
import {
  admitted,
  admittedWith,
  atMost,
  BURSTS,
  gapOf,
  MINUTE,
  POLICY,
  recipientId,
  refused,
  reserved,
  Trial,
  UNLIMITED,
  type LimiterFactory,
} from './trial.ts';

/** What an answer tells beside yes or no. */
export function answersContract(create: LimiterFactory): void {
  describe('what an admission tells about the next one', () => {
    it('is how many more may go, and when the oldest stops counting', async () => {
      const trial = new Trial(create, BURSTS);
      expect(await trial.ask('a')).toEqual(admittedWith(0, '3/10s', 2, 10_000));
      trial.goTo(400);
      expect(await trial.ask('b')).toEqual(admittedWith(400, '3/10s', 1, 9_600));
      expect(await trial.ask('c')).toEqual(admittedWith(400, '3/10s', 0, 9_600));
      expect(await trial.ask('d')).toEqual(reserved(10_000, '3/10s', 9_600));
    });

    it('is what every rule has left, where the ask wants it: with this admission, and without one that waits', async () => {
      const trial = new Trial(create);
      const rules = (gapMs: number, windowMs: number) => [
        { rule: 'gap', max: 1, perMs: 2_000, remaining: 0, resetMs: gapMs },
        { rule: '3/10s', max: 3, perMs: 10_000, remaining: 2, resetMs: windowMs },
      ];
      expect(await trial.ask('a', { everyRule: true })).toMatchObject({
        kind: 'admitted',
        rules: rules(2_000, 10_000),
      });
      trial.goTo(500);
      expect(await trial.ask('b', { everyRule: true })).toMatchObject({ kind: 'reserved', rules: rules(1_500, 9_500) });
      expect(await trial.ask('b', { everyRule: true })).toMatchObject({ kind: 'reserved', rules: rules(1_500, 9_500) });
      expect(await trial.ask('a', { everyRule: true })).toMatchObject({ repeated: true, rules: rules(1_500, 9_500) });
      const refused = { kind: 'refused', rules: rules(1_500, 9_500) };
      expect(await trial.ask('c', { everyRule: true, maxWaitMs: 0 })).toMatchObject(refused);
      expect(await trial.ask('c', { maxWaitMs: 0 })).not.toHaveProperty('rules');
      const free = new Trial(create, UNLIMITED);
      expect(await free.ask('a', { everyRule: true })).toMatchObject({ kind: 'admitted', rules: [] });
    });

    it('counts no slot that is as old as the window', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.ask('a');
      trial.goTo(4_000);
      await trial.ask('b');
      trial.goTo(10_000);
      expect(await trial.ask('c')).toEqual(admittedWith(10_000, '3/10s', 1, 4_000));
    });

    it('is the rule that makes the next one wait longest, the first of equals', async () => {
      const trial = new Trial(create);
      expect(await trial.ask('a')).toEqual(admittedWith(0, 'gap', 0, 2_000));
      trial.goTo(2_000);
      expect(await trial.ask('b')).toEqual(admittedWith(2_000, 'gap', 0, 2_000));
      trial.goTo(8_000);
      expect(await trial.ask('c')).toEqual(admittedWith(8_000, 'gap', 0, 2_000)); // 3/10s: at 10 s as well
      const busy = new Trial(create);
      for (const [at, id] of ['a', 'b', 'c'].entries()) {
        busy.goTo(at * 2_000);
        await busy.ask(id);
      }
      busy.goTo(4_001);
      expect(await busy.ask('c')).toEqual({ ...(admittedCopy(4_000, '3/10s', 5_999) as object), repeated: true });
    });

    it('counts from now where the slot lies ahead', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(1_880);
      expect(await trial.ask('b')).toEqual(admittedWith(2_000, 'gap', 0, 2_120));
    });

    it('is of the first rule where none makes the next one wait', async () => {
      const trial = new Trial(create, { rules: [{ max: 3, perMs: 1_000 }, ...atMost(5, MINUTE).rules], minGapMs: 0 });
      expect(await trial.ask('a')).toEqual(admittedWith(0, '3/1s', 2, 1_000));
    });

    it('leaves out what is reserved', async () => {
      const trial = new Trial(create, { rules: BURSTS.rules, minGapMs: 1 });
      await trial.askAll('abc');
      trial.goTo(1);
      expect(await trial.ask('b')).toEqual(admittedWith(1, 'gap', 0, 1));
    });

    it('is nothing without any rule', async () => {
      const trial = new Trial(create, UNLIMITED);
      expect(await trial.ask('a')).toEqual(admittedWith(0, 'none', Infinity, 0));
      expect(await trial.peek('b')).toEqual(admittedWith(0, 'none', Infinity, 0));
    });

    it('is told anew when it is told again', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.ask('a');
      trial.goTo(3_000);
      await trial.ask('b');
      expect(await trial.ask('a')).toEqual({ ...(admittedCopy(0, '3/10s', 7_000, 1) as object), repeated: true });
    });

    it('has all its room where everything that was sent has been used up by time', async () => {
      const trial = new Trial(create, atMost(1, MINUTE));
      await trial.ask('a');
      trial.goTo(1_000);
      expect(await trial.ask('a', { policy: atMost(2, 500) })).toEqual({
        ...(admittedCopy(0, '2/500ms', 0, 2) as object),
        repeated: true,
      });
    });
  });

  describe('the tolerance', () => {
    const shortest = { rules: [...atMost(2, 900).rules, ...atMost(1, 80).rules], minGapMs: 0 };

    it.each([
      ['nine tenths of the gap', gapOf(100), 90],
      ['nine tenths of the gap, in whole milliseconds', gapOf(101), 90],
      ['none with a gap of 1 ms', gapOf(1), 0],
      ['nine tenths of the gap, be there shorter windows', { ...shortest, minGapMs: 1_000 }, 900],
      ['nine tenths of the shortest window without a gap', shortest, 72],
      ['at most two seconds', gapOf(3_000), 2_000],
      ['two seconds without any rule', UNLIMITED, 2_000],
    ])('is %s', async (_, policy, toleranceMs) => {
      const { limiter } = new Trial(create, policy);
      expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ kind: 'admitted', toleranceMs });
      expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ repeated: true, toleranceMs });
      expect(await limiter.peek({ recipientId, id: 'b' })).toMatchObject({ toleranceMs });
    });

    it('is told with a reservation and a refusal too', async () => {
      const { limiter } = new Trial(create, gapOf(100));
      await limiter.admit({ recipientId, id: 'a' });
      const refusal = await limiter.admit({ recipientId, id: 'b', maxWaitMs: 0 });
      expect(refusal).toMatchObject({ kind: 'refused', toleranceMs: 90 });
      expect(await limiter.admit({ recipientId, id: 'b' })).toMatchObject({ kind: 'reserved', toleranceMs: 90 });
    });

    it.each([
      ['half of it', gapOf(200), 90],
      ['half of it, in whole milliseconds', atMost(1, 102), 45],
      ['at most 120 ms', gapOf(268), 120],
      ['at most 120 ms, with a long gap too', gapOf(3_000), 120],
    ])('is for those that come early, and for newcomers, %s', async (_, policy, earlyMs) => {
      const slot = Math.max(policy.minGapMs, ...policy.rules.map(({ perMs }) => perMs));
      const trial = new Trial(create, policy);
      await trial.askAll('ab');
      trial.goTo(slot - earlyMs - 1);
      expect(await trial.ask('b')).toMatchObject({ kind: 'reserved', at: slot, waitMs: earlyMs + 1 });
      await trial.cancel('b');
      expect(await trial.peek('c', { maxWaitMs: 0 })).toMatchObject({ kind: 'refused', waitMs: earlyMs + 1 });
      await trial.ask('d');
      trial.goTo(slot - earlyMs);
      expect(await trial.ask('d')).toEqual(admitted(slot));
      await trial.refund('d');
      expect(await trial.ask('e', { maxWaitMs: 0 })).toEqual(admitted(slot));
    });
  });

  describe('gapMs', () => {
    const gapTold = async (trial: Trial, more = {}) =>
      (await trial.limiter.peek({ recipientId, id: 'b', ...more })).gapMs;

    it('is the widest gap of the policies in force, 0 for none', async () => {
      const categories = { slow: gapOf(5_000), quick: gapOf(10), free: UNLIMITED };
      const trial = new Trial(create, POLICY, { categories });
      expect(await gapTold(trial)).toBe(2_000);
      expect(await gapTold(trial, { category: 'slow' })).toBe(5_000);
      expect(await gapTold(trial, { category: 'quick' })).toBe(2_000);
      expect(await gapTold(trial, { policy: BURSTS })).toBe(0);
      expect(await gapTold(trial, { policy: BURSTS, category: 'quick' })).toBe(10);
      await trial.ask('a');
      expect(await gapTold(trial)).toBe(2_000);
      expect(await gapTold(trial, { maxWaitMs: 0 })).toBe(2_000);
      await trial.limit(gapOf(7_000));
      expect(await gapTold(trial, { policy: BURSTS, category: 'slow' })).toBe(7_000);
      await trial.limit(UNLIMITED);
      expect(await gapTold(trial, { category: 'free' })).toBe(0);
    });
  });

  describe('sendAt', () => {
    it('is the slot on the clock of this process', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(1_900);
      const before = performance.now();
      const answer = await trial.limiter.admit({ recipientId, id: 'b' });
      const sendAt = answer.kind === 'admitted' ? answer.sendAt - 100 : NaN;
      expect(sendAt).toBeGreaterThanOrEqual(before - 1);
      expect(sendAt).toBeLessThanOrEqual(performance.now());
    });
  });

  describe('peek', () => {
    it('tells what an ask would be told, and changes nothing', async () => {
      const trial = new Trial(create);
      expect(await trial.peek('a')).toEqual(admittedWith(0, 'gap', 0, 2_000));
      await trial.askAll('ab');
      expect(await trial.peek('c')).toEqual(reserved(4_000, 'gap', 4_000));
      expect(await trial.peek('c', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 4_000));
      expect(await trial.peek('c', { maxPending: 1 })).toEqual(refused('max-pending', 'gap', 4_000));
      trial.goTo(2_000);
      expect(await trial.peek('b')).toEqual(admitted(2_000));
      expect(await trial.peek('a', { renew: true })).toEqual(admitted(2_000));
      expect(await trial.peek('a')).toEqual(admitted(0, true));
      expect(await trial.ask('b')).toEqual(admitted(2_000));
    });

    it('tells the room that an admission would leave', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.ask('a');
      expect(await trial.peek('b')).toEqual(admittedWith(0, '3/10s', 1, 10_000));
      expect(await trial.peek('b')).toEqual(await trial.ask('b'));
    });
  });
}

function admittedCopy(at: number, rule: string, resetMs: number, remaining = 0): unknown {
  return admittedWith(at, rule, remaining, resetMs);
}
