import { describe, expect, it } from 'vitest';
import {
  admitted,
  admittedWith,
  atMost,
  BURSTS,
  gapOf,
  MINUTE,
  refused,
  reserved,
  Trial,
  UNLIMITED,
  type LimiterFactory,
} from './trial.ts';

const categories = { messages: atMost(2, 30_000) };

/** Policies that an operator stores for one recipient. */
export function storedPoliciesContract(create: LimiterFactory): void {
  describe('a policy that is stored for a recipient', () => {
    it('is in force at once, before that of the ask and that of the limiter', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.limit(gapOf(5_000));
      expect(await trial.peek('b')).toEqual(reserved(5_000, 'gap', 5_000));
      expect(await trial.peek('b', { policy: gapOf(100) })).toEqual(reserved(5_000, 'gap', 5_000));
      await trial.limit(atMost(1, 8_000));
      expect(await trial.peek('b')).toEqual(reserved(8_000, '1/8s', 8_000));
    });

    it('may allow more than before, and sets the tolerance', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.limit(gapOf(100));
      expect(await trial.ask('b')).toEqual(reserved(100, 'gap', 100));
      trial.goTo(54);
      expect(await trial.ask('b')).toEqual(reserved(100, 'gap', 46));
      trial.goTo(55);
      expect(await trial.ask('b')).toEqual(admittedWith(100, 'gap', 0, 145));
    });

    it('may lift all limits', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.limit(UNLIMITED);
      expect(await trial.askAll('bc')).toEqual([admittedWith(0, 'none', Infinity, 0), admitted(0)]);
    });

    it('applies to that recipient only', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000));
      await trial.limiter.admit({ recipientId: 'teacher-43', id: 'a' });
      expect(await trial.limiter.peek({ recipientId: 'teacher-43', id: 'b' })).toMatchObject({ waitMs: 2_000 });
    });

    it('leaves the policies of categories in force', async () => {
      const trial = new Trial(create, BURSTS, { categories });
      await trial.limit(UNLIMITED);
      expect(await trial.askAll('abc', { category: 'messages' })).toEqual([
        admittedWith(0, 'messages:2/30s', 1, 30_000),
        admittedWith(0, 'messages:2/30s', 0, 30_000),
        reserved(30_000, 'messages:2/30s', 30_000),
      ]);
    });

    it('is replaced by the next one, its end too', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000), 1_000);
      await trial.limit(gapOf(4_000));
      trial.goTo(1_000);
      await trial.ask('a');
      expect(await trial.peek('b')).toEqual(reserved(5_000, 'gap', 4_000));
    });

    it('ends at the instant that was given', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000), 1_000);
      await trial.ask('a');
      trial.goTo(999);
      expect(await trial.peek('b')).toEqual(reserved(5_000, 'gap', 4_001));
      trial.goTo(1_000);
      expect(await trial.peek('b')).toEqual(reserved(2_000, 'gap', 1_000));
      expect(await trial.unlimit()).toBe(false);
    });

    it('is removed by unlimit', async () => {
      const trial = new Trial(create);
      expect(await trial.unlimit()).toBe(false);
      await trial.limit(gapOf(5_000));
      await trial.ask('a');
      expect(await trial.unlimit()).toBe(true);
      expect(await trial.unlimit()).toBe(false);
      expect(await trial.peek('c')).toEqual(reserved(2_000, 'gap', 2_000));
    });

    it('stays when the slots are reset', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000));
      expect(await trial.reset()).toBe(false);
      await trial.ask('a');
      expect(await trial.reset()).toBe(true);
      await trial.ask('b');
      expect(await trial.peek('c')).toEqual(reserved(5_000, 'gap', 5_000));
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

  describe('storing a policy while slots are reserved', () => {
    it('moves those that do not keep it later, in their order', async () => {
      const trial = new Trial(create);
      await trial.askAll('abcd');
      expect(await trial.slots()).toEqual({ b: 2_000, c: 4_000, d: 10_000 });
      await trial.limit(gapOf(4_000));
      expect(await trial.slots()).toEqual({ b: 4_000, c: 8_000, d: 12_000 });
      expect(await trial.ask('e')).toEqual(reserved(16_000, 'gap', 16_000));
    });

    it('keeps every rolling window, with what was sent', async () => {
      const trial = new Trial(create, gapOf(1_000));
      await trial.askAll('abcdef');
      await trial.limit({ rules: atMost(2, 10_000).rules, minGapMs: 1_000 });
      expect(await trial.slots()).toEqual({ b: 1_000, c: 10_000, d: 11_000, e: 20_000, f: 21_000 });
    });

    it('moves them to earlier where it allows that', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      await trial.limit(gapOf(1_000));
      expect(await trial.slots()).toEqual({ b: 1_000, c: 2_000 });
      await trial.limit(gapOf(3_000));
      expect(await trial.slots()).toEqual({ b: 3_000, c: 6_000 });
      await trial.limit(UNLIMITED);
      expect(await trial.slots()).toEqual({ b: 0, c: 0 });
    });

    it('answers the new slot to an id that comes back at the old one, and admits at the new one', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      await trial.limit(gapOf(4_000));
      trial.goTo(2_000);
      expect(await trial.ask('b')).toEqual(reserved(4_000, 'gap', 2_000));
      trial.goTo(4_000);
      expect(await trial.ask('b')).toEqual(admitted(4_000));
    });

    it('spreads those that share a slot', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.askAll('abcdef');
      await trial.limit({ rules: BURSTS.rules, minGapMs: 1_000 });
      expect(await trial.slots()).toEqual({ d: 10_000, e: 11_000, f: 12_000 });
    });

    it('keeps the policy of each category too, and moves its slots with those overall', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 3_000) } });
      const messages = { category: 'messages' };
      await trial.ask('a');
      await trial.ask('b', messages);
      await trial.askAll('cd');
      await trial.ask('e', messages);
      expect(await trial.slots()).toEqual({ b: 1_000, c: 2_000, d: 3_000, e: 4_000 });
      await trial.limit({ rules: atMost(4, 20_000).rules, minGapMs: 1_000 });
      expect(await trial.slots()).toEqual({ b: 1_000, c: 2_000, d: 3_000, e: 20_000 });
      await trial.limit(UNLIMITED);
      expect(await trial.slots()).toEqual({ b: 0, c: 0, d: 0, e: 3_000 }); // e is held back now
      expect(await trial.ask('f', messages)).toEqual(reserved(6_000, 'messages:1/3s', 6_000));
      expect(await trial.ask('g')).toEqual(admitted(0)); // behind d, and not behind e
      trial.goTo(3_000);
      expect(await trial.ask('e', messages)).toEqual(admittedWith(3_000, 'messages:1/3s', 0, 3_000));
    });

    it('keeps apart those that their category holds back, and nobody waits for them', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 3_000) } });
      const messages = { category: 'messages' };
      await trial.ask('a');
      await trial.askAll('bcd', messages);
      await trial.ask('e');
      expect(await trial.slots()).toEqual({ b: 1_000, c: 4_000, d: 7_000, e: 2_000 });
      await trial.limit(gapOf(1_500));
      expect(await trial.slots()).toEqual({ b: 1_500, c: 4_500, d: 7_500, e: 3_000 });
      expect(await trial.peek('f')).toEqual(reserved(6_000, 'gap', 6_000)); // behind c, and not behind d
      await trial.cancel('b', 'messages');
      await trial.limit(gapOf(10_000));
      expect(await trial.slots()).toEqual({ e: 10_000, c: 20_000, d: 30_000 }); // c and d are in line now
    });

    it('leaves an overdue one where it is, unless what was sent forbids it', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(2_500);
      await trial.limit(gapOf(2_100));
      expect(await trial.slots()).toEqual({ b: 2_100 });
      await trial.limit(gapOf(2_700));
      expect(await trial.slots()).toEqual({ b: 2_700 });
    });

    it('forgets no-shows', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(2_000 + MINUTE + 1);
      await trial.limit(gapOf(MINUTE * 5));
      expect(await trial.slots()).toEqual({});
    });

    it('admits in that order, when each comes back at its slot', async () => {
      const trial = new Trial(create);
      await trial.askAll('abcde');
      await trial.limit({ rules: atMost(2, 9_000).rules, minGapMs: 3_000 });
      const slots = await trial.slots();
      expect(slots).toEqual({ b: 3_000, c: 9_000, d: 12_000, e: 18_000 });
      for (const [id, at] of Object.entries(slots)) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(at));
      }
    });
  });
}
