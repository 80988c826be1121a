import { describe, expect, it } from 'vitest';
import { admitted, recipientId, reserved, Trial, type LimiterFactory } from './trial.ts';

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
