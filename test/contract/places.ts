import { describe, expect, it } from 'vitest';
import { overtakenBy, passAll, type CrowdJob } from './crowd.ts';
import { admitted, atMost, gapOf, MINUTE, reserved, Trial, type LimiterFactory } from './trial.ts';

/** `j0`, `j1`, and so on. */
function named(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `j${index}`);
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
    it('by up to the tolerance goes at once, and those behind it each ask once, while the line is late by no more', async () => {
      const trial = new Trial(create, GAP);
      for (const id of named(501)) await trial.ask(id);
      await expectTurns(trial, [
        ['j1', 3_800, 'goes', 3_800],
        ['j2', 4_000, 'goes', 5_800],
        ['j3', 6_000, 'goes', 7_800],
        ['j4', 8_100, 'goes', 9_800],
        ['j5', 11_800, 'goes', 11_800],
      ]);
    });

    it('goes at once however late, if nobody was sent meanwhile', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abcd');
      await expectTurns(trial, [
        ['b', 50_000, 'goes', 50_000],
        ['c', 52_000, 'goes', 52_000],
      ]);
    });

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

    it('moves no reservation of others', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abcde');
      trial.goTo(4_000);
      await trial.ask('c');
      expect(await trial.ask('b')).toEqual(reserved(10_000, 'gap', 6_000));
      expect(await trial.slots()).toEqual({ d: 6_000, e: 8_000, b: 10_000 });
      trial.goTo(7_500);
      await trial.ask('d');
      expect(await trial.slots()).toEqual({ e: 8_000, b: 10_000 });
    });

    it('does so under a rule without a gap', async () => {
      const trial = new Trial(create, atMost(2, 10_000));
      await trial.askAll('abcdefgh'); // two at 0, 10, 20 and 30 s
      await expectTurns(trial, [
        ['c', 12_000, 'goes', 12_000],
        ['d', 12_000, 'goes', 12_000],
        ['e', 20_000, 'goes', 22_000],
        ['f', 20_000, 'goes', 22_000],
        ['g', 32_001, 'goes', 32_001],
      ]);
      expect(await trial.ask('h')).toEqual(admitted(32_001));
    });

    it('does so where its category holds it back, and joins the line if it would be late by more', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: gapOf(5_000) } });
      const messages = { category: 'messages' };
      await trial.askAll('abcd', messages);
      trial.goTo(5_901);
      expect(await trial.ask('b', messages)).toEqual(admitted(5_901));
      trial.goTo(10_001);
      expect(await trial.ask('c', messages)).toEqual(admitted(10_901));
      trial.goTo(15_000);
      expect(await trial.ask('d', messages)).toEqual(reserved(15_901, 'messages:gap', 901));
      expect(await trial.peek('x')).toEqual(reserved(16_901, 'gap', 1_901));
      trial.goTo(15_901);
      expect(await trial.ask('d', messages)).toEqual(admitted(15_901));
    });
  });

  describe('two that come at the same instant', () => {
    it('with a gap: one goes, the other one goes behind all others, and nobody else is late', async () => {
      for (const [first, second] of ['bc', 'cb']) {
        const trial = new Trial(create, GAP);
        await trial.askAll('abcd');
        await expectTurns(trial, [
          [first ?? '', 4_000, 'goes', 4_000],
          [second ?? '', 4_000, 'waits', 8_000],
          ['d', 6_000, 'goes', 6_000],
          [second ?? '', 8_000, 'goes', 8_000],
        ]);
      }
    });

    it('without a gap go both, in whatever order they come', async () => {
      const trial = new Trial(create, atMost(2, 10_000));
      await trial.ask('a');
      trial.goTo(100);
      await trial.askAll('bcdef');
      expect(await trial.slots()).toEqual({ c: 10_000, d: 10_100, e: 20_000, f: 20_100 });
      await expectTurns(trial, [
        ['d', 10_200, 'goes', 10_200],
        ['c', 10_200, 'goes', 10_200],
        ['f', 20_100, 'goes', 20_200],
        ['e', 20_100, 'goes', 20_200],
      ]);
    });
  });

  describe('the time that a caller needs until it can send', () => {
    it('is left to one that comes back, and those behind it go later', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abcd');
      trial.goTo(1_950);
      expect(await trial.ask('b', { leadMs: 40 })).toEqual(admitted(2_000));
      trial.goTo(4_000);
      expect(await trial.ask('c', { leadMs: 300 })).toEqual(admitted(4_300));
      trial.goTo(6_000);
      expect(await trial.ask('d')).toEqual(admitted(6_300));
    });

    it('is what the tolerance counts from', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abc');
      trial.goTo(4_000);
      await trial.ask('c');
      expect(await trial.peek('b', { leadMs: 199 })).toEqual(reserved(6_000, 'gap', 2_000));
      expect(await trial.ask('b', { leadMs: 200 })).toEqual(admitted(6_000));
    });

    it('is no reason to give another slot to one that comes too early, or to make a newcomer wait', async () => {
      const trial = new Trial(create, GAP);
      expect(await trial.ask('a', { leadMs: 500 })).toEqual(admitted(0));
      await trial.ask('b', { leadMs: 500 });
      trial.goTo(1_879);
      expect(await trial.ask('b', { leadMs: 500 })).toEqual(reserved(2_000, 'gap', 121));
    });

    it('is left to an admission that is renewed, and is no wait', async () => {
      const trial = new Trial(create, GAP);
      await trial.ask('a');
      trial.goTo(700);
      expect(await trial.peek('a', { renew: true, leadMs: 150, maxWaitMs: 0 })).toEqual(admitted(850));
      expect(await trial.ask('a', { renew: true, leadMs: 150, maxWaitMs: 0 })).toEqual(admitted(850));
      expect(await trial.peek('b')).toEqual(reserved(2_850, 'gap', 2_150));
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

    it('is counted in whole milliseconds', async () => {
      const trial = new Trial(create, GAP);
      await trial.ask('a');
      trial.goTo(700);
      expect(await trial.ask('a', { renew: true, leadMs: 0.4 })).toEqual(admitted(701));
    });
  });

  describe('an admission that is renewed', () => {
    it('goes again, and those behind it each ask once, while the line is late by no more than the tolerance', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abcd');
      trial.goTo(2_000);
      await trial.ask('b');
      trial.goTo(3_800);
      expect(await trial.ask('b', { renew: true })).toEqual(admitted(3_800));
      await expectTurns(trial, [
        ['c', 4_000, 'goes', 5_800],
        ['d', 6_000, 'goes', 7_800],
      ]);
    });

    it('sends as many behind all others as it makes late by more, each with one more ask', async () => {
      const trial = new Trial(create, GAP);
      await trial.askAll('abcdef');
      trial.goTo(2_000);
      await trial.ask('b');
      expect(await trial.ask('b', { renew: true, leadMs: 4_000 })).toEqual(admitted(6_000));
      await expectTurns(trial, [
        ['c', 4_000, 'waits', 12_000],
        ['d', 6_000, 'waits', 14_000],
        ['e', 8_000, 'goes', 8_000],
        ['f', 10_000, 'goes', 10_000],
        ['c', 12_000, 'goes', 12_000],
        ['d', 14_000, 'goes', 14_000],
      ]);
    });
  });

  describe('a crowd that always comes late', () => {
    it.each([
      ['by less than the gap', gapOf(2_000), 400],
      ['by more than the gap', gapOf(300), 700],
      ['by 1.3 gaps', gapOf(2_000), 2_600],
      ['with a rule alone', atMost(3, 10_000), 4_000],
      ['with a gap and a rule', { rules: [{ max: 10, perMs: MINUTE }], minGapMs: 3_000 }, 3_900],
    ])('loses no slot, and goes in order: %s', async (_, policy, lateMs) => {
      const trial = new Trial(create, policy);
      const jobs = named(35).map((id): CrowdJob => ({ id, asksAt: 0, lateMs: () => lateMs }));
      const passed = await passAll(trial, jobs);
      expect(Math.max(...passed.map(({ asks }) => asks))).toBe(2);
      expect([...overtakenBy(jobs, passed).values()].filter((by) => by > 0)).toEqual([]);
      const limits = [{ max: 1, perMs: policy.minGapMs }, ...policy.rules];
      const idealMs = Math.max(...limits.map(({ max, perMs }) => Math.floor(34 / max) * perMs));
      expect(Math.max(...passed.map(({ at }) => at))).toBeLessThanOrEqual(idealMs + 12_000 + lateMs);
    });

    it('loses no slot where its category holds it back', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: gapOf(5_000) } });
      const jobs = named(20).map((id): CrowdJob => ({ id, asksAt: 0, category: 'messages', lateMs: () => 400 }));
      const passed = await passAll(trial, jobs);
      expect(Math.max(...passed.map(({ asks }) => asks))).toBe(2);
      expect(Math.max(...passed.map(({ at }) => at))).toBe(19 * 5_000 + 400);
    });
  });
}
