import { describe, expect, it } from 'vitest';
import { createOutageGate } from '../../src/limiter/fallback.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';

const fail = () => Promise.reject(new LimiterUnavailableError('away'));
const instead = () => 'instead';

/** A call that counts, and is answered when the test says so. */
function openCall() {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const call = { count: 0, run: () => ((call.count += 1), promise), resolve, reject };
  return call;
}

describe('the outage gate', () => {
  it('passes answers on, and tries every call, while all are answered', async () => {
    const gate = createOutageGate({ pauseMs: 60_000 });
    for (const answer of ['a', 'b']) {
      expect(await gate.run(() => Promise.resolve(answer), instead)).toBe(answer);
    }
  });

  it('answers otherwise where a call fails, and tries none during the pause', async () => {
    const gate = createOutageGate({ pauseMs: 60_000 });
    expect(await gate.run(fail, instead)).toBe('instead');
    const later = openCall();
    expect(await gate.run(later.run, instead)).toBe('instead');
    expect(later.count).toBe(0);
  });

  it('tries one call at a time after the pause, and all of them once that is answered', async () => {
    const gate = createOutageGate({ pauseMs: 0 });
    await gate.run(fail, instead);
    const probe = openCall();
    const asked = gate.run(probe.run, instead);
    expect(await gate.run(probe.run, instead)).toBe('instead');
    expect(probe.count).toBe(1);
    probe.resolve('back');
    expect(await asked).toBe('back');
    expect(await Promise.all([gate.run(probe.run, instead), gate.run(probe.run, instead)])).toEqual(['back', 'back']);
    expect(probe.count).toBe(3);
  });

  it('tries again after a probe that failed', async () => {
    const gate = createOutageGate({ pauseMs: 0 });
    for (let tries = 0; tries < 3; tries += 1) expect(await gate.run(fail, instead)).toBe('instead');
    expect(await gate.run(() => Promise.resolve('back'), instead)).toBe('back');
  });

  it('does not take a failure for news where the call was made before the last answer', async () => {
    const gate = createOutageGate({ pauseMs: 60_000 });
    const slow = openCall();
    const asked = gate.run(slow.run, instead);
    await later();
    await gate.run(() => Promise.resolve('answered'), instead);
    slow.reject(new LimiterUnavailableError('away'));
    expect(await asked).toBe('instead');
    expect(await gate.run(() => Promise.resolve('answered'), instead)).toBe('answered');
  });

  it('lets every other error through, also from a probe, which another may follow', async () => {
    const gate = createOutageGate({ pauseMs: 0 });
    const misuse = () => Promise.reject(new TypeError('misuse'));
    await expect(gate.run(misuse, instead)).rejects.toThrow(TypeError);
    await gate.run(fail, instead);
    await expect(gate.run(misuse, instead)).rejects.toThrow(TypeError);
    expect(await gate.run(() => Promise.resolve('back'), instead)).toBe('back');
  });

  it('tells once that calls are answered otherwise, and once that they no longer are', async () => {
    const told: boolean[] = [];
    const gate = createOutageGate({ pauseMs: 0, onChange: (isAway) => told.push(isAway) });
    for (const call of [fail, fail, () => Promise.resolve('back'), () => Promise.resolve('back')]) {
      await gate.run(call, instead);
    }
    expect(told).toEqual([true, false]);
  });
});

/** Some instant later on `performance.now()`. */
function later(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}
