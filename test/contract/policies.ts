import { describe, expect, it } from 'vitest';
import {
  admitted,
  atMost,
  BURSTS,
  gapOf,
  MINUTE,
  reserved,
  Trial,
  UNLIMITED,
  type LimiterFactory,
  admittedWith,
  POLICY,
  refused,
} from './trial.ts';

/** What may go under which rules. */
export function policiesContract(create: LimiterFactory): void {
  describe('policies', () => {
    it('of an ask apply to that ask', async () => {
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

    it('counts its own asks only, the overall policy all', async () => {
      const trial = trialOf();
      await trial.ask('a', messages);
      expect(await trial.ask('b', alarms)).toEqual(admittedWith(0, 'alarms:gap', 0, 2_000));
      expect(await trial.ask('c')).toEqual(admittedWith(0, '3/10s', 0, 10_000));
      expect(await trial.peek('d', alarms)).toEqual(reserved(10_000, '3/10s', 10_000));
      expect(await trial.peek('d', messages)).toEqual(reserved(MINUTE, 'messages:1/1m', MINUTE));
    });

    it('takes a slot in both or in none', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.ask('a', messages);
      expect(await trial.ask('b', { ...messages, maxWaitMs: 1_000 })).toEqual(
        refused('max-wait', 'messages:1/1m', MINUTE),
      );
      expect(await trial.ask('c')).toEqual(reserved(1_000, 'gap', 1_000));
    });

    it('takes its slot in both at the same instant, when it comes back too', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.askAll('ab', alarms);
      trial.goTo(1_900);
      expect(await trial.ask('b', alarms)).toEqual(admittedWith(2_000, 'alarms:gap', 0, 2_100));
      expect(await trial.ask('c')).toEqual(reserved(3_000, 'gap', 1_100));
      expect(await trial.peek('d', alarms)).toEqual(reserved(4_000, 'gap', 2_100));
    });

    it('stands behind the reservations of both', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.askAll('ab', alarms);
      await trial.askAll('cd');
      expect(await trial.slots()).toEqual({ b: 2_000, c: 1_000, d: 2_000 });
      expect(await trial.ask('e', alarms)).toEqual(reserved(4_000, 'alarms:gap', 4_000));
      await trial.askAll('fg');
      expect(await trial.ask('h', messages)).toEqual(reserved(5_000, 'gap', 5_000));
      expect(await trial.ask('i')).toEqual(reserved(6_000, 'gap', 6_000));
      expect(await trial.peek('j', messages)).toEqual(reserved(5_000 + MINUTE, 'messages:1/1m', 5_000 + MINUTE));
    });

    it('has the smaller tolerance of both', async () => {
      const trial = new Trial(create, POLICY, { categories: { messages: gapOf(100) } });
      await trial.askAll('abc');
      trial.goTo(1_954);
      expect(await trial.peek('b', messages)).toEqual(reserved(2_000, 'gap', 46));
      trial.goTo(5_000);
      expect(await trial.ask('b')).toEqual(admitted(5_000));
      trial.goTo(6_909);
      expect(await trial.peek('c', messages)).toEqual(reserved(7_000, 'gap', 91));
      expect(await trial.peek('c')).toEqual(admitted(7_000));
      trial.goTo(6_910);
      expect(await trial.peek('c', messages)).toEqual(admitted(7_000));
    });

    it('without rules is limited overall, and names those rules', async () => {
      const trial = new Trial(create, BURSTS, { categories: { messages: UNLIMITED } });
      expect(await trial.ask('a', messages)).toEqual(admittedWith(0, '3/10s', 2, 10_000));
      const free = new Trial(create, UNLIMITED, { categories });
      expect(await free.ask('a', messages)).toEqual(admittedWith(0, 'messages:1/1m', 0, MINUTE));
      expect(await free.ask('b')).toEqual(admittedWith(0, 'none', Infinity, 0));
    });

    it('answers the room of the first rule, of all scopes, where none makes the next one wait', async () => {
      const trial = new Trial(create, UNLIMITED, { categories: { messages: atMost(3, MINUTE) } });
      await trial.ask('a', alarms);
      expect(await trial.ask('b', messages)).toEqual(admittedWith(0, 'messages:3/1m', 2, MINUTE));
    });

    it('applies beside a policy that comes with the ask', async () => {
      const trial = trialOf();
      await trial.ask('a', messages);
      const policy = atMost(1, 30_000);
      expect(await trial.peek('b', { ...messages, policy })).toEqual(reserved(MINUTE, 'messages:1/1m', MINUTE));
      expect(await trial.peek('c', { ...alarms, policy: gapOf(120_000) })).toEqual(reserved(120_000, 'gap', 120_000));
    });

    it('counts all that wait overall toward the longest queue', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.askAll('abc');
      expect(await trial.ask('d', { ...messages, maxPending: 2 })).toEqual(refused('max-pending', 'gap', 3_000));
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
    it.each(['letters', 'constructor', '__proto__', 'toString', 'Messages'])(
      'is limited overall: %s',
      async (category) => {
        const trial = trialOf();
        expect(await trial.ask('a', { category })).toEqual(admittedWith(0, '3/10s', 2, 10_000));
        expect(await trial.askAll('bc', { category })).toEqual([admitted(0), admitted(0)]);
        expect(await trial.ask('d', { category })).toEqual(reserved(10_000, '3/10s', 10_000));
        expect(await trial.cancel('d', category)).toBe(true);
        expect(await trial.refund('c', category)).toBe(true);
        expect(await trial.reset()).toBe(true);
      },
    );

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
    it('is refunded in both', async () => {
      const trial = trialOf(atMost(1, 1_000));
      await trial.ask('a', messages);
      expect(await trial.refund('a', 'messages')).toBe(true);
      expect(await trial.refund('a', 'messages')).toBe(false);
      expect(await trial.ask('b', messages)).toEqual(admitted(0));
    });

    it('is refunded overall only, where the category is not given', async () => {
      const trial = trialOf(atMost(1, 1_000));
      await trial.ask('a', messages);
      expect(await trial.refund('a')).toBe(true);
      expect(await trial.peek('b')).toEqual(admitted(0));
      expect(await trial.peek('b', messages)).toEqual(reserved(MINUTE, 'messages:1/1m', MINUTE));
    });

    it('is cancelled in both', async () => {
      const trial = trialOf(gapOf(1_000));
      await trial.ask('a');
      await trial.ask('b', messages);
      expect(await trial.cancel('b', 'messages')).toBe(true);
      expect(await trial.cancel('b', 'messages')).toBe(false);
      expect(await trial.ask('c', messages)).toEqual(reserved(1_000, 'gap', 1_000));
    });

    it('is renewed in both', async () => {
      const trial = trialOf();
      await trial.ask('a', alarms);
      trial.goTo(700);
      expect(await trial.ask('a', { ...alarms, renew: true })).toEqual(admittedWith(700, 'alarms:gap', 0, 2_000));
    });

    it('is forgotten in all of them by a reset', async () => {
      const trial = trialOf();
      await trial.ask('a', messages);
      await trial.ask('b', alarms);
      await trial.limiter.admit({ recipientId: 'teacher-43', id: 'a', ...messages });
      expect(await trial.reset()).toBe(true);
      expect(await trial.ask('d', messages)).toEqual(admittedWith(0, 'messages:1/1m', 0, MINUTE));
      expect(await trial.ask('e', alarms)).toEqual(admittedWith(0, 'alarms:gap', 0, 2_000));
      const other = await trial.limiter.peek({ recipientId: 'teacher-43', id: 'b', ...messages });
      expect(other).toMatchObject({ kind: 'reserved', rule: 'messages:1/1m' });
    });
  });
}
