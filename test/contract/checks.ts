import { describe, expect, it } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { gapOf, MINUTE, recipientId, reserved, Trial, type LimiterFactory } from './trial.ts';

const DAY = 86_400_000;
const UNUSABLE = { rules: [{ max: 0, perMs: 1.5 }], minGapMs: -1 };
const FAULTS = /policy\.rules\[0\]\.max: [^]*policy\.rules\[0\]\.perMs: [^]*policy\.minGapMs: /;
/** What plain JavaScript may write, and what is said about it. */
const MISTAKEN: readonly (readonly [policy: unknown, faults: readonly string[]])[] = [
  [
    { max: 10, per: '1s' },
    [
      'policy.max: expected no such field (did you mean rules?), found one',
      'policy.per: expected no such field (did you mean rules?), found one',
      'policy.rules: expected an array of rules, such as [{ max: 10, perMs: 60_000 }], found nothing',
      'policy.minGapMs: expected an integer of milliseconds from 0 to 2678400000 (31d); 0 for no gap, found nothing',
    ],
  ],
  [
    { rules: [{ max: 10, per: '1s' }, '10/1m'], minGap: 0, minGapMs: 0 },
    [
      'policy.minGap: expected no such field (did you mean minGapMs?), found one',
      'policy.rules[0].per: expected no such field (did you mean perMs?), found one',
      'policy.rules[0].perMs: expected an integer of milliseconds from 1 to 2678400000 (31d), found nothing',
      'policy.rules[1]: expected a rule, such as { max: 10, perMs: 60_000 }, found "10/1m"',
    ],
  ],
];

/** Calls that make no sense: which faults are reported, and that nothing is written. */
export function checksContract(create: LimiterFactory): void {
  const rejects = async (call: Promise<unknown>, message: RegExp | string) => {
    await expect(call).rejects.toThrow(InputError);
    await expect(call).rejects.toThrow(message);
  };

  describe('a call that makes no sense', () => {
    it('is refused with every fault, where an ask names nobody, nothing, or bounds that are none', async () => {
      const { limiter } = new Trial(create);
      const ask = { recipientId: '', id: '', category: '', maxWaitMs: NaN, leadMs: Infinity, maxPending: -1 };
      const faults = new RegExp(
        [
          'recipientId: expected a string of one character or more, found ""',
          'id: expected a string of one character or more, found ""',
          'category: expected a string of one character or more, found ""',
          'maxWaitMs: expected a number of milliseconds, found NaN',
          'leadMs: expected a number of milliseconds from 0 to \\d+, found Infinity',
          'maxPending: expected an integer of 0 or more, found -1',
        ].join('[^]*'),
      );
      await rejects(limiter.admit(ask), faults);
      await rejects(limiter.peek(ask), faults);
    });

    it('is an act upon nobody, or on no slot', async () => {
      const { limiter, start } = new Trial(create);
      const nothing = { recipientId: '', id: '', category: '' };
      await rejects(limiter.refund(nothing), /recipientId: [^]*id: [^]*category: /);
      await rejects(limiter.cancel(nothing), /recipientId: [^]*id: [^]*category: /);
      const fault = 'recipientId: expected a string of one character or more, found ""';
      await rejects(limiter.limit('', gapOf(1)), fault);
      await rejects(limiter.unlimit(''), fault);
      await rejects(limiter.block('', { until: start + 1, reason: 'x' }), fault);
      await rejects(limiter.unblock(''), fault);
      await rejects(limiter.unquiet(''), fault);
      await rejects(limiter.reset(''), fault);
      await rejects(limiter.inspect(''), fault);
    });

    it('is an ask with an unusable policy, a limiter with one, or to store one: what is stored stays', async () => {
      const trial = new Trial(create);
      await rejects(trial.ask('a', { policy: UNUSABLE }), FAULTS);
      expect(await trial.reset()).toBe(false);
      expect(() => create(UNUSABLE)).toThrow(InputError);
      expect(() => create(gapOf(1), { categories: { messages: UNUSABLE } })).toThrow(
        /categories\.messages\.rules\[0\]\.max: [^]*categories\.messages\.minGapMs: /,
      );
      await trial.limit(gapOf(5_000));
      await rejects(trial.limit(UNUSABLE), FAULTS);
      expect(await trial.inspect()).toMatchObject({ policy: gapOf(5_000) });
    });

    it('is an exempt category without limits of its own, or quiet hours that are none', async () => {
      const emergency = { rules: [], minGapMs: 0, exempt: ['gap'] } as const;
      expect(() => create(gapOf(1), { categories: { emergency } })).toThrow(
        'categories.emergency: expected rules or minGapMs of its own beside exempt',
      );
      expect(() => create(gapOf(1), { quietHours: { timezone: 'Mars', quietHours: [] } })).toThrow(
        'timezone: expected a time zone such as Europe/Paris',
      );
      const { limiter } = new Trial(create);
      const hours = { timezone: 'UTC', quietHours: [{ from: '21:00', until: '21:00' }] };
      const faults = /recipientId: expected a string[^]*quietHours\[0\].until: expected another time than from/;
      await rejects(limiter.quiet('', hours), faults);
    });

    it.each(MISTAKEN)('is a policy such as %j, reported by the fields of the library', async (mistaken, faults) => {
      const policy = mistaken as Policy;
      const trial = new Trial(create);
      const message = faults.join('\n  ');
      await rejects(trial.ask('a', { policy }), message);
      await rejects(trial.limiter.limit(recipientId, policy), message);
      expect(() => create(policy)).toThrow(message);
    });

    it('is one with a field or an option that does not exist', async () => {
      const { limiter, start } = new Trial(create);
      const wrong = { maxWait: 5, recipient: 'teacher-42' };
      const asked = limiter.admit({ recipientId, id: 'a', ...wrong });
      await rejects(asked, /maxWait: [^]*did you mean maxWaitMs[^]*recipient: [^]*did you mean recipientId/);
      const until = start + MINUTE;
      const lead = { lead: 5 } as object;
      await rejects(limiter.limit(recipientId, gapOf(1), { until, ...lead }), 'lead: expected no such field');
      await rejects(limiter.block(recipientId, { until, reason: 'x', ...lead }), 'lead: expected no such field');
      await rejects(limiter.unblock(recipientId, lead), 'lead: expected no such field (did you mean leadMs?)');
      await rejects(limiter.unblock(recipientId, { leadMs: 0.5 }), 'leadMs: expected an integer');
      expect(await limiter.inspect(recipientId)).toMatchObject({ source: 'limiter', reserved: [], sent: [] });
    });

    it.each([
      [{ mostTimes: -1, mostMs: 0 }, 'overtaking.mostTimes: expected an integer of 0 or more, found -1'],
      [{ mostTimes: 1, mostMs: 0.5 }, 'overtaking.mostMs: expected an integer of 0 or more, found 0.5'],
      [{ mostTimes: 1, mostMs: 1, most: 1 }, 'overtaking.most: expected no such field'],
    ])('is a limiter with such bounds of overtaking: %j', (overtaking, message) => {
      expect(() => create(gapOf(2_000), { overtaking })).toThrow(message);
    });

    it.each([0, 0.5, NaN, Infinity, 366 * DAY + 1])('is to block until %s ms from now', async (ahead) => {
      const trial = new Trial(create);
      const found = `found ${trial.start + ahead}`;
      await rejects(trial.block(ahead), `until: expected epoch milliseconds ahead of now, at most 366 days, ${found}`);
      expect(await trial.unblock()).toBe(false);
    });

    it('is to store a policy until now', async () => {
      const trial = new Trial(create);
      await rejects(trial.limit(gapOf(1), 0), `until: expected epoch milliseconds ahead of now, found ${trial.start}`);
      expect(await trial.inspect()).toMatchObject({ source: 'limiter' });
    });

    it.each([
      ['', 'found 0 characters'],
      ['x'.repeat(501), 'found 501 characters'],
      ['line\nbreak', 'found characters that are not printable'],
      [7 as unknown as string, 'found number'],
    ])('is to block for the reason %j', async (reason, found) => {
      const trial = new Trial(create);
      await rejects(trial.block(MINUTE, reason), `reason: expected 1 to 500 printable characters, ${found}`);
      expect(await trial.unblock()).toBe(false);
    });

    it('is none at the edges', async () => {
      const trial = new Trial(create);
      await trial.block(366 * DAY, '🙂'.repeat(500));
      expect(await trial.inspect()).toMatchObject({ block: { until: 366 * DAY, reason: '🙂'.repeat(500) } });
      await trial.block(1, 'x');
      await trial.limit(gapOf(1), 1);
      await trial.limit(gapOf(1), 1_000 * DAY);
      const bounds = { maxPending: Number.MAX_SAFE_INTEGER, maxWaitMs: Infinity };
      expect(await trial.ask('a', bounds)).toEqual(reserved(1, 'block', 1));
    });
  });
}
