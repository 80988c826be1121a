import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createTokenBatches, type TokenBatches, type BatchAsk, type BatchReply } from '../../src/quota/redis-quota.ts';

type Over = 'over';

describe('token batches', () => {
  let now: number;
  let asked: BatchAsk[];
  let answer: (ask: BatchAsk) => BatchReply<Over> | Promise<BatchReply<Over>>;
  let batches: TokenBatches<Over>;

  const generous = ({ promises, newcomers, extra }: BatchAsk): BatchReply<Over> => ({
    answers: Array.from({ length: promises.length + newcomers }, () => 'taken'),
    extra,
  });
  const takeMany = (count: number) => Promise.all(Array.from({ length: count }, () => batches.take()));

  beforeEach(() => {
    [now, asked, answer] = [1_000, [], generous];
    batches = createTokenBatches({
      leaseMs: 100,
      now: () => now,
      ask: async (ask) => {
        asked.push(ask);
        return answer(ask);
      },
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('asks once for all that ask in one turn, and once more for all that ask meanwhile', async () => {
    const release = Promise.withResolvers<undefined>();
    answer = async (ask) => {
      await release.promise;
      return generous(ask);
    };
    const first = takeMany(5);
    await expect.poll(() => asked).toHaveLength(1);
    const second = takeMany(7);
    release.resolve(undefined);
    expect([...(await first), ...(await second)]).toHaveLength(12);
    expect(asked.map(({ newcomers }) => newcomers)).toEqual([5, 7]);
  });

  it('asks for no more than 200 in one call', async () => {
    await takeMany(450);
    expect(asked.map(({ newcomers }) => newcomers)).toEqual([200, 200, 50]);
  });

  it('hold what was used in the last period, and hand it out without a call', async () => {
    await takeMany(10);
    now += 100;
    await batches.take();
    expect(asked.at(-1)).toMatchObject({ newcomers: 1, extra: 10 });
    expect(await takeMany(10)).toEqual(Array.from({ length: 10 }, () => ({ kind: 'taken', useBy: 1_200 })));
    expect(asked).toHaveLength(2);
    await batches.take();
    expect(asked).toHaveLength(3);
  });

  it('hold nothing for one that was idle', async () => {
    await takeMany(10);
    now += 250;
    await batches.take();
    expect(asked.at(-1)).toMatchObject({ newcomers: 1, extra: 0 });
  });

  it('hands out no token past its time, which counts from before the call, and gives back what is left with the next', async () => {
    answer = (ask) => ({ ...generous(ask), extra: 4 });
    expect(await batches.take()).toEqual({ kind: 'taken', useBy: 1_100 });
    now += 99;
    expect(await batches.take()).toEqual({ kind: 'taken', useBy: 1_100 });
    now += 1;
    expect(await batches.take()).toEqual({ kind: 'taken', useBy: 1_200 });
    expect(asked.map(({ unused }) => unused)).toEqual([0, 3]);
  });

  it('never serves from it who comes back: what is set aside is to be used up', async () => {
    answer = (ask) => ({ ...generous(ask), extra: 4 });
    await takeMany(1);
    await Promise.all([batches.take(), batches.take(5_000)]);
    expect(asked.at(-1)).toMatchObject({ promises: [5_000], newcomers: 0, unused: 3 });
  });

  it('answers each with its own: those who come back stand first in a call', async () => {
    answer = () => ({ answers: ['taken', 'over', 'taken', 'over'], extra: 0 });
    const takes = [batches.take(), batches.take(7), batches.take(), batches.take(8)];
    const taken = { kind: 'taken', useBy: 1_100 };
    expect(await Promise.all(takes)).toEqual([taken, taken, 'over', 'over']);
  });

  it('rejects all that wait where a call fails, and gives back all of that call with the next', async () => {
    const failing = Promise.withResolvers<never>();
    answer = () => failing.promise;
    const waiting = [batches.take(), batches.take()];
    await expect.poll(() => asked).toHaveLength(1);
    waiting.push(batches.take());
    failing.reject(new Error('away'));
    const outcomes = await Promise.allSettled(waiting);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(asked).toHaveLength(1);
    answer = generous;
    expect(await batches.take()).toMatchObject({ kind: 'taken' });
    expect(asked.map(({ unused }) => unused)).toEqual([0, Infinity]);
  });

  it('gives back what is left when nobody asks for two periods', async () => {
    vi.useFakeTimers();
    answer = (ask) => ({ ...generous(ask), extra: ask.newcomers > 0 ? 4 : 0 });
    await batches.take();
    await vi.advanceTimersByTimeAsync(199);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.slice(1)).toEqual([{ unused: 4, promises: [], newcomers: 0, extra: 0 }]);
  });

  it('gives back what is left on close, also what a call brings that is under way; a failure of that is nobody’s', async () => {
    const release = Promise.withResolvers<undefined>();
    answer = async (ask) => {
      if (ask.newcomers === 0) throw new Error('away');
      await release.promise;
      return { ...generous(ask), extra: 4 };
    };
    const taken = batches.take();
    const closed = batches.close();
    release.resolve(undefined);
    expect(await taken).toMatchObject({ kind: 'taken' });
    await closed;
    expect(asked.map(({ unused }) => unused)).toEqual([0, 4]);
    await expect(batches.take()).rejects.toThrow('closed');
  });
});
