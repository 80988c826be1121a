import { describe, expect, it } from 'vitest';
import {
  admitted,
  admittedWith,
  BURSTS,
  gapOf,
  MINUTE,
  recipientId,
  reserved,
  Trial,
  type LimiterFactory,
} from './trial.ts';

/** What an answer says beside yes or no. */
export function answersContract(create: LimiterFactory): void {
  describe('what an admission says about the next one', () => {
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
      expect(await trial.ask('c')).not.toHaveProperty('rules');
    });

    it('counts no slot that is as old as the window', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.ask('a');
      trial.goTo(4_000);
      await trial.ask('b');
      trial.goTo(10_000);
      const answer = admittedWith(10_000, '3/10s', 1, 4_000);
      expect(await trial.peek('c')).toEqual(answer); // on Redis, only an ask may take the fast path
      expect(await trial.ask('c')).toEqual(answer);
    });
  });

  describe('the tolerance', () => {
    it.each([
      ['half of it', 200, 90],
      ['at most 120 ms', 3_000, 120],
    ])('is for those that come early, and for newcomers, %s', async (_, slot, earlyMs) => {
      const policy = gapOf(slot);
      const trial = new Trial(create, policy);
      await trial.askAll('ab');
      trial.goTo(slot - earlyMs - 1);
      expect(await trial.ask('b')).toMatchObject({ kind: 'reserved', at: slot, waitMs: earlyMs + 1 });
      trial.goTo(slot - earlyMs);
      expect(await trial.ask('b')).toEqual(admitted(slot));
      await trial.refund('b');
      expect(await trial.ask('c', { maxWaitMs: 0 })).toEqual(admitted(slot));
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
    it('answers what an ask would be answered, and changes nothing', async () => {
      const trial = new Trial(create);
      expect(await trial.peek('a')).toEqual(admittedWith(0, 'gap', 0, 2_000));
      await trial.askAll('ab');
      expect(await trial.peek('c')).toEqual(reserved(4_000, 'gap', 4_000));
      expect(await trial.ask('c', { maxWaitMs: 4_000 })).toEqual(reserved(4_000, 'gap', 4_000));
    });
  });
}

/** Every wait says its longest cause, and how many are before it in line. */
export function causesContract(create: LimiterFactory): void {
  describe('the cause of a wait', () => {
    it('is the limit that alone would make it wait longest, with those that are before it', async () => {
      const trial = new Trial(create, { rules: [{ max: 10, perMs: MINUTE }], minGapMs: 3_000 });
      await trial.askAll('abcdefghijklmno');
      expect(Object.values(await trial.causes())).toEqual([
        ...Array.from({ length: 9 }, (_, before) => `gap, ${before} before`),
        ...Array.from({ length: 5 }, (_, index) => `10/1m, ${index + 9} before`),
      ]);
      const other = new Trial(create, { rules: [{ max: 10, perMs: MINUTE }], minGapMs: 10_000 });
      await other.askAll('abcdefghijklmno');
      expect(await other.why('p')).toBe('gap, 14 before');
    });
  });
}
