import { describe, expect, it } from 'vitest';
import { atMost, BURSTS, gapOf, MINUTE, POLICY, Trial, UNLIMITED, type LimiterFactory } from './trial.ts';

/** What an operator is told about a recipient. */
export function inspectContract(create: LimiterFactory): void {
  describe('inspect', () => {
    it('tells of an unknown recipient that anything goes', async () => {
      const trial = new Trial(create);
      trial.goTo(7);
      expect(await trial.inspect()).toEqual({
        now: 7,
        policy: POLICY,
        source: 'limiter',
        sent: [],
        reserved: [],
        nextAt: 7,
        rule: 'gap',
      });
    });

    it('tells what was sent and what is reserved, the oldest first, and when a newcomer could go', async () => {
      const trial = new Trial(create);
      await trial.askAll('abcd');
      trial.goTo(1_900);
      await trial.ask('b');
      expect(await trial.inspect()).toEqual({
        now: 1_900,
        policy: POLICY,
        source: 'limiter',
        sent: [{ at: 0 }, { at: 2_000 }],
        reserved: [
          { at: 4_000, id: 'c' },
          { at: 10_000, id: 'd' },
        ],
        nextAt: 12_000,
        rule: '3/10s',
      });
    });

    it('names those that were sent, where ids are kept', async () => {
      const trial = new Trial(create, BURSTS, { keepIds: true });
      const ids = ['b', 'msg-8841', '9007199254740993', 'Ünï {c} ô dé\n', 'x'.repeat(300)];
      for (const [at, id] of ids.entries()) {
        trial.goTo(at);
        await trial.ask(id, { policy: UNLIMITED });
      }
      const { sent } = await trial.inspect();
      expect(sent).toMatchObject(ids.map((_, at) => ({ at })));
      expect(sent.slice(0, 3).map(({ id }) => id)).toEqual(ids.slice(0, 3));
      expect(await trial.refund('msg-8841')).toBe(true);
      expect(await trial.ask(ids[4] ?? '')).toMatchObject({ repeated: true });
    });

    it('names no mark of a blocked ask', async () => {
      const trial = new Trial(create, gapOf(1_000), { keepIds: true, countBlocked: true });
      await trial.ask('a');
      trial.goTo(10);
      await trial.ask('b', { maxWaitMs: 0 });
      const { sent, nextAt, rule } = await trial.inspect();
      expect(sent).toEqual([{ at: 0, id: 'a' }, { at: 10 }]);
      expect([nextAt, rule]).toEqual([1_010, 'gap']);
    });

    it('tells the policy that is stored, and when it ends', async () => {
      const trial = new Trial(create);
      const policy = { rules: [{ max: 2, perMs: MINUTE }], minGapMs: 500 };
      await trial.limit(policy);
      expect(await trial.inspect()).toMatchObject({ policy, source: 'stored' });
      expect(await trial.inspect()).not.toHaveProperty('policyUntil');
      await trial.limit(UNLIMITED, 1_000);
      expect(await trial.inspect()).toMatchObject({
        policy: UNLIMITED,
        source: 'stored',
        policyUntil: 1_000,
        rule: 'none',
      });
      trial.goTo(1_000);
      expect(await trial.inspect()).toMatchObject({ policy: POLICY, source: 'limiter' });
      expect(await trial.inspect()).not.toHaveProperty('policyUntil');
    });

    it('tells the block until its end', async () => {
      const trial = new Trial(create);
      await trial.block(1_000, 'asked for “quiet”: até já 🙂');
      expect(await trial.inspect()).toMatchObject({
        block: { until: 1_000, reason: 'asked for “quiet”: até já 🙂' },
        nextAt: 1_000,
        rule: 'block',
      });
      trial.goTo(1_000);
      expect(await trial.inspect()).not.toHaveProperty('block');
      expect(await trial.inspect()).toMatchObject({ nextAt: 1_000, rule: 'gap' });
    });

    it('tells no slots that are older than the longest window in force', async () => {
      const trial = new Trial(create, atMost(5, 10_000));
      await trial.ask('a');
      trial.goTo(5_000);
      await trial.ask('b');
      trial.goTo(10_000);
      expect((await trial.inspect()).sent).toEqual([{ at: 0 }, { at: 5_000 }]);
      trial.goTo(10_001);
      expect((await trial.inspect()).sent).toEqual([{ at: 5_000 }]);
      await trial.limit(gapOf(1_000));
      expect((await trial.inspect()).sent).toEqual([]);
    });

    it('tells reservations that are overdue by up to a minute', async () => {
      const trial = new Trial(create);
      await trial.askAll('ab');
      trial.goTo(2_000 + MINUTE);
      expect((await trial.inspect()).reserved).toEqual([{ at: 2_000, id: 'b' }]);
      trial.goTo(2_001 + MINUTE);
      expect((await trial.inspect()).reserved).toEqual([]);
    });

    it('tells the slots of every category among the others', async () => {
      const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, MINUTE) } });
      await trial.ask('a', { category: 'messages' });
      await trial.ask('b');
      await trial.ask('c', { category: 'messages' });
      const { policy, sent, reserved, nextAt, rule } = await trial.inspect();
      expect({ policy, sent, reserved, nextAt, rule }).toEqual({
        policy: gapOf(1_000),
        sent: [{ at: 0 }],
        reserved: [
          { at: 1_000, id: 'b' },
          { at: MINUTE, id: 'c' },
        ],
        nextAt: 2_000,
        rule: 'gap',
      });
    });

    it('tells those that their category holds back by their slots, each once', async () => {
      const categories = { messages: gapOf(2_200), alarms: gapOf(2_500) };
      const trial = new Trial(create, gapOf(1_000), { categories });
      await trial.askAll('ab', { category: 'messages' });
      await trial.askAll('cd', { category: 'alarms' });
      await trial.ask('e');
      await trial.ask('f', { category: 'messages' });
      const { reserved, nextAt, rule } = await trial.inspect();
      expect(reserved).toEqual([
        { at: 1_000, id: 'c' },
        { at: 2_000, id: 'e' },
        { at: 2_200, id: 'b' },
        { at: 3_500, id: 'd' },
        { at: 4_400, id: 'f' },
      ]);
      expect([nextAt, rule]).toEqual([3_000, 'gap']);
    });

    it('writes nothing', async () => {
      const trial = new Trial(create, gapOf(1_000), { countBlocked: true });
      await trial.ask('a');
      await trial.inspect();
      expect(await trial.inspect()).toMatchObject({ sent: [{ at: 0 }], reserved: [], nextAt: 1_000 });
    });
  });
}
