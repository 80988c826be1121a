import { describe, expect, it } from 'vitest';
import type { Cause, Moved } from '../../src/limiter/limiter.ts';
import { admitted, atMost, gapOf, MINUTE, recipientId, reserved, Trial, type LimiterFactory } from './trial.ts';

type Told = Omit<Moved, keyof Cause>;

const DAY = 86_400_000;
const messages = { category: 'messages' };

/** Operators' acts bring service back: all that wait get their earliest places, and the caller is told who has moved. */
export function oversightContract(create: LimiterFactory): void {
  /** Without the reason, which causes.ts looks at. */
  const since = ({ id, category, from, at }: Moved, { start }: Trial): Told => ({
    ...(id !== undefined && { id }),
    ...(category !== undefined && { category }),
    ...{ from: from - start, at: at - start },
  });
  const follower = (trial: Trial) => {
    const told: Told[] = [];
    const onMoved = (moved: readonly Moved[]) => void told.push(...moved.map((each) => since(each, trial)));
    return { told, onMoved };
  };

  describe('those that wait, after an act of an operator', () => {
    it('are next when a long block ends early, and newcomers are served again', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abc');
      await trial.block(30 * DAY);
      await trial.ask('d');
      expect(await trial.slots()).toEqual({ b: 30 * DAY, c: 30 * DAY + 2_000, d: 30 * DAY + 4_000 });
      trial.goTo(MINUTE);
      const { told, onMoved } = follower(trial);
      expect(await trial.limiter.unblock(recipientId, { onMoved })).toBe(true);
      expect(told).toEqual([
        { id: 'b', from: 30 * DAY, at: MINUTE },
        { id: 'c', from: 30 * DAY + 2_000, at: MINUTE + 2_000 },
        { id: 'd', from: 30 * DAY + 4_000, at: MINUTE + 4_000 },
      ]);
      expect(await trial.ask('e', { maxWaitMs: 10_000 })).toEqual(reserved(MINUTE + 6_000, 'gap', 6_000));
      expect(await trial.ask('b')).toEqual(admitted(MINUTE));
    });

    it('are next when a stricter policy is forgotten or replaced', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.limit(gapOf(60_000));
      await trial.askAll('abcd');
      await trial.limit(gapOf(10_000));
      expect(await trial.slots()).toEqual({ b: 10_000, c: 20_000, d: 30_000 });
      const { told, onMoved } = follower(trial);
      await trial.limiter.unlimit(recipientId, { onMoved });
      expect(told.map(({ id, at }) => [id, at])).toEqual([
        ['b', 2_000],
        ['c', 4_000],
        ['d', 6_000],
      ]);
      for (const [id, at] of Object.entries({ b: 2_000, c: 4_000, d: 6_000 })) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(at));
      }
    });

    it('still wait after a reset, and the first of them may go at once', async () => {
      const trial = new Trial(create, atMost(1, 3_600_000));
      await trial.askAll('abc');
      const { told, onMoved } = follower(trial);
      expect(await trial.limiter.reset(recipientId, { onMoved })).toBe(true);
      expect(told).toEqual([
        { id: 'b', from: 3_600_000, at: 0 },
        { id: 'c', from: 7_200_000, at: 3_600_000 },
      ]);
      expect(await trial.ask('d')).toEqual(reserved(7_200_000, '1/1h', 7_200_000));
      expect(await trial.ask('b')).toEqual(admitted(0));
    });

    it('are told as moved to later, too', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abc');
      const { told, onMoved } = follower(trial);
      await trial.limiter.block(recipientId, { until: trial.start + 3_000, reason: 'exam' }, { onMoved });
      await trial.limiter.limit(recipientId, gapOf(5_000), { onMoved });
      expect(told).toEqual([
        { id: 'b', from: 2_000, at: 3_000 },
        { id: 'c', from: 4_000, at: 5_000 },
        { id: 'b', from: 3_000, at: 5_000 },
        { id: 'c', from: 5_000, at: 10_000 },
      ]);
    });

    it('are not told where they keep their slots', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abc');
      const { told, onMoved } = follower(trial);
      await trial.limiter.limit(recipientId, gapOf(2_000), { onMoved });
      await trial.limiter.unblock(recipientId, { onMoved });
      expect(told).toEqual([]);
    });

    it('are told with their category, be they held back or in line', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, MINUTE) } });
      await trial.block(DAY);
      await trial.askAll('ab', messages);
      await trial.ask('c');
      await trial.ask('d', { category: 'letters' });
      const { told, onMoved } = follower(trial);
      await trial.limiter.unblock(recipientId, { onMoved });
      expect(told).toEqual([
        { id: 'a', category: 'messages', from: DAY, at: 0 },
        { id: 'c', from: DAY + 1_000, at: 1_000 },
        { id: 'd', from: DAY + 2_000, at: 2_000 },
        { id: 'b', category: 'messages', from: DAY + MINUTE, at: MINUTE },
      ]);
      expect(await trial.peek('e')).toEqual(reserved(3_000, 'gap', 3_000));
    });

    it('are told without an id where only its digest is kept, on Redis', async () => {
      const trial = new Trial(create, gapOf(1_000));
      const id = 'ü'.repeat(200);
      await trial.ask('a');
      await trial.ask(id);
      const { told, onMoved } = follower(trial);
      await trial.limiter.limit(recipientId, gapOf(500), { onMoved });
      const [{ id: toldId = id, ...rest } = {}, ...more] = told;
      expect([toldId, rest, more]).toEqual([id, { from: 1_000, at: 500 }, []]);
    });

    it('are given time to be told, where the caller asks for it', async () => {
      const trial = new Trial(create, gapOf(1_000));
      await trial.block(DAY);
      await trial.askAll('abc');
      await trial.limiter.unblock(recipientId, { leadMs: 2_500 });
      expect(await trial.slots()).toEqual({ a: 2_500, b: 3_500, c: 4_500 });
      await trial.limiter.limit(recipientId, gapOf(100), { leadMs: 3_000 });
      expect(await trial.slots()).toEqual({ a: 2_500, b: 3_000, c: 3_100 });
    });

    it('are moved part by part, and the caller is waited for', async () => {
      const trial = new Trial(create, gapOf(1_000));
      const ids = Array.from({ length: 1_200 }, (_, index) => `j${index}`);
      for (const id of ids) await trial.ask(id);
      const parts: number[] = [];
      let isBusy = false;
      await trial.limiter.limit(recipientId, gapOf(100), {
        async onMoved(moved) {
          expect(isBusy).toBe(false);
          isBusy = true;
          await new Promise((resolve) => setImmediate(resolve));
          parts.push(moved.length);
          isBusy = false;
        },
      });
      expect(isBusy).toBe(false);
      expect(parts.reduce((sum, count) => sum + count, 0)).toBe(1_199);
      const { reserved: waiting } = await trial.inspect();
      expect(waiting.map(({ id }) => id)).toEqual(ids.slice(1));
      expect(waiting.map(({ at }) => at)).toEqual(ids.slice(1).map((_, index) => 100 * (index + 1)));
    });

    it('stand before those that ask while they are moved', async () => {
      const trial = new Trial(create, gapOf(1_000));
      await trial.block(DAY);
      await trial.askAll('abc');
      let asked = 0;
      await trial.limiter.unblock(recipientId, {
        async onMoved() {
          asked += 1;
          if (asked === 1) await trial.ask('late');
        },
      });
      expect(await trial.slots()).toEqual({ a: 0, b: 1_000, c: 2_000, late: 3_000 });
    });
  });

  describe('a lead that makes no sense', () => {
    it.each([-1, 0.5, NaN])('is told: %d', async (leadMs) => {
      const trial = new Trial(create);
      await expect(trial.limiter.unblock(recipientId, { leadMs })).rejects.toThrow('leadMs: expected an integer');
    });
  });
}
