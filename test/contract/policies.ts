import { describe, expect, it } from 'vitest';
import { admitted, atMost, BURSTS, gapOf, MINUTE, reserved, Trial, UNLIMITED, type LimiterFactory } from './trial.ts';

/** What may go under which rules. */
export function policiesContract(create: LimiterFactory): void {
  describe('policies', () => {
    it('of an ask hold for that ask', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      expect(await trial.peek('b', { policy: atMost(1, 30_000) })).toEqual(reserved(30_000, '1/30s', 30_000));
      expect(await trial.peek('b', { policy: gapOf(50) })).toEqual(reserved(50, 'gap', 50));
      expect(await trial.peek('b')).toEqual(reserved(2_000, 'gap', 2_000));
    });

    it('with several rules keep them all, and the slowest decides', async () => {
      const rules = [...atMost(1, 1_000).rules, ...atMost(2, 5_000).rules, ...atMost(3, MINUTE).rules];
      const trial = new Trial(create, { rules, minGapMs: 0 });
      expect(await trial.askAll('abcd')).toEqual([
        admitted(0),
        reserved(1_000, '1/1s', 1_000),
        reserved(5_000, '2/5s', 5_000),
        reserved(MINUTE, '3/1m', MINUTE),
      ]);
    });

    it('with rules that ask for the same wait name the first', async () => {
      const trial = new Trial(create, { rules: atMost(1, 2_000).rules, minGapMs: 2_000 });
      expect(await trial.askAll('ab')).toEqual([admitted(0), reserved(2_000, 'gap', 2_000)]);
    });

    it('without a gap allow a burst up to the window', async () => {
      const trial = new Trial(create, BURSTS);
      expect(await trial.askAll('abc')).toEqual([admitted(0), admitted(0), admitted(0)]);
      const waiting = reserved(10_000, '3/10s', 10_000);
      expect(await trial.askAll('def')).toEqual([waiting, waiting, waiting]);
      expect(await trial.ask('g')).toEqual(reserved(20_000, '3/10s', 20_000));
    });

    it('without a gap let no newcomer overtake a reservation either, when slots before it come free', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.askAll('abcd');
      await trial.refund('b');
      await trial.refund('c');
      expect(await trial.ask('newcomer')).toEqual(reserved(10_000, '3/10s', 10_000));
    });

    it('without any rule let everything go, but nobody before those that wait', async () => {
      const trial = new Trial(create, UNLIMITED);
      expect(await trial.askAll('ab')).toEqual([admitted(0), admitted(0)]);
      await trial.ask('c', { policy: gapOf(3_000) });
      expect(await trial.ask('d')).toEqual(reserved(3_000, 'none', 3_000));
    });

    it('with windows of different lengths are all kept: what was sent counts for the longest that anybody asked under', async () => {
      const trial = new Trial(create, atMost(100, 1_000));
      const slow = { policy: atMost(5, MINUTE), maxWaitMs: 0 };
      const admittedSlow: string[] = [];
      for (let at = 0; at <= 6_300; at += 1_050) {
        trial.goTo(at);
        for (const id of ['a', 'b', 'c', 'd', 'e'].map((name) => `${name}${at}`)) {
          const { kind } = (await trial.ask(id, slow)) as { readonly kind: string };
          if (kind === 'admitted') admittedSlow.push(id);
        }
        trial.goTo(at + 1_049);
        expect(await trial.ask(`quick${at}`)).toMatchObject({ kind: 'admitted' });
      }
      expect(admittedSlow).toEqual(['a0', 'b0', 'c0', 'd0', 'e0']);
    });

    it('with a longer window find what was sent under a shorter one, once somebody has asked under it', async () => {
      const trial = new Trial(create, atMost(1, 1_000));
      const hourly = { policy: atMost(3, 3_600_000) };
      await trial.ask('a', hourly);
      for (const [at, id] of [
        [10_000, 'b'],
        [20_000, 'c'],
      ] as const) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(at));
      }
      trial.goTo(30_000);
      expect(await trial.ask('d', hourly)).toEqual(reserved(3_600_000, '3/1h', 3_570_000));
      trial.goTo(3_600_000 + 19_999);
      expect(await trial.peek('d', hourly)).toEqual(admitted(3_600_000 + 19_999));
    });
  });
}
