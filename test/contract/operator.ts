import { describe, expect, it } from 'vitest';
import type { Cause, Moved } from '../../src/limiter/limiter.ts';
import {
  admitted,
  atMost,
  gapOf,
  MINUTE,
  recipientId,
  refused,
  reserved,
  Trial,
  type LimiterFactory,
  BURSTS,
  POLICY,
  UNLIMITED,
  admittedWith,
} from './trial.ts';

type Move = Omit<Moved, keyof Cause>;

const DAY = 86_400_000;
const messages = { category: 'messages' };

/** Operators' acts bring service back: all that wait get their earliest places, and the caller gets those that have moved. */
export function oversightContract(create: LimiterFactory): void {
  /** Without the reason, which answers.ts looks at. */
  const since = ({ id, category, from, at }: Moved, { start }: Trial): Move => ({
    ...(id !== undefined && { id }),
    ...(category !== undefined && { category }),
    ...{ from: from - start, at: at - start },
  });
  const follower = (trial: Trial) => {
    const moves: Move[] = [];
    const onMoved = (moved: readonly Moved[]) => void moves.push(...moved.map((each) => since(each, trial)));
    return { moves, onMoved };
  };

  describe('those that wait, after an act of an operator', () => {
    it('are next when a long block ends early, and newcomers are served again', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abc');
      await trial.block(30 * DAY);
      await trial.ask('d');
      expect(await trial.slots()).toEqual({ b: 30 * DAY, c: 30 * DAY + 2_000, d: 30 * DAY + 4_000 });
      trial.goTo(MINUTE);
      const { moves, onMoved } = follower(trial);
      expect(await trial.limiter.unblock(recipientId, { onMoved })).toBe(true);
      expect(moves).toEqual([
        { id: 'b', from: 30 * DAY, at: MINUTE },
        { id: 'c', from: 30 * DAY + 2_000, at: MINUTE + 2_000 },
        { id: 'd', from: 30 * DAY + 4_000, at: MINUTE + 4_000 },
      ]);
      expect(await trial.ask('e', { maxWaitMs: 10_000 })).toEqual(reserved(MINUTE + 6_000, 'gap', 6_000));
      expect(await trial.ask('b')).toEqual(admitted(MINUTE));
    });

    it('are reported with their category, be they held back or in line', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, MINUTE) } });
      await trial.block(DAY);
      await trial.askAll('ab', messages);
      await trial.ask('c');
      await trial.ask('d', { category: 'letters' });
      const { moves, onMoved } = follower(trial);
      await trial.limiter.unblock(recipientId, { onMoved });
      expect(moves).toEqual([
        { id: 'a', category: 'messages', from: DAY, at: 0 },
        { id: 'c', from: DAY + 1_000, at: 1_000 },
        { id: 'd', from: DAY + 2_000, at: 2_000 },
        { id: 'b', category: 'messages', from: DAY + MINUTE, at: MINUTE },
      ]);
      expect(await trial.peek('e')).toEqual(reserved(3_000, 'gap', 3_000));
    });

    it('are reported without an id where only its digest is kept, on Redis', async () => {
      const trial = new Trial(create, gapOf(1_000));
      const id = 'ü'.repeat(200);
      await trial.ask('a');
      await trial.ask(id);
      const { moves, onMoved } = follower(trial);
      await trial.limiter.limit(recipientId, gapOf(500), { onMoved });
      const [{ id: movedId = id, ...rest } = {}, ...more] = moves;
      expect([movedId, rest, more]).toEqual([id, { from: 1_000, at: 500 }, []]);
    });

    it('are moved to now plus leadMs at the earliest', async () => {
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
    it.each([-1, 0.5, NaN])('is refused: %d', async (leadMs) => {
      const trial = new Trial(create);
      await expect(trial.limiter.unblock(recipientId, { leadMs })).rejects.toThrow('leadMs: expected an integer');
    });
  });
}

/** What an operator sees of a recipient. */
export function inspectContract(create: LimiterFactory): void {
  describe('inspect', () => {
    it('shows what was sent and what is reserved, the oldest first, and when a newcomer could go', async () => {
      const trial = new Trial(create);
      await trial.askAll('abcd');
      trial.goTo(1_900);
      await trial.ask('b');
      expect(await trial.inspect()).toEqual({
        now: 1_900,
        policy: POLICY,
        source: 'limiter',
        sent: [{ at: 0 }, { at: 2_000 }],
        reserved: [
          { at: 4_000, id: 'c' },
          { at: 10_000, id: 'd' },
        ],
        nextAt: 12_000,
        rule: '3/10s',
      });
    });

    it('names those that were sent, where ids are kept', async () => {
      const trial = new Trial(create, BURSTS, { keepIds: true });
      const ids = ['b', 'msg-8841', '9007199254740993', 'Ünï {c} ô dé\n', 'x'.repeat(300)];
      for (const [at, id] of ids.entries()) {
        trial.goTo(at);
        await trial.ask(id, { policy: UNLIMITED });
      }
      const { sent } = await trial.inspect();
      expect(sent).toMatchObject(ids.map((_, at) => ({ at })));
      expect(sent.slice(0, 3).map(({ id }) => id)).toEqual(ids.slice(0, 3));
      expect(await trial.refund('msg-8841')).toBe(true);
      expect(await trial.ask(ids[4] ?? '')).toMatchObject({ repeated: true });
    });

    it('shows the block until its end', async () => {
      const trial = new Trial(create);
      await trial.block(1_000, 'asked for “quiet”: até já 🙂');
      expect(await trial.inspect()).toMatchObject({
        block: { until: 1_000, reason: 'asked for “quiet”: até já 🙂' },
        nextAt: 1_000,
        rule: 'block',
      });
      trial.goTo(1_000);
      expect(await trial.inspect()).not.toHaveProperty('block');
      expect(await trial.inspect()).toMatchObject({ nextAt: 1_000, rule: 'gap' });
      expect(await trial.unblock()).toBe(false);
    });

    it('shows no slots that are older than the longest window in force', async () => {
      const trial = new Trial(create, atMost(5, 10_000));
      await trial.ask('a');
      trial.goTo(5_000);
      await trial.ask('b');
      trial.goTo(10_000);
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }, { at: 5_000 }]);
      trial.goTo(10_001);
      expect((await trial.inspect()).sent).toEqual([{ at: 5_000 }]);
      await trial.limit(gapOf(1_000));
      expect((await trial.inspect()).sent).toEqual([]);
    });

    it('shows reservations that are overdue by up to a minute', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(2_000 + MINUTE);
      expect((await trial.inspect()).reserved).toEqual([{ at: 2_000, id: 'b' }]);
      trial.goTo(2_001 + MINUTE);
      expect((await trial.inspect()).reserved).toEqual([]);
    });

    it('shows those that their category holds back by their slots, each once', async () => {
      const categories = { messages: gapOf(2_200), alarms: gapOf(2_500) };
      const trial = new Trial(create, gapOf(1_000), { categories });
      await trial.askAll('ab', { category: 'messages' });
      await trial.askAll('cd', { category: 'alarms' });
      await trial.ask('e');
      await trial.ask('f', { category: 'messages' });
      const { reserved, nextAt, rule } = await trial.inspect();
      expect(reserved).toEqual([
        { at: 1_000, id: 'c' },
        { at: 2_000, id: 'e' },
        { at: 2_200, id: 'b' },
        { at: 3_500, id: 'd' },
        { at: 4_400, id: 'f' },
      ]);
      expect([nextAt, rule]).toEqual([3_000, 'gap']);
    });
  });
}

/** Blocks: nobody goes before their end. */
export function blocksContract(create: LimiterFactory): void {
  describe('a block', () => {
    it('is the rule of the answer, unless a limit asks for a longer wait', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.block(2_000);
      expect(await trial.peek('b')).toEqual(reserved(2_000, 'block', 2_000));
      await trial.block(1_999);
      expect(await trial.peek('b')).toEqual(reserved(2_000, 'gap', 2_000));
    });

    it('does not count as a wait that is too long, unless the ask may not wait at all', async () => {
      const trial = new Trial(create);
      await trial.block(60_000);
      for (const ask of ['ask', 'peek'] as const) {
        expect(await trial[ask]('a', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'block', 60_000));
        expect(await trial[ask]('a', { maxWaitMs: 1, expiresInMs: 59_999 })).toEqual(
          refused('max-wait', 'block', 60_000),
        );
      }
      expect(await trial.peek('a', { maxWaitMs: 1, expiresInMs: 60_000 })).toEqual(reserved(60_000, 'block', 60_000));
      expect(await trial.ask('a', { maxWaitMs: 1 })).toEqual(reserved(60_000, 'block', 60_000));
      // What counts is the rest of the wait, and so the answer names the limit that makes it so long.
      expect(await trial.ask('b', { maxWaitMs: 1_999 })).toEqual(refused('max-wait', 'gap', 62_000));
      expect(await trial.ask('b', { maxWaitMs: 2_000 })).toEqual(reserved(62_000, 'block', 62_000));
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
  });

  describe('a block while slots are reserved', () => {
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
  });
}
