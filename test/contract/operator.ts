import { describe, expect, it } from 'vitest';
import type { Moved } from '../../src/limiter/limiter.ts';
import {
  admitted,
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
} from './trial.ts';

type Move = Pick<Moved, 'id' | 'from' | 'at'>;

const DAY = 86_400_000;

/** Operators' acts bring service back: all that wait get their earliest places, and the caller gets those that have moved. */
export function oversightContract(create: LimiterFactory): void {
  const since = ({ id, from, at }: Moved, { start }: Trial): Move => ({
    ...(id !== undefined && { id }),
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
  });
}

/** Blocks: nobody goes before their end. */
export function blocksContract(create: LimiterFactory): void {
  describe('a block', () => {
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
      expect(await trial.ask('a')).toEqual(admitted(60_000));
    });
  });
}
