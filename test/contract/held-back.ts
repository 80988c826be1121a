import { describe, expect, it } from 'vitest';
import { admitted, atMost, gapOf, MINUTE, refused, reserved, Trial, type LimiterFactory } from './trial.ts';

const messages = { category: 'messages' };
const alarms = { category: 'alarms' };
/** Messages one a minute, alarms 2 s apart. */
const categories = { messages: atMost(1, MINUTE), alarms: gapOf(2_000) };

/** Reservations that only their category holds back: nobody of another waits for them. */
export function heldBackContract(create: LimiterFactory): void {
  describe('an id that its category holds back', () => {
    /** A second between any two; `a` was sent, and `b` waits for its category. */
    const trialWithOneHeldBack = async (options = {}) => {
      const trial = new Trial(create, gapOf(1_000), { categories, ...options });
      await trial.ask('a', messages);
      expect(await trial.ask('b', messages)).toEqual(reserved(MINUTE, 'messages:1/1m', MINUTE));
      return trial;
    };

    it('lets those of other categories, and of none, go before it', async () => {
      const trial = await trialWithOneHeldBack();
      expect(await trial.ask('c')).toEqual(reserved(1_000, 'gap', 1_000));
      expect(await trial.ask('d', alarms)).toEqual(reserved(2_000, 'gap', 2_000));
      expect(await trial.ask('e', { category: 'letters' })).toEqual(reserved(3_000, 'gap', 3_000));
      for (const [id, more, at] of [['c', {}, 1_000] as const, ['d', alarms, 2_000] as const]) {
        trial.goTo(at);
        expect(await trial.ask(id, more)).toEqual(admitted(at));
      }
      trial.goTo(10_000);
      expect(await trial.ask('f')).toEqual(admitted(10_000));
    });

    it('has the next ones of its category behind it', async () => {
      const trial = await trialWithOneHeldBack();
      const next = [
        reserved(2 * MINUTE, 'messages:1/1m', 2 * MINUTE),
        reserved(3 * MINUTE, 'messages:1/1m', 3 * MINUTE),
      ];
      expect(await trial.askAll('cd', messages)).toEqual(next);
      expect(await trial.peek('e')).toEqual(reserved(1_000, 'gap', 1_000));
    });

    it('gets the same slot when it comes too early, and stays where it is', async () => {
      const trial = await trialWithOneHeldBack();
      trial.goTo(MINUTE - 121);
      expect(await trial.ask('b', messages)).toEqual(reserved(MINUTE, 'messages:1/1m', 121));
      expect(await trial.ask('b', { ...messages, maxWaitMs: 120 })).toEqual(refused('max-wait', 'messages:1/1m', 121));
      expect(await trial.ask('c')).toEqual(admitted(MINUTE - 121));
    });

    it.each([-120, 0, 900, 5_000])('goes at its slot, or when it comes: %i ms after it', async (lateMs) => {
      const trial = await trialWithOneHeldBack();
      trial.goTo(MINUTE + lateMs);
      const at = MINUTE + Math.max(0, lateMs);
      expect(await trial.ask('b', messages)).toEqual(admitted(at));
      expect(await trial.ask('b', messages)).toEqual(admitted(at, true));
      expect(await trial.slots()).toEqual({});
      expect(await trial.peek('c')).toMatchObject({ kind: 'reserved', at: at + 1_000, rule: 'gap' });
      expect(await trial.peek('c', messages)).toMatchObject({ kind: 'reserved', at: at + MINUTE });
    });

    it('joins the overall line where the recipient is busy at its slot, and goes', async () => {
      const trial = await trialWithOneHeldBack();
      trial.goTo(MINUTE - 500);
      expect(await trial.ask('x')).toEqual(admitted(MINUTE - 500));
      expect(await trial.ask('y')).toEqual(reserved(MINUTE + 500, 'gap', 1_000));
      trial.goTo(MINUTE);
      expect(await trial.ask('b', messages)).toEqual(reserved(MINUTE + 1_500, 'gap', 1_500));
      expect(await trial.ask('z')).toEqual(reserved(MINUTE + 2_500, 'gap', 2_500));
      for (const [id, more, at] of [
        ['y', {}, 500] as const,
        ['b', messages, 1_500] as const,
        ['z', {}, 2_500] as const,
      ]) {
        trial.goTo(MINUTE + at);
        expect(await trial.ask(id, more)).toEqual(admitted(MINUTE + at));
      }
      expect(await trial.peek('c', messages)).toMatchObject({ at: 2 * MINUTE + 1_500, rule: 'messages:1/1m' });
    });

    it('goes behind the overall line within the tolerance, without asking again', async () => {
      const trial = await trialWithOneHeldBack();
      await trial.ask('c', messages);
      trial.goTo(MINUTE - 100);
      await trial.ask('x');
      trial.goTo(MINUTE);
      expect(await trial.ask('b', messages)).toEqual(admitted(MINUTE + 900));
      trial.goTo(2 * MINUTE);
      expect(await trial.ask('c', messages)).toEqual(admitted(2 * MINUTE + 900));
    });

    it('never goes before those in the overall line, even if the sent slots allow it', async () => {
      const trial = await trialWithOneHeldBack();
      trial.goTo(MINUTE - 500);
      await trial.askAll('xy');
      await trial.refund('x');
      trial.goTo(MINUTE);
      expect(await trial.ask('b', messages)).toEqual(reserved(MINUTE + 1_500, 'gap', 1_500));
      expect(await trial.slots()).toEqual({ y: MINUTE + 500, b: MINUTE + 1_500 });
    });

    it('takes no slot from those in the overall line: it goes behind them', async () => {
      const trial = await trialWithOneHeldBack();
      trial.goTo(MINUTE - 900);
      expect(await trial.ask('x')).toEqual(admitted(MINUTE - 900));
      await trial.askAll('yz', {});
      trial.goTo(MINUTE);
      expect(await trial.ask('b', messages)).toEqual(reserved(MINUTE + 2_100, 'gap', 2_100));
      for (const [id, more, at] of [
        ['y', {}, 100] as const,
        ['z', {}, 1_100] as const,
        ['b', messages, 2_100] as const,
      ]) {
        trial.goTo(MINUTE + at);
        expect(await trial.ask(id, more)).toEqual(admitted(MINUTE + at));
      }
    });

    it('does not lose its place in its category when the recipient is busy at its slot', async () => {
      const trial = await trialWithOneHeldBack();
      await trial.askAll('cd', messages);
      trial.goTo(MINUTE - 50);
      await trial.ask('x');
      trial.goTo(MINUTE);
      expect(await trial.ask('b', messages)).toEqual(reserved(MINUTE + 950, 'gap', 950));
      trial.goTo(MINUTE + 950);
      expect(await trial.ask('b', messages)).toEqual(admitted(MINUTE + 950));
      trial.goTo(2 * MINUTE);
      expect(await trial.ask('c', messages)).toEqual(reserved(2 * MINUTE + 950, 'messages:1/1m', 950));
      expect(await trial.peek('y')).toEqual(reserved(2 * MINUTE + 1_950, 'gap', 1_950)); // it is in line now
      trial.goTo(2 * MINUTE + 950);
      expect(await trial.ask('c', messages)).toEqual(admitted(2 * MINUTE + 950));
    });

    it('goes behind all that its category holds back, if its category puts it off by more than a gap', async () => {
      const trial = await trialWithOneHeldBack();
      await trial.askAll('cd', messages);
      trial.goTo(MINUTE + 20_000);
      expect(await trial.ask('b', messages)).toEqual(admitted(MINUTE + 20_000));
      trial.goTo(2 * MINUTE);
      expect(await trial.ask('c', messages)).toEqual(reserved(4 * MINUTE, 'messages:1/1m', 2 * MINUTE));
      expect(await trial.peek('x')).toEqual(admitted(2 * MINUTE));
      expect(await trial.ask('e', messages)).toMatchObject({ kind: 'reserved', at: 5 * MINUTE });
      for (const [id, at] of Object.entries({ d: 3 * MINUTE, c: 4 * MINUTE, e: 5 * MINUTE })) {
        trial.goTo(at);
        expect(await trial.ask(id, messages)).toEqual(admitted(at));
      }
    });

    it('joins the overall line up to one gap behind its end, and no later', async () => {
      for (const [lateMs, at] of [
        [1_000, 2 * MINUTE + 1_000],
        [1_001, 4 * MINUTE],
      ] as const) {
        const trial = await trialWithOneHeldBack();
        await trial.askAll('cd', messages);
        trial.goTo(MINUTE + lateMs);
        expect(await trial.ask('b', messages)).toEqual(admitted(MINUTE + lateMs));
        trial.goTo(2 * MINUTE);
        expect(await trial.ask('c', messages)).toEqual(reserved(at, 'messages:1/1m', at - 2 * MINUTE));
      }
    });

    it('goes behind all of them, also if another one is in line', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 5_000) } });
      await trial.askAll('abcd', messages);
      expect(await trial.slots()).toEqual({ b: 5_000, c: 10_000, d: 15_000 });
      trial.goTo(4_000);
      await trial.askAll('opqrstuvwxyz');
      trial.goTo(5_000);
      expect(await trial.ask('b', messages)).toEqual(reserved(16_000, 'gap', 11_000)); // behind z
      trial.goTo(10_000);
      expect(await trial.ask('c', messages)).toEqual(reserved(21_000, 'messages:1/5s', 11_000)); // behind b and d
      expect(await trial.slots()).toMatchObject({ b: 16_000, d: 15_000, c: 21_000 });
      trial.goTo(15_000);
      expect(await trial.ask('d', messages)).toEqual(reserved(26_000, 'messages:1/5s', 11_000)); // behind b and c
      trial.goTo(16_000);
      expect(await trial.ask('b', messages)).toEqual(admitted(16_000));
      trial.goTo(21_000);
      expect(await trial.ask('c', messages)).toEqual(admitted(21_000));
    });

    it('is not overtaken by a newcomer of its category while the recipient is busy', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 5_000) } });
      await trial.askAll('ab', messages);
      await trial.askAll('cdefghij');
      expect(await trial.ask('k', messages)).toEqual(reserved(10_000, 'messages:1/5s', 10_000)); // held back, behind b
      trial.goTo(5_000);
      expect(await trial.ask('b', messages)).toMatchObject({ kind: 'reserved', at: 9_000 });
      expect(await trial.slots()).toMatchObject({ j: 8_000, b: 9_000, k: 10_000 });
    });

    it('waits in the overall line where that makes it wait as long', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: gapOf(1_000) } });
      await trial.askAll('ab', messages);
      expect(await trial.ask('c')).toEqual(reserved(2_000, 'gap', 2_000));
    });

    it('counts toward the longest queue of its category, and of no other', async () => {
      const trial = await trialWithOneHeldBack();
      const full = refused('max-pending', 'messages:1/1m', 2 * MINUTE);
      expect(await trial.ask('c', { ...messages, maxPending: 1 })).toEqual(full);
      expect(await trial.ask('b', { ...messages, maxPending: 0 })).toMatchObject({ kind: 'reserved', at: MINUTE });
      expect(await trial.ask('d', { ...alarms, maxPending: 1 })).toEqual(reserved(1_000, 'gap', 1_000));
      expect(await trial.ask('e', { maxPending: 1 })).toEqual(refused('max-pending', 'gap', 2_000));
      trial.goTo(MINUTE + 500);
      await trial.ask('f');
      expect(await trial.ask('b', { ...messages, maxPending: 0 })).toMatchObject({ kind: 'reserved' });
    });

    it('is refused without a trace, and keeps its slot', async () => {
      const trial = await trialWithOneHeldBack();
      expect(await trial.ask('c', { ...messages, maxWaitMs: MINUTE })).toMatchObject({ because: 'max-wait' });
      expect(await trial.slots()).toEqual({ b: MINUTE });
      trial.goTo(MINUTE - 50);
      await trial.ask('x');
      trial.goTo(MINUTE);
      expect(await trial.ask('b', { ...messages, maxWaitMs: 940 })).toEqual(refused('max-wait', 'gap', 950));
      expect(await trial.ask('y')).toEqual(reserved(MINUTE + 950, 'gap', 950));
      expect(await trial.slots()).toEqual({ b: MINUTE, y: MINUTE + 950 });
    });

    it('is cancelled in its category, and was not sent', async () => {
      const trial = await trialWithOneHeldBack();
      expect(await trial.refund('b', 'messages')).toBe(false);
      expect(await trial.cancel('b')).toBe(false);
      expect(await trial.cancel('b', 'alarms')).toBe(false);
      expect(await trial.cancel('b', 'messages')).toBe(true);
      expect(await trial.cancel('b', 'messages')).toBe(false);
      expect(await trial.ask('c', messages)).toEqual(reserved(MINUTE, 'messages:1/1m', MINUTE));
    });

    it('is next after a reset', async () => {
      const trial = await trialWithOneHeldBack();
      await trial.ask('c', messages);
      expect(await trial.reset()).toBe(true);
      expect(await trial.reset()).toBe(false);
      expect(await trial.slots()).toEqual({ b: 0, c: MINUTE });
      expect(await trial.ask('b', messages)).toEqual(admitted(0));
      expect(await trial.peek('x')).toEqual(reserved(1_000, 'gap', 1_000));
    });

    it('is a no-show a minute after its slot', async () => {
      const trial = await trialWithOneHeldBack();
      await trial.ask('c', messages);
      trial.goTo(2 * MINUTE + 1);
      expect(await trial.slots()).toEqual({ c: 2 * MINUTE });
      expect(await trial.ask('c', messages)).toEqual(admitted(2 * MINUTE + 1));
    });

    it('leaves its mark overall too, where blocked asks count', async () => {
      const trial = await trialWithOneHeldBack({ countBlocked: true });
      trial.goTo(500);
      expect(await trial.ask('c', messages)).toMatchObject({ kind: 'reserved', rule: 'messages:1/1m' });
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }, { at: 500 }]); // the mark of b decides nothing any more
    });
  });
}
