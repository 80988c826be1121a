import { describe, expect, it } from 'vitest';
import { createClock } from '../../src/limiter/redis/clock.ts';

/** A reply: asked at the local instant `asked`, read on the limiter's clock `offset` ahead after `out`, here after `back`. */
function reply(
  clock: ReturnType<typeof createClock>,
  asked: number,
  offset: number,
  out: number,
  back: number,
): number {
  clock.observe(asked, asked + out + back, Math.floor(asked + out + offset));
  return asked + out + back;
}

const OFFSET = 1_790_000_000_000;

describe('the clock', () => {
  it('is right to the shortest way back of the replies so far', () => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 5, 40);
    expect(clock.toLocal(OFFSET + 100)).toBe(140);
    reply(clock, 100, OFFSET, 5, 2);
    reply(clock, 200, OFFSET, 5, 30);
    expect(clock.toLocal(OFFSET + 1_000)).toBe(1_002);
  });

  it('is not shifted by a reply that lay about: its caller sees how late it is', () => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 1, 1);
    const heardAt = reply(clock, 100, OFFSET, 1, 800);
    const sendAt = clock.toLocal(OFFSET + 101);
    expect(heardAt - sendAt).toBe(799);
  });

  it('follows a step forward with the first reply', () => {
    const clock = createClock();
    reply(clock, 0, OFFSET, 1, 1);
    reply(clock, 100, OFFSET + 5_000, 1, 1);
    expect(clock.toLocal(OFFSET + 5_000 + 200)).toBe(201);
  });

  it('follows a step back with the first reply, to within its round trip', () => {
    const clock = createClock();
    for (let asked = 0; asked < 100; asked += 10) reply(clock, asked, OFFSET, 1, 1);
    reply(clock, 100, OFFSET - 5_000, 1, 3);
    expect(clock.toLocal(OFFSET - 5_000 + 200)).toBe(203);
  });

  it('forgets a quick reply after a minute, or 64 replies: the two clocks drift', () => {
    const byAge = createClock();
    reply(byAge, 0, OFFSET, 0, 1);
    reply(byAge, 60_001, OFFSET, 3, 3);
    expect(byAge.toLocal(OFFSET + 70_000)).toBe(70_003);

    const byCount = createClock();
    reply(byCount, 0, OFFSET, 0, 1);
    for (let asked = 1; asked <= 64; asked += 1) reply(byCount, asked, OFFSET, 3, 3);
    expect(byCount.toLocal(OFFSET + 1_000)).toBe(1_003);
  });
});
