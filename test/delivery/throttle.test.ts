import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { makeDevice, makeNotification } from '../support/push.ts';
import { none, openBench, POLICY, RECIPIENT, takeDown } from './support.ts';

describe('a blocked notification', () => {
  it('is put back for exactly the wait, and sent when it is due', async () => {
    const { run, sandbox } = await openBench();
    await run(makeNotification());
    const second = makeNotification();
    const { outcome, progress } = await run(second);
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
    const { waitMs, delayMs } = outcome as { waitMs: number; delayMs: number };
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(POLICY.minGapMs);
    expect(delayMs).toBe(waitMs - 25); // a worker sleeps the rest
    expect(progress).toMatchObject({ requeues: 1, tries: 0 });

    await sleep(delayMs);
    expect((await run(second, progress)).outcome).toEqual({ kind: 'delivered' });
    const [first, last] = sandbox.journal.accepted;
    expect((last?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(POLICY.minGapMs - 50);
  });

  it('expires where its slot lies beyond its time, and leaves no trace', async () => {
    const { run, limiter } = await openBench();
    await run(makeNotification());
    expect((await run(makeNotification({ expiresAt: Date.now() + 300 }))).outcome).toEqual({ kind: 'expired' });
    expect((await limiter.inspect(RECIPIENT)).reserved).toEqual([]);
  });

  it('becomes a dead letter where its slot lies too far ahead', async () => {
    const { run } = await openBench();
    await run(makeNotification());
    const { outcome } = await run(makeNotification(), none, { maxWaitMs: 100 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'throttled-too-long' });
  });

  it('becomes a dead letter where too many wait for the recipient', async () => {
    const { run } = await openBench();
    for (let before = 0; before < 3; before++) await run(makeNotification(), none, { maxPending: 2 });
    const { outcome } = await run(makeNotification(), none, { maxPending: 2 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'throttled-too-long' });
    expect((outcome as { message: string }).message).toMatch(/^2 or more wait for this recipient already/);
  });

  it('gives its reservation back when it expires', async () => {
    const { run, limiter } = await openBench();
    await run(makeNotification());
    const blocked = makeNotification({ expiresAt: Date.now() + 60_000 });
    const { progress } = await run(blocked);
    expect((await limiter.inspect(RECIPIENT)).reserved).toHaveLength(1);
    const later = { now: () => Date.now() + 120_000 };
    expect((await run(blocked, progress, later)).outcome).toEqual({ kind: 'expired' });
    expect((await limiter.inspect(RECIPIENT)).reserved).toEqual([]);
  });

  it('is dropped on request', async () => {
    const { run, sandbox, limiter } = await openBench();
    await run(makeNotification());
    expect((await run(makeNotification({ onThrottle: 'drop' }))).outcome).toEqual({ kind: 'dropped', rule: 'gap' });
    expect(sandbox.journal.accepted).toHaveLength(1);
    expect((await limiter.inspect(RECIPIENT)).reserved).toEqual([]);
  });
});

describe('a blocked notification that is to be silent', () => {
  it('is sent without a sound, and takes no slot', async () => {
    const { run, sandbox, limiter } = await openBench();
    await run(makeNotification());
    const silent = makeNotification({ sound: 'default', onThrottle: 'silence' });
    expect((await run(silent)).outcome).toEqual({ kind: 'delivered', silenced: true });
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
    const entry = sandbox.journal.accepted[1];
    expect(entry?.payload).toMatchObject({ aps: { 'interruption-level': 'passive' } });
    expect(entry?.payload).not.toHaveProperty('aps.sound');
    expect(entry?.priority).toBe('5');
  });

  it('is not called silenced if one of its devices made a sound later', async () => {
    const bench = await openBench();
    const { run, sandbox, limiter } = bench;
    await run(makeNotification());
    const [first, second] = [makeDevice(), makeDevice()];
    sandbox.apns.script(second.token, [{ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' }]);
    const both = makeNotification({ devices: [first, second], onThrottle: 'silence' });
    const { outcome, progress } = await run(both);
    expect(outcome).toMatchObject({ kind: 'retried' });
    expect(progress).toMatchObject({ silenced: true, devices: { 'apns#0': 'delivered' } });
    await limiter.reset(RECIPIENT);
    expect((await run(both, progress)).outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted.at(-1)?.payload).not.toMatchObject({ aps: { 'interruption-level': 'passive' } });
  });

  it('is not called silenced if the limits had room for it', async () => {
    const { run } = await openBench();
    expect((await run(makeNotification({ onThrottle: 'silence' }))).outcome).toEqual({ kind: 'delivered' });
  });

  it('is tried once only at a provider that cannot be reached', async () => {
    const bench = await openBench();
    const { run, replies } = bench;
    await run(makeNotification());
    await takeDown(bench, 'fcm');
    const devices = [makeDevice('apns'), makeDevice('fcm')];
    const { outcome, progress } = await run(makeNotification({ devices, onThrottle: 'silence' }));
    expect(outcome).toMatchObject({ kind: 'deferred', code: expect.stringMatching(/^connection-/) as string });
    expect(progress).toMatchObject({ tries: 0, devices: { 'apns#0': 'delivered' } });
    expect(replies.filter(({ label }) => label === 'fcm#1')).toHaveLength(1);
  });
});
