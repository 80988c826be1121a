import { describe, expect, it } from 'vitest';
import {
  admitted,
  admittedWith,
  atMost,
  BURSTS,
  gapOf,
  MINUTE,
  POLICY,
  quietIn,
  recipientId,
  refused,
  reserved,
  Trial,
  UNLIMITED,
  type LimiterFactory,
} from './trial.ts';

/** What an answer says beside yes or no. */
export function answersContract(create: LimiterFactory): void {
  describe('what an admission says about the next one', () => {
    it('is how many more may go, and when the oldest stops counting', async () => {
      const trial = new Trial(create, BURSTS);
      expect(await trial.ask('a')).toEqual(admittedWith(0, '3/10s', 2, 10_000));
      trial.goTo(400);
      expect(await trial.ask('b')).toEqual(admittedWith(400, '3/10s', 1, 9_600));
      expect(await trial.ask('c')).toEqual(admittedWith(400, '3/10s', 0, 9_600));
      expect(await trial.ask('d')).toEqual(reserved(10_000, '3/10s', 9_600));
    });

    it('is what every rule has left, where the ask wants it: with this admission, and without one that waits', async () => {
      const trial = new Trial(create);
      const rules = (gapMs: number, windowMs: number) => [
        { rule: 'gap', max: 1, perMs: 2_000, remaining: 0, resetMs: gapMs },
        { rule: '3/10s', max: 3, perMs: 10_000, remaining: 2, resetMs: windowMs },
      ];
      expect(await trial.ask('a', { everyRule: true })).toMatchObject({
        kind: 'admitted',
        rules: rules(2_000, 10_000),
      });
      trial.goTo(500);
      expect(await trial.ask('b', { everyRule: true })).toMatchObject({ kind: 'reserved', rules: rules(1_500, 9_500) });
      expect(await trial.ask('b', { everyRule: true })).toMatchObject({ kind: 'reserved', rules: rules(1_500, 9_500) });
      expect(await trial.ask('a', { everyRule: true })).toMatchObject({ repeated: true, rules: rules(1_500, 9_500) });
      const refused = { kind: 'refused', rules: rules(1_500, 9_500) };
      expect(await trial.ask('c', { everyRule: true, maxWaitMs: 0 })).toMatchObject(refused);
      expect(await trial.ask('c', { maxWaitMs: 0 })).not.toHaveProperty('rules');
      const free = new Trial(create, UNLIMITED);
      expect(await free.ask('a', { everyRule: true })).toMatchObject({ kind: 'admitted', rules: [] });
    });

    it('counts no slot that is as old as the window', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.ask('a');
      trial.goTo(4_000);
      await trial.ask('b');
      trial.goTo(10_000);
      const answer = admittedWith(10_000, '3/10s', 1, 4_000);
      expect(await trial.peek('c')).toEqual(answer); // on Redis, only an ask may take the fast path
      expect(await trial.ask('c')).toEqual(answer);
    });

    it('is the rule that makes the next one wait longest, the first of equals', async () => {
      const trial = new Trial(create);
      expect(await trial.ask('a')).toEqual(admittedWith(0, 'gap', 0, 2_000));
      trial.goTo(2_000);
      expect(await trial.ask('b')).toEqual(admittedWith(2_000, 'gap', 0, 2_000));
      trial.goTo(8_000);
      expect(await trial.ask('c')).toEqual(admittedWith(8_000, 'gap', 0, 2_000)); // 3/10s: at 10 s as well
      const busy = new Trial(create);
      for (const [at, id] of ['a', 'b', 'c'].entries()) {
        busy.goTo(at * 2_000);
        await busy.ask(id);
      }
      busy.goTo(4_001);
      expect(await busy.ask('c')).toEqual(admittedWith(4_000, '3/10s', 0, 5_999, true));
    });
  });

  describe('the tolerance', () => {
    it.each([
      ['half of it', gapOf(200), 90],
      ['half of it, in whole milliseconds', atMost(1, 102), 45],
      ['at most 120 ms', gapOf(268), 120],
      ['at most 120 ms, with a long gap too', gapOf(3_000), 120],
    ])('is for those that come early, and for newcomers, %s', async (_, policy, earlyMs) => {
      const slot = Math.max(policy.minGapMs, ...policy.rules.map(({ perMs }) => perMs));
      const trial = new Trial(create, policy);
      await trial.askAll('ab');
      trial.goTo(slot - earlyMs - 1);
      expect(await trial.ask('b')).toMatchObject({ kind: 'reserved', at: slot, waitMs: earlyMs + 1 });
      await trial.cancel('b');
      expect(await trial.peek('c', { maxWaitMs: 0 })).toMatchObject({ kind: 'refused', waitMs: earlyMs + 1 });
      await trial.ask('d');
      trial.goTo(slot - earlyMs);
      expect(await trial.ask('d')).toEqual(admitted(slot));
      await trial.refund('d');
      expect(await trial.ask('e', { maxWaitMs: 0 })).toEqual(admitted(slot));
    });
  });

  describe('sendAt', () => {
    it('is the slot on the clock of this process', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(1_900);
      const before = performance.now();
      const answer = await trial.limiter.admit({ recipientId, id: 'b' });
      const sendAt = answer.kind === 'admitted' ? answer.sendAt - 100 : NaN;
      expect(sendAt).toBeGreaterThanOrEqual(before - 1);
      expect(sendAt).toBeLessThanOrEqual(performance.now());
    });
  });

  describe('peek', () => {
    it('answers what an ask would be answered, and changes nothing', async () => {
      const trial = new Trial(create);
      expect(await trial.peek('a')).toEqual(admittedWith(0, 'gap', 0, 2_000));
      await trial.askAll('ab');
      expect(await trial.peek('c')).toEqual(reserved(4_000, 'gap', 4_000));
      expect(await trial.peek('c', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 4_000));
      expect(await trial.peek('c', { maxPending: 1 })).toEqual(refused('max-pending', 'gap', 4_000));
      trial.goTo(2_000);
      expect(await trial.peek('b')).toEqual(admitted(2_000));
      expect(await trial.peek('a', { renew: true })).toEqual(admitted(2_000));
      expect(await trial.peek('a')).toEqual(admitted(0, true));
      expect(await trial.ask('b')).toEqual(admitted(2_000));
    });
  });
}

const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Every wait says its longest cause, and how many are before it in line. */
export function causesContract(create: LimiterFactory): void {
  /** Who asks in a quiet time that ends in less than two hours. `end`: when it ends, from the start of the test. */
  const asleep = (policy = POLICY) => {
    const until = Math.ceil(Date.now() / MINUTE) * MINUTE + HOUR;
    const trial = new Trial(create, policy, { quietHours: quietIn({ from: until - 3 * HOUR, until }) });
    return { trial, end: (((until - trial.start) % DAY) + DAY) % DAY };
  };

  describe('the cause of a wait', () => {
    it('is the limit that alone would make it wait longest, with those that are before it', async () => {
      const trial = new Trial(create, { rules: [{ max: 10, perMs: MINUTE }], minGapMs: 3_000 });
      await trial.askAll('abcdefghijklmno');
      expect(Object.values(await trial.causes())).toEqual([
        ...Array.from({ length: 9 }, (_, before) => `gap, ${before} before`),
        ...Array.from({ length: 5 }, (_, index) => `10/1m, ${index + 9} before`),
      ]);
      const other = new Trial(create, { rules: [{ max: 10, perMs: MINUTE }], minGapMs: 10_000 });
      await other.askAll('abcdefghijklmno');
      expect(await other.why('p')).toBe('gap, 14 before');
    });

    it('is the end of the quiet time for all that wait for it, in an answer and in an inspection', async () => {
      const { trial, end } = asleep();
      const answers = await trial.askAll('abcde');
      expect(answers).toMatchObject(Array.from('abcde', () => ({ rule: 'quiet' })));
      const causes = Array.from('abcde', (id, before) => [id, `quiet until ${end}, ${before} before`] as const);
      expect(await trial.causes()).toEqual(Object.fromEntries(causes));
      expect(await trial.why('f')).toBe(`quiet until ${end}, 5 before`);
      expect(await trial.why('c')).toBe(`quiet until ${end}, 2 before`);
      trial.goTo(end + 10);
      expect(await trial.why('c')).toBe('gap, 2 before');
    });

    it('counts nobody as before it who has the same slot, or is overdue', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.askAll('abcdefg');
      expect(await trial.slots()).toEqual({ d: 10_000, e: 10_000, f: 10_000, g: 20_000 });
      expect(await trial.why('f')).toBe('3/10s, 0 before');
      expect(await trial.why('h')).toBe('3/10s, 3 before');
      trial.goTo(12_001);
      expect(await trial.why('g')).toBe('3/10s, 0 before');
    });
  });
}
