import { describe, expect, it } from 'vitest';
import type { QuietHours } from '../../src/domain/quiet-hours.ts';
import type { Moved } from '../../src/limiter/limiter.ts';
import { atMost, BURSTS, gapOf, MINUTE, POLICY, recipientId, Trial, UNLIMITED, type LimiterFactory } from './trial.ts';

const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const messages = { category: 'messages' };

/** Quiet from the minute of this instant on, until that of another one. */
function quietBetween(from: number, until: number): QuietHours {
  const timeOf = (at: number) => new Date(at).toISOString().slice(11, 16);
  return { timezone: 'UTC', quietHours: [{ from: timeOf(from), until: timeOf(until) }] };
}

/** Every wait tells its longest cause, and how many are before it in line. */
export function causesContract(create: LimiterFactory): void {
  /** Who asks in a quiet time that ends in less than two hours. `end`: when it ends, from the start of the test. */
  const asleep = (policy = POLICY) => {
    const until = Math.ceil(Date.now() / MINUTE) * MINUTE + HOUR;
    const trial = new Trial(create, policy, { quietHours: quietBetween(until - 3 * HOUR, until) });
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

    it('is a rule that is used up, although the others in line make it longer', async () => {
      const trial = new Trial(create, { rules: [{ max: 2, perMs: HOUR }], minGapMs: 2_000 });
      await trial.askAll('abc');
      expect(await trial.why('d')).toBe('2/1h, 2 before');
      expect(await trial.why('c')).toBe('2/1h, 1 before');
      trial.goTo(HOUR - 1_000);
      expect(await trial.why('d')).toBe('gap, 1 before');
    });

    it('is the end of the quiet time for all that wait for it, in an answer and in an inspection', async () => {
      const { trial, end } = asleep();
      const answers = await trial.askAll('abcde');
      expect(answers).toMatchObject(Array.from('abcde', () => ({ rule: 'quiet' })));
      const told = Array.from('abcde', (id, before) => [id, `quiet until ${end}, ${before} before`] as const);
      expect(await trial.causes()).toEqual(Object.fromEntries(told));
      expect(await trial.why('f')).toBe(`quiet until ${end}, 5 before`);
      expect(await trial.why('c')).toBe(`quiet until ${end}, 2 before`);
      trial.goTo(end + 10);
      expect(await trial.why('c')).toBe('gap, 2 before');
    });

    it('is a long line, not the short rest of a quiet time or of a block', async () => {
      const { trial, end } = asleep(gapOf(MINUTE));
      trial.goTo(end - MINUTE);
      await trial.askAll('abc');
      expect(await trial.why('d')).toBe('gap, 3 before');
      const other = new Trial(create, gapOf(MINUTE));
      await other.block(90_000);
      await other.askAll('abc');
      expect(await other.causes()).toEqual({
        a: 'block until 90000, 0 before',
        b: 'block until 90000, 1 before',
        c: 'gap, 2 before',
      });
    });

    it('is the block that ends later than the quiet time, or the quiet time that is longer than the block', async () => {
      const { trial, end } = asleep();
      await trial.block(end + MINUTE);
      expect(await trial.why('a')).toBe(`block until ${end + MINUTE}, 0 before`);
      await trial.block(MINUTE);
      expect(await trial.why('a')).toBe(`quiet until ${end}, 0 before`);
    });

    it('changes with what an operator does, and those that move are told with it', async () => {
      const trial = new Trial(create, gapOf(2_000));
      await trial.askAll('abc');
      const told: string[] = [];
      const onMoved = (moved: readonly Moved[]) =>
        void told.push(...moved.map((each) => `${each.id}: ${trial.cause(each)}`));
      await trial.limiter.block(recipientId, { until: trial.start + HOUR, reason: 'on leave' }, { onMoved });
      const blocked = { b: `block until ${HOUR}, 0 before`, c: `block until ${HOUR}, 1 before` };
      expect(await trial.causes()).toEqual(blocked);
      expect(told.splice(0)).toEqual(Object.entries(blocked).map(([id, cause]) => `${id}: ${cause}`));
      await trial.limiter.limit(recipientId, atMost(1, 3 * HOUR), { onMoved });
      expect(told.splice(0)).toEqual(['b: 1/3h, 0 before', 'c: 1/3h, 1 before']);
      await trial.limiter.unlimit(recipientId, { onMoved });
      await trial.limiter.unblock(recipientId, { onMoved });
      expect(told.splice(2)).toEqual(['b: gap, 0 before', 'c: gap, 1 before']);
    });

    it('is told with the number in the line of its category, if that alone makes it wait', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, HOUR) } });
      await trial.askAll('abc', messages);
      await trial.askAll('def');
      expect(await trial.causes()).toEqual({
        d: 'gap, 0 before',
        e: 'gap, 1 before',
        f: 'gap, 2 before',
        b: 'messages:1/1h, 0 before',
        c: 'messages:1/1h, 1 before',
      });
      expect(await trial.why('g', messages)).toBe('messages:1/1h, 2 before');
      expect(await trial.why('g')).toBe('gap, 3 before');
    });

    it('of an urgent id counts nobody of the overall line', async () => {
      const alarms = { ...atMost(1, MINUTE), exempt: ['gap', 'rules', 'quietHours'] } as const;
      const trial = new Trial(create, gapOf(10 * MINUTE), { categories: { alarms } });
      await trial.askAll('abc');
      await trial.askAll('xyz', { category: 'alarms' });
      expect(await trial.causes()).toMatchObject({ y: 'alarms:1/1m, 0 before', z: 'alarms:1/1m, 1 before' });
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

    it('is nothing where nothing makes it wait', async () => {
      const trial = new Trial(create, UNLIMITED);
      await trial.limit(gapOf(MINUTE));
      await trial.askAll('ab');
      expect(await trial.causes()).toEqual({ b: 'gap, 0 before' });
    });

    it('of a refusal is what the bound that it passes looks at', async () => {
      const { trial, end } = asleep(gapOf(2_000));
      await trial.ask('a');
      expect(await trial.why('b', { maxWaitMs: 0 })).toBe('gap, 1 before');
      expect(await trial.why('b', { maxQuietMs: 0 })).toBe(`quiet until ${end}, 1 before`);
      expect(await trial.why('b', { expiresInMs: 1_000 })).toBe(`quiet until ${end}, 1 before`);
      expect(await trial.why('b', { maxPending: 1 })).toBe(`quiet until ${end}, 1 before`);
    });
  });
}
