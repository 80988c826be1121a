import { describe, expect, it } from 'vitest';
import type { CategoryPolicy } from '../../src/domain/limits.ts';
import {
  admitted,
  admittedWith,
  atMost,
  gapOf,
  POLICY,
  recipientId,
  refused,
  reserved,
  Trial,
  type LimiterFactory,
} from './trial.ts';

const EMERGENCY: CategoryPolicy = { ...atMost(3, 60_000), exempt: ['gap', 'rules'] };
const categories = { emergency: EMERGENCY };
const urgent = { category: 'emergency' };

/** Categories to which the overall limits do not apply. */
export function urgentContract(create: LimiterFactory): void {
  describe('an urgent category', () => {
    it('waits for no gap and no rule of the others, and behind nobody', async () => {
      const trial = new Trial(create, POLICY, { categories });
      await trial.askAll('abcd');
      expect(await trial.ask('u', urgent)).toEqual(admittedWith(0, 'emergency:3/1m', 2, 60_000));
      trial.goTo(1_000);
      expect(await trial.ask('v', urgent)).toEqual(admitted(1_000));
      expect(await trial.slots()).toEqual({ b: 2_000, c: 4_000, d: 10_000 });
    });

    it('is counted for the others: they wait as long as they must, in their order', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories });
      await trial.askAll('abc');
      trial.goTo(900);
      expect(await trial.ask('u', urgent)).toEqual(admitted(900));
      expect(await trial.peek('x')).toEqual(reserved(3_000, 'gap', 2_100));
      trial.goTo(1_000);
      expect(await trial.ask('b')).toEqual(admitted(1_900));
      trial.goTo(2_000);
      expect(await trial.ask('c')).toEqual(admitted(2_900));
    });

    it('sends the next one behind the others, if that would be later by more', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories });
      await trial.askAll('abc');
      trial.goTo(901);
      expect(await trial.ask('u', urgent)).toEqual(admitted(901));
      trial.goTo(1_000);
      expect(await trial.ask('b')).toEqual(reserved(3_000, 'gap', 2_000));
      trial.goTo(2_000);
      expect(await trial.ask('c')).toEqual(admitted(2_000));
      trial.goTo(3_000);
      expect(await trial.ask('b')).toEqual(admitted(3_000));
    });

    it('keeps what is left of the overall limits and its own, and may be late by as much as those allow', async () => {
      const trial = new Trial(create, POLICY, {
        categories: { ...categories, siren: { ...gapOf(500), exempt: ['gap'] } },
      });
      const tolerance = async (category: string) => {
        const { toleranceMs } = await trial.limiter.peek({ recipientId, id: 'u', category });
        return toleranceMs;
      };
      expect([await tolerance('emergency'), await tolerance('siren')]).toEqual([2_000, 450]);
    });

    it('keeps its own rules, in order, and nobody waits for one that must wait', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories });
      await trial.askAll('uvw', urgent);
      expect(await trial.askAll('xy', urgent)).toEqual([
        reserved(60_000, 'emergency:3/1m', 60_000),
        reserved(60_000, 'emergency:3/1m', 60_000),
      ]);
      expect(await trial.ask('z', { ...urgent, maxWaitMs: 0 })).toEqual(refused('max-wait', 'emergency:3/1m', 60_000));
      expect(await trial.ask('a')).toEqual(reserved(1_000, 'gap', 1_000));
      trial.goTo(59_900);
      await trial.ask('b');
      trial.goTo(60_000);
      expect(await trial.askAll('xy', urgent)).toEqual([admitted(60_000), admitted(60_000)]);
    });

    it('is one admission under one id, and is given back', async () => {
      const trial = new Trial(create, POLICY, { categories });
      await trial.ask('u', urgent);
      expect(await trial.ask('u', urgent)).toEqual(admitted(0, true));
      expect(await trial.ask('u', { ...urgent, renew: true })).toEqual(admitted(0));
      expect(await trial.peek('a')).toEqual(reserved(2_000, 'gap', 2_000));
      expect(await trial.refund('u', 'emergency')).toBe(true);
      expect(await trial.ask('a')).toEqual(admitted(0));
    });

    it('waits for the end of a block', async () => {
      const trial = new Trial(create, POLICY, { categories });
      await trial.block(30_000);
      expect(await trial.ask('u', urgent)).toEqual(reserved(30_000, 'block', 30_000));
      expect(await trial.ask('a')).toEqual(reserved(30_000, 'block', 30_000));
      trial.goTo(30_000);
      expect(await trial.ask('u', urgent)).toEqual(admitted(30_000));
      expect(await trial.ask('a')).toEqual(reserved(32_000, 'gap', 2_000));
    });

    it('stays out of the line of the others if it must wait after all', async () => {
      const trial = new Trial(create, POLICY, { categories });
      await trial.ask('u', urgent);
      await trial.block(30_000);
      expect(await trial.ask('u', { ...urgent, renew: true })).toEqual(reserved(30_000, 'block', 30_000));
      expect(await trial.ask('a')).toEqual(reserved(30_000, 'block', 30_000));
    });

    it('is exempt from a stored policy too', async () => {
      const trial = new Trial(create, POLICY, { categories });
      await trial.limit({ rules: atMost(1, 3_600_000).rules, minGapMs: 60_000 });
      await trial.ask('a');
      expect(await trial.askAll('uv', urgent)).toEqual([admitted(0), admitted(0)]);
      expect(await trial.peek('b')).toEqual(reserved(3_600_000, '1/1h', 3_600_000));
    });

    it('keeps the overall rules if it is only exempt from the gap', async () => {
      const own: CategoryPolicy = { ...EMERGENCY, exempt: ['gap'] };
      const trial = new Trial(create, POLICY, { categories: { emergency: own } });
      await trial.ask('a');
      expect(await trial.askAll('uvw', urgent)).toEqual([admitted(0), admitted(0), reserved(10_000, '3/10s', 10_000)]);
    });

    it('stays out of the line of the others if the overall rules put it off again', async () => {
      const own: CategoryPolicy = { ...EMERGENCY, exempt: ['gap'] };
      const trial = new Trial(create, POLICY, { categories: { emergency: own } });
      await trial.ask('a');
      await trial.askAll('uvw', urgent);
      trial.goTo(9_000);
      await trial.ask('a', { renew: true });
      for (const id of 'uv') await trial.ask(id, { ...urgent, renew: true });
      trial.goTo(10_000);
      expect(await trial.ask('w', urgent)).toEqual(reserved(19_000, '3/10s', 9_000));
      expect(await trial.peek('b')).toEqual(reserved(19_000, '3/10s', 9_000));
      trial.goTo(19_000);
      expect(await trial.ask('w', urgent)).toEqual(admitted(19_000));
    });

    it('keeps the overall gap if it is only exempt from the rules', async () => {
      const own: CategoryPolicy = { ...EMERGENCY, exempt: ['rules'] };
      const trial = new Trial(
        create,
        { ...POLICY, rules: atMost(1, 10_000).rules },
        { categories: { emergency: own } },
      );
      await trial.askAll('ab');
      expect(await trial.ask('u', urgent)).toEqual(reserved(2_000, 'gap', 2_000));
      trial.goTo(2_000);
      expect(await trial.ask('u', urgent)).toEqual(admitted(2_000));
    });

    it('stays out of the line of the others when an operator changes the limits', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories });
      await trial.askAll('uvwx', urgent);
      await trial.askAll('ab');
      expect(await trial.slots()).toEqual({ x: 60_000, a: 1_000, b: 2_000 });
      await trial.block(70_000);
      expect(await trial.slots()).toEqual({ x: 70_000, a: 70_000, b: 71_000 });
      await trial.unblock();
      expect(await trial.slots()).toEqual({ x: 60_000, a: 1_000, b: 2_000 });
    });

    it('needs rules or a gap of its own', () => {
      const emergency = { rules: [], minGapMs: 0, exempt: ['gap'] } as const;
      expect(() => create(POLICY, { categories: { emergency } })).toThrow(
        'categories.emergency: expected rules or minGapMs of its own beside exempt',
      );
    });
  });
}
