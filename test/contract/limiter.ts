import { beforeEach, describe, expect, it } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { Admission, Limiter } from '../../src/limiter/limiter.ts';

/** A limiter on a clock that stands still until the test moves it. */
export interface LimiterUnderTest {
  readonly limiter: Limiter;
  /** Whole epoch milliseconds on the limiter's clock. */
  now(): number;
  /** Moves the clock; back with a negative number. */
  advance(ms: number): void;
}
export type LimiterFactory = (policy: Policy) => LimiterUnderTest;

const MINUTE = 60_000;
/** 3 in 10 s with 2 s between: the gap decides first, then the window. Its tolerance is 150 ms. */
const POLICY: Policy = { rules: [{ max: 3, perMs: 10_000 }], minGapMs: 2_000 };

/** What every limiter keeps: the promise of docs/limiter.md. */
export function limiterContract(name: string, create: LimiterFactory): void {
  describe(`${name}: the promise of a limiter`, () => {
    let limiter: Limiter;
    let clock: LimiterUnderTest;
    let start: number;
    beforeEach(() => {
      use(POLICY);
    });

    function use(policy: Policy): void {
      clock = create(policy);
      limiter = clock.limiter;
      start = clock.now();
    }
    const ask = (id: string, more = {}) => limiter.admit({ recipientId: 'teacher-42', id, ...more });
    const peek = (id: string, more = {}) => limiter.peek({ recipientId: 'teacher-42', id, ...more });
    const goTo = (at: number) => {
      clock.advance(start + at - clock.now());
    };
    /** An answer with its instant counted from the start of the test. */
    const told = (answer: Admission) => ({ ...answer, ...('at' in answer && { at: answer.at - start }) });
    const admitted = (at: number, rule: string, repeated = false) =>
      expect.objectContaining({ kind: 'admitted', at, rule, repeated }) as unknown;
    const reserved = (at: number, rule: string, waitMs: number) => ({ kind: 'reserved', at, rule, waitMs });

    describe('slots', () => {
      it('lets the first go at once', async () => {
        expect(told(await ask('a'))).toEqual(admitted(0, 'gap'));
      });

      it('reserves a slot for each that is blocked, in the order of asking, and names the rule that decides', async () => {
        await ask('a');
        expect(told(await ask('b'))).toEqual(reserved(2_000, 'gap', 2_000));
        expect(told(await ask('c'))).toEqual(reserved(4_000, 'gap', 4_000));
        expect(told(await ask('d'))).toEqual(reserved(10_000, '3/10s', 10_000));
        expect(told(await ask('e'))).toEqual(reserved(12_000, 'gap', 12_000));
      });

      it('admits at its slot whoever comes back up to the tolerance early or late', async () => {
        for (const id of ['a', 'b', 'c', 'd']) await ask(id);
        goTo(1_850);
        expect(told(await ask('b'))).toEqual(admitted(2_000, 'gap'));
        goTo(4_150);
        expect(told(await ask('c'))).toEqual(admitted(4_150, 'gap'));
        goTo(10_000);
        expect(told(await ask('d'))).toEqual(admitted(10_000, '3/10s'));
      });

      it('tells the same slot to one that comes back too early', async () => {
        for (const id of ['a', 'b', 'c']) await ask(id);
        goTo(1_849);
        expect(told(await ask('b'))).toMatchObject({ kind: 'reserved', at: 2_000, waitMs: 151 });
        expect(told(await ask('c'))).toMatchObject({ kind: 'reserved', at: 4_000, waitMs: 2_151 });
      });

      it('lets no newcomer overtake a reservation, be it overdue by up to a second', async () => {
        for (const id of ['a', 'b']) await ask(id);
        goTo(3_000);
        expect(told(await ask('newcomer'))).toEqual(reserved(4_850, 'gap', 1_850));
        expect(told(await ask('b'))).toEqual(admitted(3_000, 'gap'));
        goTo(4_850);
        expect(told(await ask('newcomer'))).toEqual(admitted(5_000, 'gap'));
      });

      it('waits for a no-show no longer than a second, and honours it when it comes after all', async () => {
        for (const id of ['a', 'b']) await ask(id);
        goTo(3_001);
        expect(told(await ask('newcomer'))).toEqual(admitted(3_001, 'gap'));
        goTo(6_000);
        expect(told(await ask('b'))).toEqual(admitted(6_000, 'gap'));
      });

      it('gives one that is too late to go a new slot at the tail', async () => {
        for (const id of ['a', 'b', 'c']) await ask(id);
        goTo(4_000);
        await ask('c');
        expect(told(await ask('b'))).toEqual(reserved(6_000, 'gap', 2_000));
      });

      it('forgets a no-show after a minute', async () => {
        for (const id of ['a', 'b']) await ask(id);
        goTo(2_000 + MINUTE + 1);
        await ask('c');
        expect(told(await ask('b'))).toEqual(reserved(4_001 + MINUTE, 'gap', 2_000));
      });
    });

    describe('asking again', () => {
      it('is told the same admission, and it counts once', async () => {
        await ask('a');
        goTo(5);
        expect(told(await ask('a'))).toEqual(admitted(0, 'gap', true));
        expect(told(await ask('b'))).toEqual(reserved(2_000, 'gap', 1_995));
      });

      it('with renew goes again now, where the rest allows it', async () => {
        await ask('a');
        goTo(700);
        expect(told(await ask('a', { renew: true }))).toEqual(admitted(700, 'gap'));
        expect(told(await ask('b'))).toEqual(reserved(2_700, 'gap', 2_000));
      });

      it('with renew goes to the tail where others took what was next', async () => {
        for (const id of ['a', 'b', 'c']) await ask(id);
        goTo(2_000);
        await ask('b');
        expect(told(await ask('a', { renew: true }))).toEqual(reserved(6_000, 'gap', 4_000));
        expect(await limiter.refund('teacher-42', 'a')).toBe(false);
      });

      it('with renew and nothing to renew is a plain ask', async () => {
        expect(told(await ask('a', { renew: true }))).toEqual(admitted(0, 'gap'));
        expect(told(await ask('b', { renew: true }))).toEqual(reserved(2_000, 'gap', 2_000));
      });
    });

    describe('a longest wait', () => {
      it('is refused beyond it without a trace', async () => {
        await ask('a');
        expect(await ask('b', { maxWaitMs: 1_999 })).toEqual({ kind: 'refused', rule: 'gap', waitMs: 2_000 });
        expect(await limiter.cancel('teacher-42', 'b')).toBe(false);
        expect(told(await ask('c', { maxWaitMs: 2_000 }))).toEqual(reserved(2_000, 'gap', 2_000));
      });

      it('of nothing still allows the few milliseconds of the tolerance', async () => {
        await ask('a');
        goTo(1_850);
        expect(told(await ask('b', { maxWaitMs: 0 }))).toEqual(admitted(2_000, 'gap'));
      });

      it('leaves a reservation as it is when its owner is refused', async () => {
        for (const id of ['a', 'b']) await ask(id);
        expect(await ask('b', { maxWaitMs: 10 })).toEqual({ kind: 'refused', rule: 'gap', waitMs: 2_000 });
        expect(told(await ask('c'))).toEqual(reserved(4_000, 'gap', 4_000));
      });

      it('leaves an admission as it is when its renewal is refused', async () => {
        for (const id of ['a', 'b']) await ask(id);
        goTo(2_000);
        await ask('b');
        expect(await ask('a', { renew: true, maxWaitMs: 10 })).toMatchObject({ kind: 'refused', waitMs: 2_000 });
        expect(told(await ask('a'))).toEqual(admitted(0, 'gap', true));
      });
    });

    describe('giving back', () => {
      it('refunds a slot that was not used', async () => {
        await ask('a');
        expect(await limiter.refund('teacher-42', 'a')).toBe(true);
        expect(await limiter.refund('teacher-42', 'a')).toBe(false);
        expect(told(await ask('b'))).toEqual(admitted(0, 'gap'));
      });

      it('cancels a reservation, and no admission', async () => {
        for (const id of ['a', 'b']) await ask(id);
        expect(await limiter.cancel('teacher-42', 'a')).toBe(false);
        expect(await limiter.cancel('teacher-42', 'b')).toBe(true);
        expect(await limiter.cancel('teacher-42', 'b')).toBe(false);
        expect(told(await ask('c'))).toEqual(reserved(2_000, 'gap', 2_000));
      });

      it('resets one recipient and no other', async () => {
        for (const id of ['a', 'b']) await ask(id);
        await limiter.admit({ recipientId: 'teacher-43', id: 'a' });
        expect(await limiter.reset('teacher-42')).toBe(true);
        expect(await limiter.reset('teacher-42')).toBe(false);
        expect(told(await ask('c'))).toEqual(admitted(0, 'gap'));
        expect(await limiter.admit({ recipientId: 'teacher-43', id: 'b' })).toMatchObject({ kind: 'reserved' });
      });
    });

    describe('an alert that went out late', () => {
      it('is counted from then on', async () => {
        await ask('a');
        goTo(300);
        expect(await limiter.postpone('teacher-42', 'a', start + 280)).toBe(true);
        expect(told(await ask('b'))).toEqual(reserved(2_280, 'gap', 1_980));
      });

      it('holds up the next one by as much', async () => {
        for (const id of ['a', 'b']) await ask(id);
        goTo(100);
        await limiter.postpone('teacher-42', 'a', start + 100);
        goTo(1_990);
        expect(told(await ask('b'))).toEqual(admitted(2_100, 'gap'));
      });

      it('moves a slot never to earlier, never beyond now, and none that is not there', async () => {
        await ask('a');
        goTo(50);
        expect(await limiter.postpone('teacher-42', 'a', start)).toBe(false);
        expect(await limiter.postpone('teacher-42', 'b', start + 10)).toBe(false);
        expect(await limiter.postpone('teacher-42', 'a', start + 9_999)).toBe(true);
        expect(await limiter.postpone('teacher-42', 'a', start + 50)).toBe(false);
        expect(told(await ask('b'))).toEqual(reserved(2_050, 'gap', 2_000));
      });
    });

    describe('peek', () => {
      it('tells what an ask would be told, and changes nothing', async () => {
        expect(told(await peek('a'))).toEqual(admitted(0, 'gap'));
        for (const id of ['a', 'b']) await ask(id);
        expect(told(await peek('c'))).toEqual(reserved(4_000, 'gap', 4_000));
        expect(await peek('c', { maxWaitMs: 0 })).toEqual({ kind: 'refused', rule: 'gap', waitMs: 4_000 });
        goTo(2_000);
        expect(told(await peek('b'))).toEqual(admitted(2_000, 'gap'));
        expect(told(await peek('a', { renew: true }))).toEqual(admitted(2_000, 'gap'));
        expect(told(await peek('a'))).toEqual(admitted(0, 'gap', true));
        expect(told(await ask('b'))).toEqual(admitted(2_000, 'gap'));
      });
    });

    describe('policies', () => {
      it('of an ask hold for that ask', async () => {
        await ask('a');
        const policy = { rules: [{ max: 1, perMs: 30_000 }], minGapMs: 0 };
        expect(told(await peek('b', { policy }))).toEqual(reserved(30_000, '1/30s', 30_000));
        expect(told(await peek('b'))).toEqual(reserved(2_000, 'gap', 2_000));
      });

      it('with several rules keep them all, and the slowest decides', async () => {
        use({
          rules: [
            { max: 1, perMs: 1_000 },
            { max: 2, perMs: 5_000 },
            { max: 3, perMs: MINUTE },
          ],
          minGapMs: 0,
        });
        const answers: Admission[] = [];
        for (const id of ['a', 'b', 'c', 'd']) answers.push(await ask(id));
        expect(answers.map((answer) => [told(answer).at, answer.rule])).toEqual([
          [0, '1/1s'],
          [1_000, '1/1s'],
          [5_000, '2/5s'],
          [MINUTE, '3/1m'],
        ]);
      });

      it('without a gap allow a burst up to the window', async () => {
        use({ rules: [{ max: 3, perMs: 10_000 }], minGapMs: 0 });
        for (const id of ['a', 'b', 'c']) expect(told(await ask(id))).toEqual(admitted(0, '3/10s'));
        for (const id of ['d', 'e', 'f']) expect(told(await ask(id))).toEqual(reserved(10_000, '3/10s', 10_000));
        expect(told(await ask('g'))).toEqual(reserved(20_000, '3/10s', 20_000));
      });

      it('without a gap let no newcomer overtake a reservation either, when slots before it come free', async () => {
        use({ rules: [{ max: 3, perMs: 10_000 }], minGapMs: 0 });
        for (const id of ['a', 'b', 'c', 'd']) await ask(id);
        for (const id of ['b', 'c']) await limiter.refund('teacher-42', id);
        expect(told(await ask('newcomer'))).toMatchObject({ kind: 'reserved', at: 10_000 });
      });

      it('without any rule let everything go', async () => {
        use({ rules: [], minGapMs: 0 });
        for (const id of ['a', 'b']) expect(told(await ask(id))).toEqual(admitted(0, 'none'));
      });

      it('that are unusable are told at once, or with the ask, and nothing is written', async () => {
        const policy = { rules: [{ max: 0, perMs: 1.5 }], minGapMs: -1 };
        expect(() => create(policy)).toThrow(InputError);
        await expect(ask('a', { policy })).rejects.toThrow(/policy\[0\]\.max: .*policy\[0\]\.per: .*policy\.minGap: /s);
        expect(await limiter.reset('teacher-42')).toBe(false);
      });
    });

    it('refuses an ask for nobody, for nothing, or with a wait that is no number', async () => {
      await expect(limiter.admit({ recipientId: '', id: '', maxWaitMs: NaN })).rejects.toThrow(
        /recipientId: .*id: .*maxWaitMs: /s,
      );
    });

    describe('a clock that steps', () => {
      it('back by a little keeps what was sent', async () => {
        await ask('a');
        clock.advance(-5_000);
        expect(told(await ask('b'))).toEqual(reserved(2_000, 'gap', 7_000));
      });

      it('back by more than the longest window and a minute drops what lies ahead, once it may be written', async () => {
        for (const id of ['a', 'b']) await ask(id);
        clock.advance(-10_000 - MINUTE - 1);
        expect(told(await peek('c'))).toEqual(admitted(-10_000 - MINUTE - 1, 'gap'));
        await ask('c');
        expect(told(await ask('b'))).toEqual(reserved(-8_001 - MINUTE, 'gap', 2_000));
      });
    });
  });
}
