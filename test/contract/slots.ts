import { describe, expect, it } from 'vitest';
import {
  admitted,
  MINUTE,
  refused,
  reserved,
  Trial,
  type LimiterFactory,
  recipientId,
  atMost,
  gapOf,
} from './trial.ts';

/** Who goes, who waits, and until when. */
export function slotsContract(create: LimiterFactory): void {
  describe('slots', () => {
    it('reserves a slot for each that is blocked, in the order of asking, and names the rule that decides', async () => {
      const trial = new Trial(create);
      expect(await trial.askAll('abcde')).toEqual([
        admitted(0),
        reserved(2_000, 'gap', 2_000),
        reserved(4_000, 'gap', 4_000),
        reserved(10_000, '3/10s', 10_000),
        reserved(12_000, '3/10s', 12_000),
      ]);
    });

    it('lets no newcomer overtake a reservation, be it overdue by up to two seconds', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(4_000);
      expect(await trial.ask('newcomer')).toEqual(reserved(6_000, 'gap', 2_000));
      expect(await trial.ask('b')).toEqual(admitted(4_000));
      trial.goTo(5_900);
      expect(await trial.ask('newcomer')).toEqual(admitted(6_000));
    });

    it('waits for a no-show no longer than two seconds, and honours it when it comes after all', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(4_001);
      expect(await trial.ask('newcomer')).toEqual(admitted(4_001));
      trial.goTo(7_000);
      expect(await trial.ask('b')).toEqual(admitted(7_000));
    });

    it('forgets a no-show after a minute', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(2_000 + MINUTE + 1);
      await trial.ask('c');
      expect(await trial.ask('b')).toEqual(reserved(4_001 + MINUTE, 'gap', 2_000));
    });
  });

  describe('asking again', () => {
    it('with renew goes to the tail where others took what was next', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      trial.goTo(2_000);
      await trial.ask('b');
      expect(await trial.ask('a', { renew: true, maxPending: 0 })).toEqual(reserved(6_000, 'gap', 4_000));
      expect(await trial.refund('a')).toBe(false);
    });
  });

  describe('a longest wait', () => {
    it('is refused beyond it without a trace', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      expect(await trial.ask('b', { maxWaitMs: 1_999 })).toEqual(refused('max-wait', 'gap', 2_000));
      expect(await trial.cancel('b')).toBe(false);
      expect(await trial.ask('c', { maxWaitMs: 2_000 })).toEqual(reserved(2_000, 'gap', 2_000));
    });
  });

  describe('a longest queue', () => {
    it('is refused beyond it without a trace, with the wait that would have been', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      expect(await trial.ask('d', { maxPending: 2 })).toEqual(refused('max-pending', '3/10s', 10_000));
      expect(await trial.cancel('d')).toBe(false);
      expect(await trial.ask('d', { maxPending: 3 })).toEqual(reserved(10_000, '3/10s', 10_000));
    });
  });

  describe('a clock that steps', () => {
    it('back by a little keeps what was sent', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      trial.goTo(-5_000);
      expect(await trial.ask('b')).toEqual(reserved(2_000, 'gap', 7_000));
    });

    it('back by more than the longest window and a minute drops what lies ahead, once it may be written', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(-10_000 - MINUTE - 1);
      expect(await trial.peek('c')).toEqual(admitted(-10_000 - MINUTE - 1));
      await trial.ask('c');
      expect(await trial.ask('b')).toEqual(reserved(-8_001 - MINUTE, 'gap', 2_000));
    });
  });
}

/** Giving slots back. */
export function undoingContract(create: LimiterFactory): void {
  describe('giving back', () => {
    it('resets one recipient and no other', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.limiter.admit({ recipientId: 'teacher-43', id: 'a' });
      expect(await trial.reset()).toBe(true);
      expect(await trial.reset()).toBe(false);
      expect(await trial.ask('c')).toEqual(admitted(0));
      expect(await trial.limiter.admit({ recipientId: 'teacher-43', id: 'b' })).toMatchObject({ kind: 'reserved' });
    });

    it('acts on the recipient and the id that are named, and on no other', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      const elsewhere = { recipientId: 'teacher-43', id: 'a' };
      expect(await trial.limiter.refund(elsewhere)).toBe(false);
      expect(await trial.limiter.cancel(elsewhere)).toBe(false);
      expect(await trial.limiter.refund({ recipientId, id: 'A' })).toBe(false);
      expect(await trial.ask('a')).toEqual(admitted(0, true));
    });
  });
}

/** With a gap of 2 s an id may come 1.8 s late. */
const GAP = gapOf(2_000);

/** Who is awake is sent, if the sent slots allow it within the tolerance; else it goes behind all others. */
export function placesContract(create: LimiterFactory): void {
  /** Each asks at its instant; what is expected: the instant of its admission, or else its new slot. */
  async function expectTurns(
    trial: Trial,
    turns: readonly (readonly [id: string, asksAt: number, what: 'goes' | 'waits', at: number])[],
  ): Promise<void> {
    for (const [id, asksAt, what, at] of turns) {
      trial.goTo(asksAt);
      expect(await trial.ask(id)).toEqual(what === 'goes' ? admitted(at) : reserved(at, 'gap', at - asksAt));
    }
  }

  describe('one that comes late', () => {
    it('goes where the sent slots allow it within the tolerance, and else behind all others', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abcd');
      await expectTurns(trial, [['c', 4_000, 'goes', 4_000]]);
      trial.goTo(4_199);
      expect(await trial.peek('b')).toEqual(reserved(8_000, 'gap', 3_801)); // behind d
      await expectTurns(trial, [['b', 4_200, 'goes', 6_000]]);
    });

    it('makes the one go behind all others that it would make late by more than the tolerance, and nobody else', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abcde');
      await expectTurns(trial, [
        ['b', 3_801, 'goes', 3_801],
        ['c', 4_000, 'waits', 10_000],
        ['d', 6_000, 'goes', 6_000],
        ['e', 8_000, 'goes', 8_000],
        ['c', 10_000, 'goes', 10_000],
      ]);
    });
  });

  describe('the time that a caller needs until it can send', () => {
    it('is what the tolerance counts from', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abc');
      trial.goTo(4_000);
      await trial.ask('c');
      expect(await trial.peek('b', { leadMs: 199 })).toEqual(reserved(6_000, 'gap', 2_000));
      expect(await trial.ask('b', { leadMs: 200 })).toEqual(admitted(6_000));
    });

    it('is left to one that its category held back, behind the overall line', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, MINUTE) } });
      const messages = { category: 'messages' };
      await trial.askAll('ab', messages);
      trial.goTo(MINUTE);
      expect(await trial.peek('b', { ...messages, leadMs: 300 })).toEqual(admitted(MINUTE + 300));
      trial.goTo(MINUTE + 100);
      await trial.ask('x');
      expect(await trial.ask('b', { ...messages, leadMs: 300 })).toEqual(admitted(MINUTE + 1_100));
    });

    it('is left to an admission that is renewed, in whole milliseconds, and is no wait', async () => {
      const trial = new Trial(create, GAP);
      await trial.ask('a');
      trial.goTo(700);
      expect(await trial.ask('a', { renew: true, leadMs: 150.4, maxWaitMs: 0 })).toEqual(admitted(851));
    });
  });
}
