import { describe, expect, it } from 'vitest';
import type { QuietHours } from '../../src/domain/quiet-hours.ts';
import {
  admitted,
  gapOf,
  MINUTE,
  POLICY,
  quietIn,
  recipientId,
  refused,
  reserved,
  Trial,
  type LimiterFactory,
  type LimiterTestOptions,
} from './trial.ts';

const DAY = 86_400_000;
/** How long the quiet time of these tests is. */
const LENGTH = 10 * MINUTE;

interface Stage {
  readonly trial: Trial;
  readonly hours: QuietHours;
  /** The quiet time, from the start of the test. */
  readonly from: number;
  readonly until: number;
}

/** A quiet time some minutes after the start, which begins with a whole minute as all quiet times do. */
function stage(create: LimiterFactory, policy = POLICY, options: LimiterTestOptions = {}, areStored = false): Stage {
  const begin = Date.now() + 5 * MINUTE;
  const hours = quietIn({ from: begin, until: begin + LENGTH });
  const trial = new Trial(create, policy, areStored ? options : { ...options, quietHours: hours });
  const ofDay = Math.floor(begin / MINUTE) * MINUTE;
  const from = (((ofDay - trial.start) % DAY) + DAY) % DAY;
  return { trial, hours, from, until: from + LENGTH };
}

/** Quiet hours: no slot lies in them. */
export function quietContract(create: LimiterFactory): void {
  describe('quiet hours', () => {
    it('make each wait once, and release them paced and in order', async () => {
      const { trial, from, until } = stage(create);
      const ids = 'abcdef';
      trial.goTo(from + 1_000);
      const waitMs = LENGTH - 1_000;
      expect((await trial.askAll(ids)).slice(0, 2)).toEqual([
        reserved(until, 'quiet', waitMs),
        reserved(until + 2_000, 'quiet', waitMs + 2_000),
      ]);
      const slots = await trial.slots();
      expect(Object.values(slots)).toEqual([0, 2, 4, 10, 12, 14].map((s) => until + s * 1_000));
      for (const id of ids) {
        trial.goTo(slots[id] ?? NaN);
        expect(await trial.ask(id)).toEqual(admitted(slots[id] ?? NaN));
      }
    });

    it('leave room for who comes late: no slot lies in the last moment before them', async () => {
      const { trial, from, until } = stage(create, gapOf(1_000));
      trial.goTo(from - 1_151);
      await trial.askAll('ab');
      expect(await trial.slots()).toEqual({ b: from - 151 });
      trial.goTo(from - 1);
      expect(await trial.ask('b')).toEqual(admitted(from - 1));
      const other = stage(create, gapOf(1_000));
      other.trial.goTo(other.from - 1_150);
      await other.trial.askAll('ab');
      expect(await other.trial.slots()).toEqual({ b: other.until });
      trial.goTo(until - 120);
      expect(await trial.ask('c')).toEqual(admitted(until));
    });

    it('are not entered by the time that a caller needs until it can send, in line or held back', async () => {
      const { trial, from } = stage(create, gapOf(1_000), { categories: { messages: gapOf(10_000) } });
      const messages = { category: 'messages' };
      trial.goTo(from - 10_500);
      await trial.askAll('ab', messages);
      trial.goTo(from - 1_500);
      await trial.askAll('cd');
      expect(await trial.slots()).toEqual({ b: from - 500, d: from - 500 });
      trial.goTo(from - 500);
      expect(await trial.peek('d', { leadMs: 499 })).toEqual(admitted(from - 1));
      expect(await trial.peek('d', { leadMs: 500 })).toMatchObject({ kind: 'reserved' });
      await trial.cancel('d');
      expect(await trial.peek('b', { ...messages, leadMs: 499 })).toEqual(admitted(from - 1));
      expect(await trial.peek('b', { ...messages, leadMs: 500 })).toMatchObject({ kind: 'reserved' });
    });

    it('do not count as a wait that is too long, but for what expires', async () => {
      const { trial, from, until } = stage(create);
      trial.goTo(from);
      expect(await trial.ask('a', { maxWaitMs: 0 })).toEqual(reserved(until, 'quiet', LENGTH));
      const waitMs = LENGTH + 2_000;
      const answer = (rule: string) => ({ ...(refused('max-wait', rule, waitMs) as object), quietMs: LENGTH });
      expect(await trial.ask('b', { maxWaitMs: 1_999 })).toEqual(answer('gap')); // what counts is the rest of the wait
      expect(await trial.ask('b', { maxWaitMs: 2_000, expiresInMs: waitMs - 1 })).toEqual(answer('quiet'));
      expect(await trial.ask('b', { maxWaitMs: 2_000, expiresInMs: waitMs })).toEqual(
        reserved(until + 2_000, 'quiet', waitMs),
      );
      trial.goTo(until);
      expect(await trial.ask('c', { expiresInMs: 3_999 })).toEqual(refused('max-wait', 'gap', 4_000));
    });

    it('and a block do not count, also where they overlap', async () => {
      const { trial, from, until } = stage(create);
      trial.goTo(from);
      await trial.block(from + 60_000);
      await trial.ask('a', { maxWaitMs: 1 });
      const waitMs = LENGTH + 2_000;
      expect(await trial.peek('b', { maxWaitMs: 1_999 })).toMatchObject({ kind: 'refused', rule: 'gap' });
      expect(await trial.peek('b', { maxWaitMs: 2_000 })).toEqual(reserved(until + 2_000, 'quiet', waitMs));
      await trial.block(until + 60_000);
      expect(await trial.peek('b', { maxWaitMs: 1_999 })).toMatchObject({ kind: 'refused', rule: 'gap' });
      expect(await trial.peek('b', { maxWaitMs: 2_000 })).toMatchObject({ kind: 'reserved', rule: 'block' });
    });

    it('refuse who will not wait for their end, by the rule quiet', async () => {
      const { trial, from, until } = stage(create);
      trial.goTo(from + 1_000);
      const quietMs = LENGTH - 1_000;
      const answer = { ...(refused('max-wait', 'quiet', quietMs) as object), quietMs };
      expect(await trial.ask('a', { maxQuietMs: 0 })).toEqual(answer);
      expect(await trial.ask('a', { maxQuietMs: quietMs - 1 })).toEqual(answer);
      expect(await trial.ask('a', { maxQuietMs: quietMs })).toEqual(reserved(until, 'quiet', quietMs));
      expect(await trial.ask('b', { maxQuietMs: 0 })).toMatchObject({ rule: 'quiet', waitMs: quietMs + 2_000 });
      const before = stage(create, gapOf(1_000));
      before.trial.goTo(before.from - 500);
      await before.trial.ask('a');
      expect(await before.trial.ask('b', { maxQuietMs: 0 })).toEqual(refused('max-wait', 'quiet', LENGTH + 500));
    });
  });

  describe('quiet hours of a recipient', () => {
    it('apply in place of those of the limiter, at once', async () => {
      const { trial, from, until } = stage(create);
      trial.goTo(from);
      await trial.limiter.quiet(recipientId, { timezone: 'UTC', quietHours: [] });
      expect(await trial.ask('a')).toEqual(admitted(from));
      expect(await trial.limiter.unquiet(recipientId)).toBe(true);
      expect(await trial.limiter.unquiet(recipientId)).toBe(false);
      expect(await trial.ask('b')).toEqual(reserved(until, 'quiet', LENGTH));
      expect(await trial.limiter.peek({ recipientId: 'teacher-43', id: 'a' })).toMatchObject({ rule: 'quiet' });
    });

    it('are shown by inspect', async () => {
      const { trial, hours, from, until } = stage(create);
      expect((await trial.inspect()).quiet).toEqual({ hours, source: 'limiter' });
      const own: QuietHours = { timezone: 'Europe/Paris', quietHours: [] };
      await trial.limiter.quiet(recipientId, own);
      trial.goTo(from);
      expect(await trial.inspect()).toMatchObject({ quiet: { hours: own, source: 'stored' }, nextAt: from });
      await trial.limiter.unquiet(recipientId);
      expect(await trial.inspect()).toMatchObject({ quiet: { hours, until }, nextAt: until, rule: 'quiet' });
      expect('quiet' in (await new Trial(create).inspect())).toBe(false);
    });
  });
}
