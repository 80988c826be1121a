import { describe, expect, it } from 'vitest';
import { averageAsks, overtakenBy, passAll, seeded, type CrowdJob } from './crowd.ts';
import { admitted, atMost, gapOf, MINUTE, reserved, Trial, type LimiterFactory } from './trial.ts';

/** `j0`, `j1`, and so on. */
function named(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `j${index}`);
}

async function askEach(trial: Trial, ids: readonly string[], more = {}): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const id of ids) answers.push(await trial.ask(id, more));
  return answers;
}

/** Who keeps its place, and who pays for coming late. */
export function placesContract(create: LimiterFactory): void {
  describe('one that comes late', () => {
    it('takes no place of one that comes on time, however many wait', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await askEach(trial, named(501));
      trial.goTo(3_900);
      expect(await trial.ask('j1')).toEqual(reserved(1_002_000, 'gap', 998_100));
      trial.goTo(4_000);
      expect(await trial.ask('j2', { maxWaitMs: 300_000 })).toEqual(admitted(4_000));
      trial.goTo(6_149);
      expect(await trial.ask('j3')).toEqual(admitted(6_149));
      trial.goTo(8_000);
      expect(await trial.ask('j4')).toEqual(admitted(8_149));
    });

    it('goes at once where that keeps all ahead within their tolerance', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abc');
      await trial.cancel('c');
      await trial.ask('d');
      expect(await trial.slots()).toEqual({ b: 2_000, d: 4_000 });
      await trial.cancel('d');
      trial.goTo(2_150);
      await trial.ask('e'); // stands behind b
      expect(await trial.slots()).toEqual({ b: 2_000, e: 4_000 });
      trial.goTo(2_151);
      expect(await trial.peek('b')).toEqual(reserved(6_000, 'gap', 3_849)); // a millisecond too late for e
      await trial.cancel('e');
      expect(await trial.ask('b')).toEqual(admitted(2_151));
    });

    it('takes the first hole among those that wait', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abcdef');
      await trial.cancel('d');
      trial.goTo(3_000);
      expect(await trial.ask('b')).toEqual(reserved(6_000, 'gap', 3_000));
      expect(await trial.slots()).toEqual({ b: 6_000, c: 4_000, e: 8_000, f: 10_000 });
      for (const [id, at] of Object.entries({ c: 4_000, b: 6_000, e: 8_000 })) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(at));
      }
    });

    it('is not given a hole behind the next hundred', async () => {
      const trial = new Trial(create, gapOf(2_000));
      const ids = named(120);
      await askEach(trial, ids);
      await trial.cancel('j110');
      trial.goTo(2_500);
      expect(await trial.ask('j1')).toEqual(reserved(240_000, 'gap', 237_500));
    });

    it('takes no hole that a rule forbids', async () => {
      const trial = new Trial(create, atMost(2, 10_000));
      await trial.askAll('abcdef'); // two at 0, 10 and 20 s
      trial.goTo(10_500);
      expect(await trial.ask('c')).toEqual(reserved(30_000, '2/10s', 19_500)); // e and f would have to wait until 20.5 s
      await trial.cancel('e');
      expect(await trial.ask('d')).toEqual(admitted(10_500));
    });

    it('keeps those ahead in its category in their places too', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: gapOf(5_000) } });
      const messages = { category: 'messages' };
      await trial.askAll('abc', messages);
      trial.goTo(5_300);
      expect(await trial.ask('b', messages)).toMatchObject({ kind: 'reserved', at: 15_000 });
      trial.goTo(10_000);
      expect(await trial.ask('c', messages)).toEqual(admitted(10_000));
    });
  });

  describe('those that come back within the tolerance', () => {
    it('are all admitted then, in whatever order they come', async () => {
      const trial = new Trial(create, atMost(2, 10_000));
      await trial.ask('a');
      trial.goTo(100);
      await trial.askAll('bcdef');
      expect(await trial.slots()).toEqual({ c: 10_000, d: 10_100, e: 20_000, f: 20_100 });
      for (const [id, at, goes] of [
        ['c', 10_000, 10_000],
        ['d', 10_250, 10_250],
        ['f', 19_950, 20_250],
        ['e', 20_000, 20_000],
      ] as const) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(goes));
      }
    });

    it('are put off by no more than the latest of them', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abcd');
      for (const [id, at, goes] of [
        ['b', 2_100, 2_100],
        ['c', 3_900, 4_100],
        ['d', 6_140, 6_140],
      ] as const) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(goes));
      }
    });
  });

  describe('a slot that is put off for longer than the tolerance', () => {
    it('keeps its place, and those behind it follow', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abcd');
      trial.goTo(1_000);
      await trial.postpone('a', 1_000);
      trial.goTo(2_000);
      expect(await trial.ask('b')).toEqual(reserved(3_000, 'gap', 1_000));
      expect(await trial.slots()).toEqual({ b: 3_000, c: 4_000, d: 6_000 });
      expect(await trial.ask('e')).toEqual(reserved(8_000, 'gap', 6_000));
      for (const [id, at, goes] of [
        ['b', 3_000, 3_000],
        ['c', 4_000, undefined],
        ['c', 5_000, 5_000],
        ['d', 6_000, undefined],
        ['d', 7_000, 7_000],
        ['e', 8_000, undefined],
        ['e', 9_000, 9_000],
      ] as const) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(goes ? admitted(goes) : reserved(at + 1_000, 'gap', 1_000));
      }
    });

    it('stays before those behind it, be it put off beyond their slots', async () => {
      const trial = new Trial(create, gapOf(300));
      await trial.askAll('abcdef');
      trial.goTo(300);
      expect(await trial.ask('b')).toEqual(admitted(300));
      trial.goTo(590);
      await trial.postpone('b', 590);
      trial.goTo(600);
      expect(await trial.ask('c')).toEqual(reserved(890, 'gap', 290, 149));
      trial.goTo(890);
      expect(await trial.ask('c')).toEqual(admitted(890));
      expect(await trial.slots()).toEqual({ d: 900, e: 1_200, f: 1_500 });
      trial.goTo(1_040);
      await trial.postpone('c', 1_040);
      expect(await trial.ask('d')).toEqual(reserved(1_340, 'gap', 300, 149));
      expect(await trial.slots()).toEqual({ d: 1_340, e: 1_640, f: 1_940 });
      trial.goTo(1_200);
      expect(await trial.ask('e')).toEqual(reserved(1_640, 'gap', 440, 149));
    });

    it('costs nobody its place, where alerts go out a little late all the time', async () => {
      const policy = { rules: [{ max: 10, perMs: MINUTE }], minGapMs: 3_000 };
      const trial = new Trial(create, policy);
      const random = seeded(1);
      const jobs = named(150).map((id): CrowdJob => ({ id, asksAt: 0, sentLateMs: () => Math.round(40 * random()) }));
      const passed = await passAll(trial, jobs);
      expect(passed.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
      expect(averageAsks(passed)).toBeLessThanOrEqual(3);
      expect(Math.max(...passed.map(({ at }) => at))).toBeLessThan(14 * MINUTE + 27_000 + 150 * 40);
    });

    it('costs nobody its place, where that adds up to more than a gap', async () => {
      const trial = new Trial(create, gapOf(200));
      const random = seeded(2);
      const jobs = named(100).map((id): CrowdJob => ({ id, asksAt: 0, sentLateMs: () => Math.round(60 * random()) }));
      const passed = await passAll(trial, jobs);
      expect([...overtakenBy(jobs, passed).values()].filter((count) => count > 0)).toEqual([]);
    });
  });

  describe('a crowd that always comes late', () => {
    it.each([
      ['with a gap', gapOf(2_000), 30, 400],
      ['with a gap, later than it', gapOf(300), 30, 700],
      ['with a rule alone', atMost(3, 10_000), 30, 400],
      ['with a gap and a rule', { rules: [{ max: 10, perMs: MINUTE }], minGapMs: 3_000 }, 35, 500],
    ])('goes all the same, and in order once that is known: %s', async (_, policy, count, lateMs) => {
      const trial = new Trial(create, policy);
      const jobs = named(count).map((id): CrowdJob => ({ id, asksAt: 0, lateMs: () => lateMs }));
      const passed = await passAll(trial, jobs);
      const limits = [{ max: 1, perMs: policy.minGapMs }, ...policy.rules];
      const idealMs = Math.max(...limits.map(({ max, perMs }) => Math.floor((count - 1) / max) * perMs));
      const lostMs = policy.minGapMs > 0 ? 4 * policy.minGapMs : 10_000;
      expect(Math.max(...passed.map(({ at }) => at))).toBeLessThanOrEqual(idealMs + 2 * lostMs + MINUTE / 10);
      expect(averageAsks(passed)).toBeLessThanOrEqual(2.5);
      const overtaken = [...overtakenBy(jobs, passed).values()].filter((by) => by > 0);
      expect(overtaken.length).toBeLessThanOrEqual(4);
    });

    it('goes all the same where its category holds it back', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: gapOf(5_000) } });
      const jobs = named(20).map((id): CrowdJob => ({ id, asksAt: 0, category: 'messages', lateMs: () => 400 }));
      const passed = await passAll(trial, jobs);
      expect(Math.max(...passed.map(({ at }) => at))).toBeLessThanOrEqual((19 + 6) * 5_000);
      expect(averageAsks(passed)).toBeLessThanOrEqual(3);
    });
  });

  describe('an admission that is renewed', () => {
    it('within the tolerance goes again', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abc');
      trial.goTo(2_000);
      await trial.ask('b');
      trial.goTo(2_140);
      expect(await trial.ask('b', { renew: true })).toEqual(admitted(2_140));
      trial.goTo(4_000);
      expect(await trial.ask('c')).toEqual(admitted(4_140));
    });

    it('beyond it takes no place of one that comes on time', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abc');
      trial.goTo(1_900);
      expect(await trial.ask('a', { renew: true })).toEqual(reserved(6_000, 'gap', 4_100));
      trial.goTo(2_000);
      expect(await trial.ask('b')).toEqual(admitted(2_000));
    });
  });
}
