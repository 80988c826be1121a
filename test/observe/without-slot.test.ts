import { describe, expect, it } from 'vitest';
import { createSlotWatch } from '../../src/observe/without-slot.ts';

describe('a worker that gets no slot', () => {
  function open() {
    let at = 1_000;
    return { slots: createSlotWatch(() => at), pass: (ms: number) => void (at += ms) };
  }

  it('knows since when, and why', () => {
    const { slots, pass } = open();
    expect(slots.current()).toBeUndefined();
    slots.asked('replicas-missing');
    expect(slots.current()).toEqual({ code: 'replicas-missing', since: 1_000, lastAt: 1_000 });
    pass(2_000);
    slots.asked('replicas-missing');
    slots.asked('answer'); // a slot that lies ahead needs no replica
    expect(slots.current()).toEqual({ code: 'replicas-missing', since: 1_000, lastAt: 3_000 });
    pass(500);
    slots.asked('limiter-unavailable');
    expect(slots.current()).toEqual({ code: 'limiter-unavailable', since: 1_000, lastAt: 3_500 });
  });

  it('gets slots again from the next one on, and answers from the next one on', () => {
    const { slots } = open();
    slots.asked('replicas-missing');
    slots.asked('slot');
    expect(slots.current()).toBeUndefined();
    slots.asked('limiter-unavailable');
    slots.asked('answer');
    expect(slots.current()).toBeUndefined();
  });

  it('forgets it after a minute without an ask: another worker may have got the slot', () => {
    const { slots, pass } = open();
    slots.asked('replicas-missing');
    pass(60_000);
    expect(slots.current()).toBeUndefined();
    slots.asked('replicas-missing');
    expect(slots.current()?.since).toBe(61_000);
  });
});
