import { describe, expect, it } from 'vitest';
import type { Moved, WaitingAsk } from '../../src/limiter/limiter.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { recipientId } from './support.ts';
import { DAY_MS, open } from './waiting-bench.ts';

describe('a line that nobody moved', () => {
  const ask = async (bench: ReturnType<typeof open>, name: string, more: Partial<WaitingAsk> = {}) => {
    const answer = await bench.ask(name, { enqueuedAt: 1, ...more });
    return 'canMoveUp' in answer && answer.canMoveUp;
  };
  /** One was sent, and two wait for the end of a block that is gone. */
  async function interrupted(category?: string) {
    const bench = open();
    const more = category === undefined ? {} : { category };
    for (const name of ['1', '2']) await bench.ask(name, more);
    await bench.block(DAY_MS);
    for (const name of ['3', '4']) expect(await ask(bench, name, more)).toBe(false);
    const { settings } = recipientKeys(bench.prefix, recipientId);
    await bench.redis.del(settings); // `unblock` began with this, and ended before it moved anything
    return { ...bench, more };
  }

  it.each([undefined, 'messages'])('is moved by the next one that has to wait: category %s', async (category) => {
    const bench = await interrupted(category);
    const { clock, limiter, more } = bench;
    clock.now += 5_000;
    expect(await ask(bench, '5', more)).toBe(true);
    expect(await ask(bench, '5', more)).toBe(true); // its worker died before it moved the line
    expect(await ask(bench, '3', more)).toBe(true); // it came before its slot
    const moved: Moved[] = [];
    await limiter.moveUp(recipientId, { onMoved: (some) => void moved.push(...some), leadMs: 1_000 });
    expect(moved.length).toBeGreaterThanOrEqual(category === undefined ? 4 : 3);
    expect(await ask(bench, '5', more)).toBe(false);
    expect(await ask(bench, '6', more)).toBe(false);
  });

  it('is not what has a reason: a block, quiet hours, the limits, one that is overdue', async () => {
    const bench = open();
    const { limiter, clock } = bench;
    for (const name of ['1', '2']) expect(await ask(bench, name)).toBe(false);
    await bench.block(DAY_MS);
    expect(await ask(bench, '3')).toBe(false);
    await limiter.unblock(recipientId);
    const hours = { timezone: 'UTC', quietHours: [{ from: '00:00', until: '23:59' }] };
    await limiter.quiet(recipientId, hours);
    expect(await ask(bench, '4')).toBe(false);
    await limiter.unquiet(recipientId);
    for (const name of ['5', '6', '7', '8']) expect(await ask(bench, name)).toBe(false);
    clock.now += 30_000;
    expect(await ask(bench, '9', { behindOverdue: true })).toBe(false);
  });

  it('is announced before it moves: who dies in between leaves jobs that come too early', async () => {
    const { limiter } = await interrupted();
    const before = (await limiter.inspect(recipientId)).reserved.map(({ at }) => at);
    const announced: Moved[] = [];
    const dies = limiter.moveUp(recipientId, {
      onMoving(some) {
        announced.push(...some);
        throw new Error('killed');
      },
    });
    await expect(dies).rejects.toThrow('killed');
    expect(announced.map(({ id, from }) => ({ id, from }))).toEqual(
      ['2/0', '3/0', '4/0'].map((id, index) => ({ id, from: before[index] })),
    );
    expect((await limiter.inspect(recipientId)).reserved.map(({ at }) => at)).toEqual(before);
  });
});

describe('behindOverdue', () => {
  it('waits behind what is overdue by more than two seconds, until that is forgotten', async () => {
    const { ask, clock, start, reserved } = open();
    for (const name of ['first', 'old', 'older']) await ask(name);
    clock.now = start + 30_000;
    expect(await ask('raised', { behindOverdue: true })).toMatchObject({ kind: 'reserved', at: start + 33_000 });
    expect(await reserved()).toEqual(['old/0', 'older/0', 'raised/0']);
    // What is overdue is sent in its order, and the newcomer as soon as the limits allow it then.
    expect(await ask('old')).toMatchObject({ kind: 'admitted', at: start + 30_000 });
    clock.now = start + 33_000;
    expect(await ask('older')).toMatchObject({ kind: 'admitted', at: start + 33_000 });
    clock.now = start + 36_000;
    expect(await ask('raised')).toMatchObject({ kind: 'admitted', at: start + 36_000 });
  });

  it('does not wait without such a line, nor for a no-show of a minute ago', async () => {
    const { ask, clock, start } = open();
    expect(await ask('first', { behindOverdue: true })).toMatchObject({ kind: 'admitted' });
    await ask('no-show');
    clock.now = start + 3_000 + 60_001;
    expect(await ask('next', { behindOverdue: true })).toMatchObject({ kind: 'admitted' });
  });
});
