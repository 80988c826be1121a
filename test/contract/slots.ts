import { describe, expect, it } from 'vitest';
import { admitted, MINUTE, refused, reserved, Trial, type LimiterFactory, recipientId } from './trial.ts';

/** Who goes, who waits, and until when. */
export function slotsContract(create: LimiterFactory): void {
  describe('slots', () => {
    it('lets the first go at once', async () => {
      expect(await new Trial(create).ask('a')).toEqual(admitted(0));
    });

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

    it('admits at its slot whoever comes back up to the tolerance early or late', async () => {
      const trial = new Trial(create);
      await trial.askAll('abcd');
      trial.goTo(1_880);
      expect(await trial.ask('b')).toEqual(admitted(2_000));
      trial.goTo(5_800);
      expect(await trial.ask('c')).toEqual(admitted(5_800));
      trial.goTo(10_000);
      expect(await trial.ask('d')).toEqual(admitted(10_000));
    });

    it('answers the same slot to one that comes back too early, and changes nothing', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      trial.goTo(1_879);
      expect(await trial.ask('b')).toEqual(reserved(2_000, 'gap', 121));
      expect(await trial.ask('c')).toEqual(reserved(4_000, 'gap', 2_121));
      expect(await trial.slots()).toEqual({ b: 2_000, c: 4_000 });
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

    it('gives one that is too late to go a new slot at the tail', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      trial.goTo(4_000);
      await trial.ask('c');
      expect(await trial.ask('b')).toEqual(reserved(6_000, 'gap', 2_000));
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
    it('gets the same admission, and it counts once', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      trial.goTo(5);
      expect(await trial.ask('a')).toEqual(admitted(0, true));
      expect(await trial.ask('b')).toEqual(reserved(2_000, 'gap', 1_995));
    });

    it('with renew goes again now, where the rest allows it', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      trial.goTo(700);
      expect(await trial.ask('a', { renew: true })).toEqual(admitted(700));
      expect(await trial.ask('b')).toEqual(reserved(2_700, 'gap', 2_000));
    });

    it('with renew goes to the tail where others took what was next', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      trial.goTo(2_000);
      await trial.ask('b');
      expect(await trial.ask('a', { renew: true })).toEqual(reserved(6_000, 'gap', 4_000));
      expect(await trial.refund('a')).toBe(false);
    });

    it('with renew and nothing to renew is a plain ask', async () => {
      const trial = new Trial(create);
      expect(await trial.ask('a', { renew: true })).toEqual(admitted(0));
      expect(await trial.ask('b', { renew: true })).toEqual(reserved(2_000, 'gap', 2_000));
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

    it('of nothing still allows the few milliseconds of the tolerance', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      trial.goTo(1_880);
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(admitted(2_000));
    });

    it('leaves a reservation as it is when its owner is refused', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      expect(await trial.ask('b', { maxWaitMs: 10 })).toEqual(refused('max-wait', 'gap', 2_000));
      expect(await trial.ask('c')).toEqual(reserved(4_000, 'gap', 4_000));
    });

    it('leaves an overdue reservation as it is when its owner is refused', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      trial.goTo(4_000);
      await trial.ask('c');
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 2_000));
      trial.goTo(6_000);
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(admitted(6_000));
    });

    it('leaves an admission as it is when its renewal is refused', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(2_000);
      await trial.ask('b');
      expect(await trial.ask('a', { renew: true, maxWaitMs: 10 })).toEqual(refused('max-wait', 'gap', 2_000));
      expect(await trial.ask('a')).toEqual(admitted(0, true));
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

    it('of nobody lets go whoever need not wait, and nobody wait', async () => {
      const trial = new Trial(create);
      expect(await trial.ask('a', { maxPending: 0 })).toEqual(admitted(0));
      expect(await trial.ask('b', { maxPending: 0 })).toEqual(refused('max-pending', 'gap', 2_000));
      trial.goTo(1_880);
      expect(await trial.ask('b', { maxPending: 0 })).toEqual(admitted(2_000));
    });

    it('is no bound for one that has a reservation, be it early, late or too late', async () => {
      const trial = new Trial(create);
      await trial.askAll('abc');
      expect(await trial.ask('b', { maxPending: 0 })).toEqual(reserved(2_000, 'gap', 2_000));
      trial.goTo(4_000);
      await trial.ask('c');
      expect(await trial.ask('b', { maxPending: 0 })).toEqual(reserved(6_000, 'gap', 2_000));
    });

    it('is no bound for an admission that is renewed', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(2_000);
      await trial.ask('b');
      expect(await trial.ask('a', { renew: true, maxPending: 0 })).toEqual(reserved(4_000, 'gap', 2_000));
    });

    it('counts reservations that are overdue by up to two seconds, and no later ones', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(4_000);
      expect(await trial.peek('c', { maxPending: 1 })).toEqual(refused('max-pending', 'gap', 2_000));
      trial.goTo(4_001);
      await trial.ask('c');
      expect(await trial.ask('d', { maxPending: 1 })).toEqual(reserved(6_001, 'gap', 2_000));
    });

    it('is looked at after the longest wait', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      expect(await trial.ask('b', { maxWaitMs: 1_999, maxPending: 0 })).toEqual(refused('max-wait', 'gap', 2_000));
      expect(await trial.ask('b', { maxWaitMs: 2_000, maxPending: 0 })).toEqual(refused('max-pending', 'gap', 2_000));
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
    it('refunds a slot that was not used', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      expect(await trial.refund('a')).toBe(true);
      expect(await trial.refund('a')).toBe(false);
      expect(await trial.ask('b')).toEqual(admitted(0));
    });

    it('cancels a reservation, and no admission', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      expect(await trial.cancel('a')).toBe(false);
      expect(await trial.refund('b')).toBe(false);
      expect(await trial.cancel('b')).toBe(true);
      expect(await trial.cancel('b')).toBe(false);
      expect(await trial.ask('c')).toEqual(reserved(2_000, 'gap', 2_000));
    });

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
