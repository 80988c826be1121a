import { describe, expect, it } from 'vitest';
import type { CategoryPolicy } from '../../src/domain/limits.ts';
import {
  admitted,
  atMost,
  BURSTS,
  gapOf,
  MINUTE,
  reserved,
  Trial,
  type LimiterFactory,
  admittedWith,
  POLICY,
} from './trial.ts';

const messages = { category: 'messages' };
const alarms = { category: 'alarms' };
/** Overall three in 10 s; messages one a minute, alarms 2 s apart. */
const categories = { messages: atMost(1, MINUTE), alarms: gapOf(2_000) };

/** Categories: a slot that has to satisfy two policies, or nothing is taken. */
export function scopesContract(create: LimiterFactory): void {
  const trialOf = (policy = BURSTS) => new Trial(create, policy, { categories });

  describe('a category with a policy of its own', () => {
    it('is limited by both, and the answer names which', async () => {
      const trial = trialOf();
      expect(await trial.ask('a', messages)).toEqual(admittedWith(0, 'messages:1/1m', 0, MINUTE));
      expect(await trial.ask('b', messages)).toEqual(reserved(MINUTE, 'messages:1/1m', MINUTE));
      expect(await trial.ask('c', { policy: gapOf(1_000) })).toEqual(reserved(1_000, 'gap', 1_000));
    });

    it('remembers an id for as long as any scope counts it', async () => {
      const trial = trialOf();
      await trial.ask('a', messages);
      trial.goTo(20_000);
      await trial.ask('b');
      expect(await trial.ask('a', messages)).toEqual(admitted(0, true));
    });
  });

  describe('a category without a policy', () => {
    it.each(['letters', 'constructor', '__proto__', 'Messages'])('is limited overall: %s', async (category) => {
      const trial = trialOf();
      expect(await trial.askAll('abc', { category })).toEqual([admitted(0), admitted(0), admitted(0)]);
      expect(await trial.ask('d', { category })).toEqual(reserved(10_000, '3/10s', 10_000));
      expect(await trial.cancel('d', category)).toBe(true);
      expect(await trial.refund('c', category)).toBe(true);
    });

    it.each(['constructor', '__proto__', 'a:b', '{a} b'])(
      'has one where it is given one, whatever its name: %s',
      async (category) => {
        const own = Object.fromEntries([[category, atMost(1, MINUTE)]]);
        const trial = new Trial(create, BURSTS, { categories: own });
        await trial.ask('a', { category });
        expect(await trial.ask('b', { category })).toEqual(reserved(MINUTE, `${category}:1/1m`, MINUTE));
        expect(await trial.refund('a', category)).toBe(true);
        expect(await trial.cancel('b', category)).toBe(true);
        expect(await trial.ask('c', { category })).toEqual(admitted(0));
      },
    );
  });

  describe('a slot in a category', () => {
    it('is refunded overall only, where the category is not given', async () => {
      const trial = trialOf(atMost(1, 1_000));
      await trial.ask('a', messages);
      expect(await trial.refund('a')).toBe(true);
      expect(await trial.peek('b')).toEqual(admitted(0));
      expect(await trial.peek('b', messages)).toEqual(reserved(MINUTE, 'messages:1/1m', MINUTE));
    });
  });
}

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
      trial.goTo(2_000);
      expect(await trial.ask('d', alarms)).toEqual(admitted(2_000));
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

    it('is cancelled in its category, and was not sent', async () => {
      const trial = await trialWithOneHeldBack();
      expect(await trial.refund('b', 'messages')).toBe(false);
      expect(await trial.cancel('b')).toBe(false);
      expect(await trial.cancel('b', 'alarms')).toBe(false);
      expect(await trial.cancel('b', 'messages')).toBe(true);
      expect(await trial.cancel('b', 'messages')).toBe(false);
      expect(await trial.ask('c', messages)).toEqual(reserved(MINUTE, 'messages:1/1m', MINUTE));
    });
  });
}

const EMERGENCY: CategoryPolicy = { ...atMost(3, 60_000), exempt: ['gap', 'rules'] };
const URGENT = { categories: { emergency: EMERGENCY } };
const urgent = { category: 'emergency' };

/** Categories to which the overall limits do not apply. */
export function urgentContract(create: LimiterFactory): void {
  describe('an urgent category', () => {
    it('waits for no gap and no rule of the others, and behind nobody', async () => {
      const trial = new Trial(create, POLICY, URGENT);
      await trial.askAll('abcd');
      expect(await trial.ask('u', urgent)).toEqual(admittedWith(0, 'emergency:3/1m', 2, 60_000));
      trial.goTo(1_000);
      expect(await trial.ask('v', urgent)).toEqual(admitted(1_000));
      expect(await trial.slots()).toEqual({ b: 2_000, c: 4_000, d: 10_000 });
    });

    it('is counted for the others: they wait as long as they must, in their order', async () => {
      const trial = new Trial(create, gapOf(1_000), URGENT);
      await trial.askAll('abc');
      trial.goTo(900);
      expect(await trial.ask('u', urgent)).toEqual(admitted(900));
      expect(await trial.peek('x')).toEqual(reserved(3_000, 'gap', 2_100));
      trial.goTo(1_000);
      expect(await trial.ask('b')).toEqual(admitted(1_900));
      trial.goTo(2_000);
      expect(await trial.ask('c')).toEqual(admitted(2_900));
    });
  });
}
