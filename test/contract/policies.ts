import { describe, expect, it } from 'vitest';
import {
  admitted,
  atMost,
  BURSTS,
  gapOf,
  MINUTE,
  quietIn,
  reserved,
  UNLIMITED,
  Trial,
  type LimiterFactory,
  admittedWith,
  POLICY,
  refused,
} from './trial.ts';

const DAY = 86_400_000;

/** What may go under which rules. */
export function policiesContract(create: LimiterFactory): void {
  describe('policies', () => {
    it('with rules that ask for the same wait name the first', async () => {
      const trial = new Trial(create, { rules: atMost(1, 2_000).rules, minGapMs: 2_000 });
      expect(await trial.askAll('ab')).toEqual([admitted(0), reserved(2_000, 'gap', 2_000)]);
    });

    it('without a gap let no newcomer overtake a reservation either, when slots before it come free', async () => {
      const trial = new Trial(create, BURSTS);
      await trial.askAll('abcd');
      await trial.refund('b');
      await trial.refund('c');
      expect(await trial.ask('newcomer')).toEqual(reserved(10_000, '3/10s', 10_000));
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

/** Policies that an operator stores for one recipient. */
export function storedPoliciesContract(create: LimiterFactory): void {
  describe('a policy that is stored for a recipient', () => {
    it('is replaced by the next one, its end too', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000), 1_000);
      await trial.limit(gapOf(4_000));
      trial.goTo(1_000);
      await trial.ask('a');
      expect(await trial.peek('b')).toEqual(reserved(5_000, 'gap', 4_000));
    });

    it('ends at the instant that was given', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000), 1_000);
      await trial.ask('a');
      trial.goTo(999);
      expect(await trial.inspect()).toMatchObject({ source: 'stored', policyUntil: 1_000 });
      trial.goTo(1_000);
      expect(await trial.inspect()).toMatchObject({ source: 'limiter' });
      expect(await trial.peek('b')).toEqual(reserved(2_000, 'gap', 1_000));
      expect(await trial.unlimit()).toBe(false);
    });

    it('makes nobody wait longer than until its end, and then the limiter’s own holds', async () => {
      const trial = new Trial(create);
      await trial.ask('a');
      await trial.askAll('bc');
      await trial.limit(atMost(1, 60 * MINUTE), MINUTE);
      expect(await trial.slots()).toEqual({ b: MINUTE, c: MINUTE + 2_000 });
      expect(await trial.ask('d', { maxWaitMs: MINUTE + 4_000 })).toMatchObject({ kind: 'reserved', rule: '1/1h' });
      expect(await trial.slots()).toEqual({ b: MINUTE, c: MINUTE + 2_000, d: MINUTE + 4_000 });
      for (const [id, at] of Object.entries(await trial.slots())) {
        trial.goTo(at);
        expect(await trial.ask(id)).toEqual(admitted(at));
      }
    });

    /** A quiet time of ten minutes, and when it begins: 5 to 6 minutes after the start. */
    const soonQuiet = () => {
      const begin = Math.ceil(Date.now() / MINUTE) * MINUTE + 5 * MINUTE;
      const quietHours = quietIn({ from: begin, until: begin + 10 * MINUTE });
      return { quietHours, from: (start: number) => (((begin - start) % DAY) + DAY) % DAY };
    };

    it('gives way to the limiter’s own also where quiet hours lead past its end', async () => {
      const { quietHours, from } = soonQuiet();
      const trial = new Trial(create, gapOf(3_000), { quietHours });
      const begin = from(trial.start);
      trial.goTo(begin + 1_000);
      await trial.limit(UNLIMITED, begin + 5 * MINUTE);
      await trial.askAll('abc');
      const until = begin + 10 * MINUTE;
      expect(await trial.slots()).toEqual({ a: until, b: until + 3_000, c: until + 6_000 });
      await trial.limit(UNLIMITED, begin + 5 * MINUTE); // plans all anew
      expect(await trial.slots()).toEqual({ a: until, b: until + 3_000, c: until + 6_000 });
    });

    it('gives way to the limiter’s own also where a category leads past its end', async () => {
      const trial = new Trial(create, gapOf(3_000), { categories: { chat: gapOf(1_000) } });
      await trial.limit(UNLIMITED, 1_000);
      await trial.ask('a', { category: 'chat' });
      trial.goTo(950);
      // Its category would allow 1,000, which is near enough to be admitted, but from then on the overall gap holds.
      expect(await trial.ask('b', { category: 'chat' })).toMatchObject({ kind: 'reserved' });
    });

    it('refuses by quiet hours who would wait in them once it has ended', async () => {
      const { quietHours, from } = soonQuiet();
      const trial = new Trial(create, gapOf(2_000), { quietHours });
      await trial.ask('a');
      await trial.limit(atMost(1, 60 * MINUTE), from(trial.start) + MINUTE);
      expect(await trial.ask('b', { maxQuietMs: 0 })).toMatchObject({ kind: 'refused', rule: 'quiet' });
    });

    it('gives no slot after its end that the limiter’s own does not allow', async () => {
      const trial = new Trial(create, gapOf(2_000), { categories: { alarms: { ...gapOf(500), exempt: ['rules'] } } });
      await trial.limit(UNLIMITED, 3_000);
      await trial.block(3_000);
      await trial.askAll('ab');
      await trial.ask('c', { category: 'alarms' });
      await trial.ask('d', { category: 'alarms' });
      const slots = { a: 3_000, b: 5_000, c: 3_000, d: 3_500 };
      expect(await trial.slots()).toEqual(slots);
      await trial.limit(UNLIMITED, 3_000); // plans all anew
      expect(await trial.slots()).toEqual(slots);
    });

    it('is not affected by what the caller does to the object afterwards', async () => {
      const trial = new Trial(create);
      const policy = { rules: [{ max: 1, perMs: 5_000 }], minGapMs: 0 };
      await trial.limit(policy);
      policy.rules = [];
      await trial.ask('a');
      expect(await trial.peek('b')).toEqual(reserved(5_000, '1/5s', 5_000));
    });

    it('keeps what was sent for its own window', async () => {
      const trial = new Trial(create);
      await trial.limit(atMost(1, MINUTE));
      await trial.ask('a');
      trial.goTo(50_000);
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', '1/1m', 10_000));
    });
  });
}

/** Blocked asks that count as sent slots, where an option says so. */
export function countBlockedContract(create: LimiterFactory): void {
  const trialOf = (policy = POLICY) => new Trial(create, policy, { countBlocked: true });

  describe('where blocked asks count', () => {
    it('one that is refused counts as a slot, for itself too', async () => {
      const trial = trialOf();
      expect(await trial.ask('a')).toEqual(admittedWith(0, 'gap', 0, 2_000));
      trial.goTo(500);
      expect(await trial.ask('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 2_000));
      trial.goTo(2_300);
      expect(await trial.ask('c', { maxWaitMs: 0 })).toEqual(refused('max-wait', '3/10s', 7_700));
      trial.goTo(9_999);
      expect(await trial.peek('d')).toEqual(admitted(10_000));
    });

    it('the same ask at the same instant counts once', async () => {
      const trial = trialOf(BURSTS);
      await trial.askAll('ab');
      trial.goTo(5);
      await trial.ask('c');
      trial.goTo(10);
      for (let time = 0; time < 3; time += 1) {
        expect(await trial.ask('d', { maxWaitMs: 0 })).toEqual(refused('max-wait', '3/10s', 9_990));
      }
      expect((await trial.inspect()).sent).toHaveLength(4);
      trial.goTo(11);
      expect(await trial.ask('d', { maxWaitMs: 0 })).toEqual(refused('max-wait', '3/10s', 9_994));
      expect((await trial.inspect()).sent).toHaveLength(5);
    });

    it('a peek answers the wait with its ask counted, and counts nothing', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.ask('a');
      trial.goTo(400);
      expect(await trial.peek('b')).toEqual(reserved(1_400, 'gap', 1_000));
      expect(await trial.peek('b', { maxWaitMs: 0 })).toEqual(refused('max-wait', 'gap', 1_000));
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }]);
    });

    it('only as many are kept as the limits look at, however long they go on', async () => {
      const trial = trialOf(atMost(3, 3_600_000));
      await trial.askAll('abc');
      for (let at = 1_000; at <= 200_000; at += 1_000) {
        trial.goTo(at);
        expect(await trial.ask(`d${at}`, { maxWaitMs: 0 })).toMatchObject({ because: 'max-wait' });
      }
      const { sent } = await trial.inspect();
      expect(sent).toEqual([0, 0, 0, 198_000, 199_000, 200_000].map((at) => ({ at })));
      expect(await trial.peek('e')).toMatchObject({ kind: 'reserved', at: 3_799_000 });
      expect(await trial.ask('a')).toEqual(admitted(0, true));
    });
  });
}
