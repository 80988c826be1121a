import { describe, expect, it } from 'vitest';
import {
  admitted,
  admittedWith,
  atMost,
  BURSTS,
  gapOf,
  POLICY,
  UNLIMITED,
  refused,
  reserved,
  Trial,
  type LimiterFactory,
} from './trial.ts';

/** Blocked asks that count as sent slots, where an option says so. */
export function countBlockedContract(create: LimiterFactory): void {
  const trialOf = (policy = POLICY) => new Trial(create, policy, { countBlocked: true });

  describe('blocked asks', () => {
    it('count for nothing, however many there are', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      for (let at = 1; at < 1_800; at += 100) {
        trial.goTo(at);
        expect(await trial.ask(`b${at}`, { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 2_000 - at));
      }
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }]);
    });
  });

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

    it('one that must wait counts, when it asks and when it goes', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.ask('a');
      trial.goTo(100);
      expect(await trial.ask('b')).toEqual(reserved(1_100, 'gap', 1_000));
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }, { at: 100 }]);
      trial.goTo(1_100);
      expect(await trial.ask('b')).toEqual(admitted(1_100));
      expect((await trial.inspect()).sent).toEqual([{ at: 100 }, { at: 1_100 }]);
    });

    it('one that gets the same slot again counts once', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.askAll('ab');
      trial.goTo(300);
      expect(await trial.ask('b')).toEqual(reserved(1_000, 'gap', 700));
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 700));
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }, { at: 0 }]);
    });

    it('one that comes too late to go counts again', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.askAll('abc');
      trial.goTo(2_000);
      expect(await trial.ask('c')).toEqual(admitted(2_000));
      expect(await trial.ask('b')).toEqual(reserved(3_000, 'gap', 1_000));
      expect((await trial.inspect()).sent).toEqual([{ at: 2_000 }, { at: 2_000 }]);
    });

    it('one that is refused keeps the slot that it had', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.askAll('ab');
      trial.goTo(1_900);
      await trial.ask('c', { policy: UNLIMITED });
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 1_000));
      expect(await trial.slots()).toEqual({ b: 1_000 });
      expect(await trial.ask('c', { renew: true, maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 2_000)); // behind b
      expect(await trial.refund('c')).toBe(true);
    });

    it('the same ask at the same instant counts once', async () => {
      const trial = trialOf(BURSTS);
      await trial.askAll('ab');
      trial.goTo(5);
      await trial.ask('c');
      trial.goTo(10);
      for (let time = 0; time < 3; time += 1) {
        expect(await trial.ask('d', { maxWaitMs: 0 })).toEqual(refused('max-wait', '3/10s', 9_990));
      }
      expect((await trial.inspect()).sent).toHaveLength(4);
      trial.goTo(11);
      expect(await trial.ask('d', { maxWaitMs: 0 })).toEqual(refused('max-wait', '3/10s', 9_994));
      expect((await trial.inspect()).sent).toHaveLength(5);
    });

    it('starves whoever keeps asking, as it is meant to', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.ask('a');
      for (let at = 500; at < 10_000; at += 500) {
        trial.goTo(at);
        expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 1_000));
      }
      trial.goTo(10_500);
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(admitted(10_500));
    });

    it('a peek answers the wait with its ask counted, and counts nothing', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.ask('a');
      trial.goTo(400);
      expect(await trial.peek('b')).toEqual(reserved(1_400, 'gap', 1_000));
      expect(await trial.peek('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 1_000));
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }]);
    });

    it('those refused for the longest queue count too', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.ask('a');
      trial.goTo(400);
      expect(await trial.ask('b', { maxPending: 0 })).toEqual(refused('max-pending', 'gap', 1_000));
      expect(await trial.peek('c', { maxPending: 0 })).toMatchObject({ waitMs: 1_000 });
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }, { at: 400 }]);
    });

    it('those that wait for the end of a block count too', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.block(5_000);
      expect(await trial.ask('a')).toEqual(reserved(5_000, 'block', 5_000));
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }]);
    });

    it('they count in the category too, and nobody can give them back', async () => {
      const categories = { messages: atMost(2, 30_000) };
      const trial = new Trial(create, gapOf(1_000), { categories, countBlocked: true });
      const messages = { category: 'messages' };
      await trial.ask('a', messages);
      expect(await trial.ask('b', { ...messages, maxWaitMs: 0 })).toEqual(
        refused('max-wait', 'messages:2/30s', 30_000),
      );
      expect(await trial.refund('b', 'messages')).toBe(false);
      expect(await trial.cancel('b', 'messages')).toBe(false);
      trial.goTo(1_000);
      expect(await trial.ask('c')).toEqual(admitted(1_000));
      trial.goTo(2_000);
      expect(await trial.peek('d', messages)).toEqual(reserved(30_000, 'messages:2/30s', 28_000));
    });

    it('only as many are kept as the limits look at, however long they go on', async () => {
      const trial = trialOf(atMost(3, 3_600_000));
      await trial.askAll('abc');
      for (let at = 1_000; at <= 200_000; at += 1_000) {
        trial.goTo(at);
        expect(await trial.ask(`d${at}`, { maxWaitMs: 0 })).toMatchObject({ because: 'max-wait' });
      }
      const { sent } = await trial.inspect();
      expect(sent).toEqual([0, 0, 0, 198_000, 199_000, 200_000].map((at) => ({ at })));
      expect(await trial.peek('e')).toMatchObject({ kind: 'reserved', at: 3_799_000 });
      expect(await trial.ask('a')).toEqual(admitted(0, true));
    });

    it('are forgotten by a reset', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.block(5_000);
      await trial.ask('a', { maxWaitMs: 0 });
      await trial.unblock();
      expect(await trial.reset()).toBe(true);
      expect(await trial.ask('b')).toEqual(admitted(0));
    });
  });
}
