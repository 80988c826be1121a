import { describe, expect, it } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { SlotId, Limiter } from '../../src/limiter/limiter.ts';
import { gapOf, MINUTE, recipientId, reserved, Trial, type LimiterFactory } from './trial.ts';

const DAY = 86_400_000;
const UNUSABLE = { rules: [{ max: 0, perMs: 1.5 }], minGapMs: -1 };
const FAULTS = /policy\.rules\[0\]\.max: [^]*policy\.rules\[0\]\.perMs: [^]*policy\.minGapMs: /;
/** What plain JavaScript may write, and what is said about it. */
const MISTAKEN: readonly (readonly [policy: unknown, faults: readonly string[]])[] = [
  [undefined, ['policy: expected an object: { rules: [{ max, perMs }], minGapMs }, found nothing']],
  ['10/1m', ['policy: expected an object: { rules: [{ max, perMs }], minGapMs }, found "10/1m"']],
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
      const ask = { recipientId: '', id: '', category: '', maxWaitMs: NaN, leadMs: NaN, maxPending: -1 };
      const faults = new RegExp(
        [
          'recipientId: expected a string of one character or more, found ""',
          'id: expected a string of one character or more, found ""',
          'category: expected a string of one character or more, found ""',
          'maxWaitMs: expected a number of milliseconds, found NaN',
          'leadMs: expected a number of milliseconds from 0 to \\d+, found NaN',
          'maxPending: expected an integer of 0 or more, found -1',
        ].join('[^]*'),
      );
      await rejects(limiter.admit(ask), faults);
      await rejects(limiter.peek(ask), faults);
    });

    it.each([0.5, NaN, Infinity, '3'])('is an ask with a longest queue of %s', async (maxPending) => {
      const { limiter } = new Trial(create);
      const call = limiter.admit({ recipientId, id: 'a', maxPending: maxPending as number });
      await rejects(call, `maxPending: expected an integer of 0 or more, found ${maxPending}`);
    });

    it('is an ask with a lead without end', async () => {
      const { limiter } = new Trial(create);
      const call = limiter.admit({ recipientId, id: 'a', renew: true, leadMs: Infinity });
      await rejects(call, /leadMs: expected .*, found Infinity/);
    });

    it.each<[string, (limiter: Limiter, slot: SlotId) => Promise<unknown>]>([
      ['refund', (limiter, slot) => limiter.refund(slot)],
      ['cancel', (limiter, slot) => limiter.cancel(slot)],
    ])('is a %s of nothing, or for nobody', async (_, call) => {
      const { limiter } = new Trial(create);
      await rejects(call(limiter, { recipientId: '', id: '', category: '' }), /recipientId: [^]*id: [^]*category: /);
    });

    it('is an act upon nobody', async () => {
      const { limiter, start } = new Trial(create);
      const fault = 'recipientId: expected a string of one character or more, found ""';
      await rejects(limiter.limit('', gapOf(1)), fault);
      await rejects(limiter.unlimit(''), fault);
      await rejects(limiter.block('', { until: start + 1, reason: 'x' }), fault);
      await rejects(limiter.unblock(''), fault);
      await rejects(limiter.unquiet(''), fault);
      await rejects(limiter.reset(''), fault);
      await rejects(limiter.inspect(''), fault);
    });

    it('is an ask with an unusable policy, or a limiter with one', async () => {
      const trial = new Trial(create);
      await rejects(trial.ask('a', { policy: UNUSABLE }), FAULTS);
      expect(await trial.reset()).toBe(false);
      expect(() => create(UNUSABLE)).toThrow(InputError);
      const withCategory = () => create(gapOf(1), { categories: { messages: UNUSABLE } });
      expect(withCategory).toThrow(InputError);
      expect(withCategory).toThrow(/categories\.messages\.rules\[0\]\.max: [^]*categories\.messages\.minGapMs: /);
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

    it('is to store an unusable policy, and what is stored stays', async () => {
      const trial = new Trial(create);
      await trial.limit(gapOf(5_000));
      await rejects(trial.limit(UNUSABLE), FAULTS);
      expect(await trial.inspect()).toMatchObject({ policy: gapOf(5_000) });
    });

    it.each(MISTAKEN)('is a policy such as %j, reported by the fields of the library', async (mistaken, faults) => {
      const policy = mistaken as Policy;
      const trial = new Trial(create);
      const message = faults.length === 1 ? faults.join() : faults.join('\n  ');
      if (mistaken !== undefined) await rejects(trial.ask('a', { policy }), message);
      await rejects(trial.limiter.limit(recipientId, policy), message);
      if (mistaken !== undefined) expect(() => create(policy)).toThrow(message);
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
      expect(await limiter.inspect(recipientId)).toMatchObject({ source: 'limiter', reserved: [], sent: [] });
    });

    it.each([0, -1, 0.5, NaN, Infinity])('is to store a policy until %s ms from now', async (ahead) => {
      const trial = new Trial(create);
      const found = `found ${trial.start + ahead}`;
      await rejects(trial.limit(gapOf(1), ahead), `until: expected epoch milliseconds ahead of now, ${found}`);
      expect(await trial.inspect()).toMatchObject({ source: 'limiter' });
    });

    it.each([0, -1, 0.5, NaN, Infinity, 366 * DAY + 1])('is to block until %s ms from now', async (ahead) => {
      const trial = new Trial(create);
      const found = `found ${trial.start + ahead}`;
      await rejects(trial.block(ahead), `until: expected epoch milliseconds ahead of now, at most 366 days, ${found}`);
      expect(await trial.unblock()).toBe(false);
    });

    it.each([
      ['', 'found 0 characters'],
      ['x'.repeat(501), 'found 501 characters'],
      ['line\nbreak', 'found characters that are not printable'],
      ['\u0007', 'found characters that are not printable'],
      [7 as unknown as string, 'found number'],
    ])('is to block for the reason %j', async (reason, found) => {
      const trial = new Trial(create);
      await rejects(trial.block(MINUTE, reason), `reason: expected 1 to 500 printable characters, ${found}`);
      expect(await trial.unblock()).toBe(false);
    });

    it('is none at the edges', async () => {
      const trial = new Trial(create);
      await trial.block(366 * DAY, '🙂'.repeat(500));
      await trial.block(1, 'x');
      await trial.limit(gapOf(1), 1);
      await trial.limit(gapOf(1), 1_000 * DAY);
      const bounds = { maxPending: Number.MAX_SAFE_INTEGER, maxWaitMs: Infinity };
      expect(await trial.ask('a', bounds)).toEqual(reserved(1, 'block', 1));
    });
  });
}
