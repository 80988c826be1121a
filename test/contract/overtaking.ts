import { describe, expect, it } from 'vitest';
import type { Follow } from '../../src/limiter/limiter.ts';
import {
  admitted,
  atMost,
  gapOf,
  passAll,
  quietIn,
  recipientId,
  reserved,
  Trial,
  type LimiterFactory,
} from './trial.ts';

const HOUR = 3_600_000;

/** Who goes before others, and who is not overtaken. */
export function overtakingContract(create: LimiterFactory): void {
  /** `a` was sent, and the others wait 2 s apart. */
  const lineOf = async (ids: string, overtaking = { mostTimes: 20, mostMs: 600_000 }): Promise<Trial> => {
    const trial = new Trial(create, gapOf(2_000), { overtaking });
    await trial.askAll(ids);
    return trial;
  };

  describe('a reservation that goes first', () => {
    it('gets the first slot of the others, and each of them the next one', async () => {
      const trial = await lineOf('abcd');
      const moves: object[] = [];
      const onMoved: Follow['onMoved'] = (moved) =>
        void moves.push(...moved.map(({ id, from, at }) => ({ id, from: from - trial.start, at: at - trial.start })));
      await trial.askFirst('h', {}, { onMoved });
      expect(await trial.slots()).toEqual({ h: 2_000, b: 4_000, c: 6_000, d: 8_000 });
      expect(moves).toEqual([
        { id: 'h', from: 8_000, at: 2_000 },
        { id: 'b', from: 2_000, at: 4_000 },
        { id: 'c', from: 4_000, at: 6_000 },
        { id: 'd', from: 6_000, at: 8_000 },
      ]);
      expect(await trial.ask('h')).toEqual(reserved(2_000, 'gap', 2_000));
      expect(await trial.ask('b')).toEqual(reserved(4_000, 'gap', 4_000));
      expect(await trial.ask('e')).toEqual(reserved(10_000, 'gap', 10_000));
      trial.goTo(2_000);
      expect(await trial.ask('h')).toEqual(admitted(2_000));
    });

    it('waits behind all others until the line moves up, and is admitted at once where nobody waits', async () => {
      const trial = await lineOf('ab');
      expect(await trial.ask('h', { goesFirst: true })).toEqual(reserved(4_000, 'gap', 4_000));
      await trial.limiter.moveUp(recipientId);
      expect(await trial.slots()).toEqual({ h: 2_000, b: 4_000 });
      const empty = new Trial(create, gapOf(2_000));
      expect(await empty.ask('h', { goesFirst: true })).toEqual(admitted(0));
      expect((await empty.limiter.inspect(recipientId)).reserved).toEqual([]);
    });

    it('stays behind those that go first too, whichever of them moved before', async () => {
      const trial = await lineOf('abc');
      await trial.ask('g', { goesFirst: true });
      await trial.askFirst('h');
      expect(await trial.slots()).toEqual({ g: 2_000, h: 4_000, b: 6_000, c: 8_000 });
      await trial.ask('d');
      await trial.askFirst('k');
      expect(await trial.slots()).toEqual({ g: 2_000, h: 4_000, k: 6_000, b: 8_000, c: 10_000, d: 12_000 });
    });

    it('overtakes nobody more often than is allowed, and is then behind it', async () => {
      const trial = await lineOf('abc', { mostTimes: 2, mostMs: 600_000 });
      for (const id of 'ghk') await trial.askFirst(id);
      expect(await trial.slots()).toEqual({ g: 2_000, h: 4_000, b: 6_000, c: 8_000, k: 10_000 });
      const { reserved: seen } = await trial.limiter.inspect(recipientId);
      expect(seen.map(({ id, goesBefore, overtaken }) => [id, goesBefore, overtaken])).toEqual([
        ['g', 2, undefined],
        ['h', 2, undefined],
        ['b', undefined, 2],
        ['c', undefined, 2],
        ['k', 0, undefined],
      ]);
      await trial.ask('d');
      await trial.askFirst('m');
      expect(await trial.slots()).toMatchObject({ k: 10_000, m: 12_000, d: 14_000 });
    });

    it('counts several that go first at once one by one', async () => {
      const trial = await lineOf('abc', { mostTimes: 2, mostMs: 600_000 });
      for (const id of 'gh') await trial.ask(id, { goesFirst: true });
      await trial.askFirst('k');
      expect(await trial.slots()).toEqual({ g: 2_000, h: 4_000, b: 6_000, c: 8_000, k: 10_000 });
    });

    it('overtakes nobody who is late enough by overtakings', async () => {
      const trial = await lineOf('abc', { mostTimes: 20, mostMs: 3_000 });
      for (const id of 'gh') await trial.askFirst(id);
      expect(await trial.slots()).toEqual({ g: 2_000, h: 4_000, b: 6_000, c: 8_000 });
      await trial.askFirst('k');
      expect(await trial.slots()).toMatchObject({ b: 6_000, c: 8_000, k: 10_000 });
    });

    it('counts also how late several that go first at once make one', async () => {
      const trial = new Trial(create, { rules: [{ max: 1, perMs: HOUR }], minGapMs: 0 });
      await trial.askAll('ab');
      for (const id of 'ghk') await trial.ask(id, { goesFirst: true });
      await trial.limiter.moveUp(recipientId);
      expect(await trial.slots()).toEqual({ g: HOUR, b: 2 * HOUR, h: 3 * HOUR, k: 4 * HOUR });
    });

    it('does not overtake one that is about to come', async () => {
      const trial = await lineOf('abcd');
      trial.goTo(1_751);
      await trial.askFirst('h');
      expect(await trial.slots()).toEqual({ b: 2_000, h: 4_000, c: 6_000, d: 8_000 });
    });

    it('goes behind all where nobody may be overtaken', async () => {
      const trial = await lineOf('abc', { mostTimes: 0, mostMs: 0 });
      await trial.askFirst('h');
      expect(await trial.slots()).toEqual({ b: 2_000, c: 4_000, h: 6_000 });
      expect((await trial.limiter.inspect(recipientId)).reserved.at(-1)?.goesBefore).toBeUndefined();
    });

    it('is no such one any more when its id is used again', async () => {
      const trial = await lineOf('ab');
      await trial.askFirst('h');
      expect(await trial.cancel('h')).toBe(true);
      await trial.askAll('ch');
      await trial.limiter.moveUp(recipientId);
      expect(await trial.slots()).toEqual({ b: 2_000, c: 4_000, h: 6_000 });
    });
  });

  describe('a reservation that goes first, with categories', () => {
    const categories = { alarms: gapOf(5_000), letters: gapOf(1_000) };
    const trialOf = () => new Trial(create, gapOf(2_000), { categories });

    it('goes before nobody whose slot comes before the quiet time ends, in which it waits', async () => {
      const alarms = { ...atMost(9, 60_000), exempt: ['quietHours'] } as const;
      const until = Math.ceil(Date.now() / HOUR) * HOUR + 8 * HOUR;
      const quietHours = quietIn({ from: until - 10 * HOUR, until });
      const trial = new Trial(create, gapOf(2_000), { categories: { alarms }, quietHours });
      await trial.askAll('abc', { category: 'alarms' });
      await trial.ask('x');
      await trial.askFirst('h');
      const { h, x, ...others } = await trial.slots();
      expect(others).toEqual({ b: 2_000, c: 4_000 });
      expect((x ?? 0) - (h ?? 0)).toBe(2_000);
      expect((await trial.limiter.inspect(recipientId)).reserved.map(({ overtaken }) => overtaken)).toEqual([
        ...[undefined, undefined, undefined],
        1,
      ]);
    });

    it('goes before nobody whose slot comes before its category has room, and everybody comes twice', async () => {
      const trial = new Trial(create, gapOf(2_000), { categories: { letters: gapOf(10_000) } });
      await trial.ask('1', { category: 'letters' });
      await trial.askAll('abcdefg');
      await trial.ask('2', { category: 'letters' });
      await trial.askAll('ij');
      await trial.askFirst('h', { category: 'letters' });
      await trial.askFirst('k', { category: 'letters' });
      const jobs = Array.from('abcdhefg2ijk').map((id) => ({
        id,
        asksAt: 1,
        ...('2hk'.includes(id) && { category: 'letters' }),
      }));
      const passed = await passAll(trial, jobs);
      expect(passed.slice(0, 5).map(({ id, at }) => [id, at])).toEqual([
        ['a', 2_000],
        ['b', 4_000],
        ['c', 6_000],
        ['d', 8_000],
        ['h', 10_000],
      ]);
      expect(passed.map(({ asks }) => asks)).toEqual(passed.map(() => 2));
    });

    it('goes before those that its category holds back, and no others', async () => {
      const trial = trialOf();
      for (const id of 'abc') await trial.ask(id, { category: 'alarms' });
      await trial.ask('x');
      expect(await trial.slots()).toEqual({ b: 5_000, c: 10_000, x: 2_000 });
      await trial.askFirst('h', { category: 'alarms' });
      expect(await trial.slots()).toEqual({ x: 2_000, h: 5_000, b: 10_000, c: 15_000 });
      const { reserved: seen } = await trial.limiter.inspect(recipientId);
      expect(seen.map(({ id, overtaken }) => [id, overtaken])).toEqual([
        ['x', undefined],
        ['h', undefined],
        ['b', 1],
        ['c', 1],
      ]);
    });
  });
}
