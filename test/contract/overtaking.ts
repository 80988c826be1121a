import { describe, expect, it } from 'vitest';
import type { Moved, Overtaking } from '../../src/limiter/limiter.ts';
import { admitted, gapOf, passAll, recipientId, reserved, Trial, type LimiterFactory } from './trial.ts';

type Shift = Pick<Moved, 'id' | 'from' | 'at'>;

const DAY = 86_400_000;

/** Who is moved before others, and who is not overtaken. */
export function overtakingContract(create: LimiterFactory): void {
  /** `a` was sent, and the others wait 2 s apart. */
  const lineOf = async (ids: string): Promise<Trial> => {
    const trial = new Trial(create, gapOf(2_000));
    await trial.askAll(ids);
    return trial;
  };
  const follower = (trial: Trial) => {
    const moves: Shift[] = [];
    const onMoved: Overtaking['onMoved'] = (moved) =>
      void moves.push(
        ...moved.map(({ id = '', from, at }) => ({ id, from: from - trial.start, at: at - trial.start })),
      );
    return { moves, onMoved };
  };

  describe('a reservation that overtakes others', () => {
    it('gets the first of their slots, and each of them the next one', async () => {
      const trial = await lineOf('abcdh');
      const { moves, onMoved } = follower(trial);
      expect(await trial.overtake('h', { onMoved })).toBe(3);
      expect(await trial.slots()).toEqual({ h: 2_000, b: 4_000, c: 6_000, d: 8_000 });
      expect(moves).toEqual([
        { id: 'd', from: 6_000, at: 8_000 },
        { id: 'c', from: 4_000, at: 6_000 },
        { id: 'b', from: 2_000, at: 4_000 },
        { id: 'h', from: 8_000, at: 2_000 },
      ]);
      expect(await trial.ask('h')).toEqual(reserved(2_000, 'gap', 2_000));
      expect(await trial.ask('b')).toEqual(reserved(4_000, 'gap', 4_000));
      expect(await trial.ask('e')).toEqual(reserved(10_000, 'gap', 10_000));
      trial.goTo(2_000);
      expect(await trial.ask('h')).toEqual(admitted(2_000));
    });

    it('stays behind those that have overtaken before, and is not overtaken itself', async () => {
      const trial = await lineOf('abcgh');
      expect([await trial.overtake('g'), await trial.overtake('h')]).toEqual([2, 2]);
      expect(await trial.slots()).toEqual({ g: 2_000, h: 4_000, b: 6_000, c: 8_000 });
      expect([await trial.overtake('g'), await trial.overtake('h')]).toEqual([0, 0]);
      await trial.askAll('dk');
      expect(await trial.overtake('k')).toBe(3);
      expect(await trial.slots()).toEqual({ g: 2_000, h: 4_000, k: 6_000, b: 8_000, c: 10_000, d: 12_000 });
    });

    it('overtakes nobody more often than is allowed, and is then behind it', async () => {
      const trial = await lineOf('abc');
      for (const id of 'ghk') {
        await trial.ask(id);
        await trial.overtake(id, { mostTimes: 2 });
      }
      expect(await trial.slots()).toEqual({ g: 2_000, h: 4_000, b: 6_000, c: 8_000, k: 10_000 });
      const { reserved: seen } = await trial.limiter.inspect(recipientId);
      expect(seen.map(({ id, overtaken }) => [id, overtaken])).toEqual([
        ['g', undefined],
        ['h', undefined],
        ['b', 2],
        ['c', 2],
        ['k', undefined],
      ]);
      await trial.askAll('dm');
      expect(await trial.overtake('m', { mostTimes: 2 })).toBe(1);
      expect(await trial.slots()).toMatchObject({ k: 10_000, m: 12_000, d: 14_000 });
    });

    it('makes nobody later than is allowed, by all overtakings together', async () => {
      const trial = await lineOf('abc');
      for (const id of 'gh') {
        await trial.ask(id);
        await trial.overtake(id, { mostMs: 3_999 });
      }
      expect(await trial.slots()).toEqual({ g: 2_000, b: 4_000, c: 6_000, h: 8_000 });
      await trial.ask('k');
      expect(await trial.overtake('k', { mostMs: 4_000 })).toBe(0); // h has overtaken nobody, but is not overtaken
    });

    it('does not overtake one that is about to come', async () => {
      const trial = await lineOf('abcdh');
      trial.goTo(1_500);
      expect(await trial.overtake('h', { leadMs: 501 })).toBe(2);
      expect(await trial.slots()).toEqual({ b: 2_000, h: 4_000, c: 6_000, d: 8_000 });
    });

    it('does nothing where it has no reservation, or is the first', async () => {
      const trial = await lineOf('ab');
      const before = await trial.inspect();
      expect([await trial.overtake('x'), await trial.overtake('a'), await trial.overtake('b')]).toEqual([0, 0, 0]);
      expect(await trial.inspect()).toEqual(before);
    });

    it('keeps its place when an operator moves the line', async () => {
      const trial = await lineOf('abch');
      await trial.overtake('h');
      await trial.block(DAY);
      expect(await trial.slots()).toEqual({ h: DAY, b: DAY + 2_000, c: DAY + 4_000 });
      await trial.ask('k');
      expect(await trial.overtake('k')).toBe(2);
      expect(await trial.slots()).toEqual({ h: DAY, k: DAY + 2_000, b: DAY + 4_000, c: DAY + 6_000 });
      await trial.unblock();
      expect(await trial.slots()).toEqual({ h: 2_000, k: 4_000, b: 6_000, c: 8_000 });
    });

    it('lets everybody come twice, in order, without a gap that is broken', async () => {
      const trial = await lineOf('abcdefgh');
      await trial.overtake('h');
      trial.goTo(1);
      const ids = Array.from('hbcdefg');
      const passed = await passAll(
        trial,
        ids.map((id) => ({ id, asksAt: 1 })),
      );
      expect(passed.map(({ id, at, asks }) => [id, at, asks])).toEqual(
        ids.map((id, index) => [id, 2_000 * (index + 1), 2]),
      );
    });

    it.each([
      [{ mostTimes: -1 }, 'mostTimes: expected an integer of 0 or more, found -1'],
      [{ mostMs: 0.5 }, 'mostMs: expected an integer of 0 or more, found 0.5'],
      [{ most: 1 }, 'most: expected no such field'],
    ])('refuses %j', async (options, message) => {
      const trial = await lineOf('ab');
      await expect(trial.overtake('b', options as Overtaking)).rejects.toThrow(message);
    });
  });

  describe('a reservation that overtakes others in categories', () => {
    const categories = { alarms: gapOf(5_000), letters: gapOf(1_000) };
    const trialOf = () => new Trial(create, gapOf(2_000), { categories });

    it('leaves every limit of theirs kept', async () => {
      const trial = trialOf();
      await trial.ask('a', { category: 'alarms' });
      await trial.askAll('bc');
      await trial.ask('d', { category: 'alarms' });
      await trial.ask('e');
      await trial.ask('h');
      expect(await trial.slots()).toEqual({ b: 2_000, c: 4_000, d: 6_000, e: 8_000, h: 10_000 });
      expect(await trial.overtake('h')).toBe(4);
      expect(await trial.slots()).toEqual({ h: 2_000, b: 4_000, c: 6_000, d: 8_000, e: 10_000 });
      await trial.ask('f', { category: 'alarms' });
      expect(await trial.slots()).toMatchObject({ f: 13_000 });
      await trial.ask('k', { category: 'letters' });
      expect(await trial.overtake('k', {}, 'letters')).toBe(4);
      expect(await trial.slots()).toEqual({
        ...{ h: 2_000, k: 4_000, b: 6_000, c: 8_000, d: 10_000, e: 12_000 },
        f: 15_000,
      });
      trial.goTo(3);
      const jobs = Array.from('hkbcdef').map((id) => ({
        id,
        asksAt: 3,
        ...('df'.includes(id) && { category: 'alarms' }),
        ...(id === 'k' && { category: 'letters' }),
      }));
      const passed = await passAll(trial, jobs);
      const alarms = passed.filter(({ category }) => category === 'alarms').map(({ at }) => at);
      expect(Math.min(...alarms.slice(1).map((at, index) => at - (alarms[index] ?? 0)))).toBeGreaterThanOrEqual(5_000);
    });

    it('goes before those that its category holds back, and no others', async () => {
      const trial = trialOf();
      for (const id of 'abch') await trial.ask(id, { category: 'alarms' });
      await trial.ask('x');
      expect(await trial.slots()).toEqual({ b: 5_000, c: 10_000, h: 15_000, x: 2_000 });
      expect(await trial.overtake('h', {}, 'alarms')).toBe(2);
      expect(await trial.slots()).toEqual({ h: 5_000, b: 10_000, c: 15_000, x: 2_000 });
    });
  });
}
