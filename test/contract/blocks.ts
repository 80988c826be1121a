import { describe, expect, it } from 'vitest';
import {
  admitted,
  admittedWith,
  atMost,
  BURSTS,
  gapOf,
  refused,
  reserved,
  Trial,
  UNLIMITED,
  type LimiterFactory,
} from './trial.ts';

/** Blocks: nobody goes before their end. */
export function blocksContract(create: LimiterFactory): void {
  describe('a block', () => {
    it('makes everybody wait for its end, and behind each other', async () => {
      const trial = new Trial(create);
      await trial.block(60_000);
      expect(await trial.askAll('ab')).toEqual([reserved(60_000, 'block', 60_000), reserved(62_000, 'block', 62_000)]);
    });

    it('applies where there are no rules, and in every category', async () => {
      const trial = new Trial(create, UNLIMITED, { categories: { messages: atMost(2, 1_000) } });
      await trial.block(60_000);
      expect(await trial.ask('a', { category: 'messages' })).toEqual(reserved(60_000, 'block', 60_000));
      expect(await trial.ask('b')).toEqual(reserved(60_000, 'block', 60_000));
    });

    it('is the rule of the answer, unless a limit asks for a longer wait', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.block(2_000);
      expect(await trial.peek('b')).toEqual(reserved(2_000, 'block', 2_000));
      await trial.block(1_999);
      expect(await trial.peek('b')).toEqual(reserved(2_000, 'gap', 2_000));
    });

    it('refuses those that will not wait so long', async () => {
      const trial = new Trial(create);
      await trial.block(60_000);
      expect(await trial.ask('a', { maxWaitMs: 59_999 })).toEqual(refused('max-wait', 'block', 60_000));
      expect(await trial.ask('a', { maxPending: 0 })).toEqual(refused('max-pending', 'block', 60_000));
      expect(await trial.slots()).toEqual({});
    });

    it('admits again at its end, and to it within the tolerance', async () => {
      const trial = new Trial(create);
      await trial.block(60_000);
      await trial.ask('a');
      trial.goTo(59_879);
      expect(await trial.ask('a')).toEqual(reserved(60_000, 'block', 121));
      trial.goTo(59_880);
      expect(await trial.ask('a')).toEqual(admittedWith(60_000, 'gap', 0, 2_120));
      const other = new Trial(create);
      await other.block(60_000);
      other.goTo(59_880);
      expect(await other.ask('newcomer')).toEqual(admitted(60_000));
      const later = new Trial(create);
      await later.block(60_000);
      later.goTo(60_000);
      expect(await later.ask('newcomer')).toEqual(admitted(60_000));
    });

    it('still answers an admission that was given before', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.block(60_000);
      expect(await trial.ask('a')).toEqual(admittedWith(0, 'gap', 0, 2_000, true));
      expect(await trial.ask('a', { renew: true })).toEqual(reserved(60_000, 'block', 60_000));
    });

    it('applies to that recipient only', async () => {
      const trial = new Trial(create);
      await trial.block(60_000);
      expect(await trial.limiter.admit({ recipientId: 'teacher-43', id: 'a' })).toMatchObject({ kind: 'admitted' });
    });

    it('is replaced by the next one, be it shorter', async () => {
      const trial = new Trial(create);
      await trial.block(60_000);
      await trial.block(1_000, 'on leave, but not for long');
      expect(await trial.peek('a')).toEqual(reserved(1_000, 'block', 1_000));
      expect((await trial.inspect()).block).toEqual({ until: 1_000, reason: 'on leave, but not for long' });
    });

    it('stays when the slots are reset', async () => {
      const trial = new Trial(create);
      await trial.block(60_000);
      expect(await trial.reset()).toBe(false);
      await trial.ask('a');
      expect(await trial.reset()).toBe(false);
      expect(await trial.peek('b')).toEqual(reserved(62_000, 'block', 62_000));
    });

    it('goes beside a stored policy, and each ends alone', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000));
      await trial.block(1_000);
      await trial.ask('a');
      expect(await trial.ask('b')).toEqual(reserved(6_000, 'gap', 6_000));
      expect(await trial.unblock()).toBe(true);
      expect(await trial.unlimit()).toBe(true);
      await trial.block(1_000);
      await trial.limit(gapOf(5_000));
      expect(await trial.unlimit()).toBe(true);
      expect(await trial.unblock()).toBe(true);
    });
  });

  describe('unblock', () => {
    it('lets newcomers go, behind those that wait', async () => {
      const trial = new Trial(create);
      expect(await trial.unblock()).toBe(false);
      await trial.block(60_000);
      expect(await trial.unblock()).toBe(true);
      expect(await trial.unblock()).toBe(false);
      expect(await trial.ask('a')).toEqual(admitted(0));
      await trial.block(60_000);
      await trial.ask('b');
      await trial.unblock();
      expect(await trial.slots()).toEqual({ b: 2_000 });
      expect(await trial.ask('c')).toEqual(reserved(4_000, 'gap', 4_000));
    });

    it('finds none whose end has passed', async () => {
      const trial = new Trial(create);
      await trial.block(1_000);
      trial.goTo(1_000);
      expect(await trial.unblock()).toBe(false);
    });
  });

  describe('a block while slots are reserved', () => {
    it('moves them behind its end, in their order and at their distances', async () => {
      const trial = new Trial(create);
      await trial.askAll('abcde');
      await trial.block(11_000);
      expect(await trial.slots()).toEqual({ b: 11_000, c: 13_000, d: 15_000, e: 21_000 });
    });

    it('leaves those behind its end where they are', async () => {
      const trial = new Trial(create);
      await trial.askAll('abcd');
      await trial.block(3_000);
      expect(await trial.slots()).toEqual({ b: 3_000, c: 5_000, d: 10_000 });
    });

    it('admits each at its new slot, and asks it back once', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      await trial.block(20_000);
      trial.goTo(2_000);
      expect(await trial.ask('b')).toEqual(reserved(20_000, 'block', 18_000));
      trial.goTo(20_000);
      expect(await trial.ask('b')).toEqual(admitted(20_000));
      trial.goTo(22_000);
      expect(await trial.ask('c')).toEqual(admitted(22_000));
    });

    it('moves a whole burst behind it', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.askAll('abcdefg');
      expect(await trial.slots()).toEqual({ d: 10_000, e: 10_000, f: 10_000, g: 20_000 });
      await trial.block(12_000);
      expect(await trial.slots()).toEqual({ d: 12_000, e: 12_000, f: 12_000, g: 22_000 });
    });

    it('moves overdue ones too', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      trial.goTo(4_500);
      await trial.block(9_000);
      expect(await trial.slots()).toEqual({ b: 9_000, c: 11_000 });
    });

    it('moves those that their category holds back: into line, or where nobody waits for them', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 6_000) } });
      const messages = { category: 'messages' };
      await trial.askAll('abc', messages);
      await trial.askAll('de');
      expect(await trial.slots()).toEqual({ b: 6_000, c: 12_000, d: 1_000, e: 2_000 });
      await trial.block(10_000);
      expect(await trial.slots()).toEqual({ d: 10_000, e: 11_000, b: 12_000, c: 18_000 });
      expect(await trial.ask('f', messages)).toEqual(reserved(24_000, 'messages:1/6s', 24_000));
      expect(await trial.peek('x')).toEqual(reserved(13_000, 'block', 13_000));
      trial.goTo(6_000);
      expect(await trial.ask('b', messages)).toEqual(reserved(12_000, 'block', 6_000));
      trial.goTo(12_000);
      expect(await trial.ask('b', messages)).toEqual(admitted(12_000));
    });

    it('lets nobody wait for one that its category puts off', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 6_000) } });
      await trial.ask('a');
      await trial.ask('b', { category: 'messages' });
      await trial.askAll('cdefg');
      expect(await trial.ask('h', { category: 'messages' })).toEqual(reserved(7_000, 'gap', 7_000));
      await trial.ask('i');
      await trial.limit(UNLIMITED);
      await trial.block(5_000);
      const [b, h] = [5_000, 11_000];
      expect(await trial.slots()).toEqual({ b, c: b, d: b, e: b, f: b, g: b, h, i: b });
    });

    it('leaves those that their category holds back beyond its end', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 6_000) } });
      await trial.askAll('abc', { category: 'messages' });
      await trial.block(5_000);
      expect(await trial.slots()).toEqual({ b: 6_000, c: 12_000 });
      expect(await trial.ask('d')).toEqual(reserved(5_000, 'block', 5_000));
    });

    it('keeps the policy that is stored, and those of categories', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 6_000) } });
      const messages = { category: 'messages' };
      await trial.limit(gapOf(2_000));
      await trial.ask('a');
      await trial.ask('b', messages);
      await trial.ask('c');
      await trial.ask('d', messages);
      expect(await trial.slots()).toEqual({ b: 2_000, c: 4_000, d: 8_000 });
      await trial.block(5_000);
      expect(await trial.slots()).toEqual({ b: 5_000, c: 7_000, d: 11_000 });
      trial.goTo(5_000);
      expect(await trial.ask('b', messages)).toEqual(admittedWith(5_000, 'messages:1/6s', 0, 6_000));
    });
  });
}
