import { describe, expect, it, vi } from 'vitest';
import { readProgress } from '../../src/delivery/progress.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { leaseOf, openBench, POLICY } from './support.ts';

const none = readProgress(0);

describe('before anything is asked', () => {
  it('takes what does not fit for a dead letter, every fault named', async () => {
    const { run, sandbox } = await openBench();
    const { outcome } = await run({ id: 'x', devices: [], alert: { body: 'b' } });
    expect(outcome).toEqual({
      kind: 'dead-letter',
      reason: 'invalid',
      message: 'recipientId: expected a string, found nothing; devices: expected at least 1 entry, found an array of 0',
    });
    expect(sandbox.journal.all).toEqual([]);
  });

  it('takes the id from the job where the data has none', async () => {
    const { run, replies } = await openBench();
    const { id, ...data } = makeNotification();
    expect(id).toBeDefined();
    expect((await run(data)).outcome).toEqual({ kind: 'delivered' });
    expect(replies[0]?.notification.id).toBe('job-1');
  });

  it('expires what is too late, without a slot', async () => {
    const { run, limiter } = await openBench();
    const notification = makeNotification({ expiresAt: Date.now() - 1 });
    expect((await run(notification)).outcome).toEqual({ kind: 'expired' });
    expect(await limiter.reset(notification.recipientId)).toBe(false);
  });

  it('needs credentials for the platform', async () => {
    const { run } = await openBench(['apns']);
    const { outcome, progress } = await run(makeNotification({ devices: [makeDevice('fcm')] }));
    expect(outcome).toEqual({
      kind: 'dead-letter',
      reason: 'provider-not-configured',
      message: 'no credentials for fcm',
    });
    expect(progress.attempts).toMatchObject([{ device: 'fcm#0', error: 'no credentials for fcm' }]);
  });
});

describe('a blocked notification', () => {
  it('is put back for exactly the wait, and sent when it is due', async () => {
    const { run, sandbox } = await openBench();
    await run(makeNotification());
    const second = makeNotification();
    const { outcome, progress } = await run(second);
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
    const { waitMs } = outcome as { waitMs: number };
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(POLICY.minGapMs);
    expect(progress).toMatchObject({ requeues: 1, tries: 0 });

    await new Promise((resolve) => setTimeout(resolve, waitMs));
    expect((await run(second, progress)).outcome).toEqual({ kind: 'delivered' });
    const [first, last] = sandbox.journal.accepted;
    expect((last?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(POLICY.minGapMs - 25);
  });

  it('expires where its slot lies beyond its time, and leaves no trace', async () => {
    const { run, limiter } = await openBench();
    await run(makeNotification());
    const { outcome } = await run(makeNotification({ expiresAt: Date.now() + 300 }));
    expect(outcome).toEqual({ kind: 'expired' });
    const third = await limiter.peek({ recipientId: 'teacher-42', id: 'third' });
    expect(third).toMatchObject({ kind: 'reserved' });
    expect((third as { waitMs: number }).waitMs).toBeLessThanOrEqual(POLICY.minGapMs);
  });

  it('becomes a dead letter where its slot lies too far ahead', async () => {
    const { run } = await openBench();
    await run(makeNotification());
    const { outcome } = await run(makeNotification(), none, { maxWaitMs: 100 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'throttled-too-long' });
  });

  it('gives its reservation back when it ends without using it', async () => {
    const { run, limiter } = await openBench();
    await run(makeNotification());
    const blocked = makeNotification({ expiresAt: Date.now() + 60_000 });
    const { progress } = await run(blocked);
    expect((await run(blocked, progress, { now: () => Date.now() + 120_000 })).outcome).toEqual({ kind: 'expired' });
    expect(await limiter.cancel({ recipientId: blocked.recipientId, id: `${blocked.id}/0` })).toBe(false);
  });

  it('is dropped on request', async () => {
    const { run, sandbox } = await openBench();
    await run(makeNotification({ onThrottle: 'drop' }));
    expect((await run(makeNotification({ onThrottle: 'drop' }))).outcome).toEqual({ kind: 'dropped', rule: 'gap' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('is sent without a sound on request, and takes no slot', async () => {
    const { run, sandbox } = await openBench();
    await run(makeNotification());
    const loud = { sound: 'default', onThrottle: 'silence' } as const;
    expect((await run(makeNotification(loud))).outcome).toEqual({ kind: 'delivered' });
    const silent = sandbox.journal.accepted[1];
    expect(silent?.payload).toMatchObject({ aps: { 'interruption-level': 'passive' } });
    expect(silent?.payload).not.toHaveProperty('aps.sound');
    expect(silent?.priority).toBe('5');
  });
});

describe('several devices', () => {
  it('take one slot, and only the failed one is tried again', async () => {
    const { run, sandbox, limiter } = await openBench();
    const [phone, tablet] = [makeDevice('apns'), makeDevice('fcm')];
    sandbox.fcm.script(tablet.token, [{ kind: 'refuse', status: 503, reason: 'UNAVAILABLE' }]);
    const notification = makeNotification({ devices: [phone, tablet] });
    const first = await run(notification);
    expect(first.outcome).toMatchObject({ kind: 'retried', code: 'UNAVAILABLE' });
    expect(first.progress).toMatchObject({ tries: 1, asks: 1, devices: { 'apns#0': 'delivered' } });

    await limiter.reset(notification.recipientId);
    const second = await run(notification, first.progress);
    expect(second.outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted.map(({ token }) => token)).toEqual([phone.token, tablet.token]);
  });

  it('are sent once where a save fails', async () => {
    const { run, sandbox } = await openBench();
    const devices = [makeDevice(), makeDevice(), makeDevice()];
    const save = () => Promise.reject(new Error('OOM command not allowed'));
    expect((await run(makeNotification({ devices }), none, { lease: leaseOf(save) })).outcome).toEqual({
      kind: 'delivered',
    });
    expect(sandbox.journal.accepted).toHaveLength(3);
  });

  it('are one where the same is listed twice', async () => {
    const { run, sandbox } = await openBench();
    const phone = makeDevice();
    expect((await run(makeNotification({ devices: [phone, phone] }))).outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('saves each acknowledgement while others are under way', async () => {
    const { run, sandbox } = await openBench();
    const [phone, slow] = [makeDevice('apns'), makeDevice('fcm')];
    sandbox.fcm.script(slow.token, [{ kind: 'accept', delayMs: 300 }]);
    const saved: unknown[] = [];
    const save = (progress: unknown) => Promise.resolve(saved.push(progress) > 0);
    await run(makeNotification({ devices: [phone, slow] }), none, { lease: leaseOf(save) });
    expect(saved).toMatchObject([{ devices: { 'apns#0': 'delivered' } }]);
  });

  it('is delivered where one is gone', async () => {
    const { run, sandbox, replies } = await openBench();
    const [phone, old] = [makeDevice(), makeDevice()];
    sandbox.apns.script(old.token, [
      { kind: 'refuse', status: 410, reason: 'Unregistered', timestamp: 1_700_000_000_000 },
    ]);
    const { outcome, progress } = await run(makeNotification({ devices: [phone, old] }));
    expect(outcome).toEqual({ kind: 'delivered' });
    expect(progress.devices).toEqual({ 'apns#0': 'delivered', 'apns#1': 'unregistered' });
    expect(replies.find(({ label }) => label === 'apns#1')?.reply).toMatchObject({ goneSince: 1_700_000_000_000 });
  });
});

describe('the slot', () => {
  it('is given back where the provider certainly alerted nobody', async () => {
    const { run, sandbox } = await openBench();
    const refused = makeDevice();
    sandbox.apns.script(refused.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered' }]);
    expect((await run(makeNotification({ devices: [refused] }))).outcome).toMatchObject({ reason: 'unregistered' });
    expect((await run(makeNotification())).outcome).toEqual({ kind: 'delivered' });
  });

  it('is kept where it may have alerted', async () => {
    const { run, sandbox } = await openBench();
    const cut = makeDevice();
    sandbox.apns.script(cut.token, [{ kind: 'reset', scope: 'stream', accepted: true }]);
    expect((await run(makeNotification({ devices: [cut] }))).outcome).toMatchObject({ kind: 'retried' });
    expect((await run(makeNotification())).outcome).toMatchObject({ kind: 'requeued' });
  });

  it('is asked for anew where the send would come late', async () => {
    const { run, limiter } = await openBench();
    const asked: unknown[] = [];
    const stalled = {
      refund: (...args: Parameters<typeof limiter.refund>) => limiter.refund(...args),
      postpone: (...args: Parameters<typeof limiter.postpone>) => limiter.postpone(...args),
      cancel: (...args: Parameters<typeof limiter.cancel>) => limiter.cancel(...args),
      admit: async (ask: Parameters<typeof limiter.admit>[0]) => {
        asked.push(ask);
        const admission = await limiter.admit(ask);
        const until = performance.now() + (asked.length === 1 ? 60 : 0);
        while (performance.now() < until); // a stopped process, or an event loop that is busy
        return admission;
      },
    };
    expect((await run(makeNotification(), none, { limiter: stalled })).outcome).toEqual({ kind: 'delivered' });
    expect(asked).toMatchObject([{}, { renew: true }]);
  });

  it('of an admission that somebody was given before stays counted, and another is asked for', async () => {
    const { run, limiter } = await openBench();
    const notification = makeNotification();
    await limiter.admit({ recipientId: 'teacher-42', id: `${notification.id}/0` }); // a worker that died then
    const { outcome, progress } = await run(notification);
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
    expect(progress.asks).toBe(1);
    expect(await limiter.refund({ recipientId: 'teacher-42', id: `${notification.id}/0` })).toBe(true);
    expect(await limiter.cancel({ recipientId: 'teacher-42', id: `${notification.id}/1` })).toBe(true);
  });

  it('that was granted without an answer is used after all, where nothing was sent', async () => {
    const { run, limiter, sandbox } = await openBench();
    const notification = makeNotification();
    await limiter.admit({ recipientId: 'teacher-42', id: `${notification.id}/0` }); // the answer came too late
    expect((await run(notification, none, { isUnsent: true })).outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('is given back where its renewal is refused', async () => {
    const { run, limiter } = await openBench();
    const notification = makeNotification({ onThrottle: 'drop' });
    let asks = 0;
    const overtaken = {
      ...limiter,
      admit: async (ask: Parameters<typeof limiter.admit>[0]) => {
        asks += 1;
        if (asks === 1) {
          const admission = await limiter.admit(ask);
          const until = performance.now() + 1_100;
          while (performance.now() < until); // stopped for longer than the gap
          return admission;
        }
        await limiter.admit({ recipientId: 'teacher-42', id: 'somebody else' });
        return limiter.admit(ask);
      },
    };
    expect((await run(notification, none, { limiter: overtaken })).outcome).toMatchObject({ kind: 'dropped' });
    expect(asks).toBe(2);
    expect(await limiter.refund({ recipientId: 'teacher-42', id: `${notification.id}/0` })).toBe(false);
  });

  it('is asked for anew where no connection is ready in time, and lateness is put up with in the end', async () => {
    const { run, sandbox } = await openBench(['apns']);
    sandbox.apns.slowHandshakes(150);
    sandbox.apns.dropConnections();
    await vi.waitFor(() => expect(sandbox.apns.openConnections).toBe(0));
    const notification = makeNotification();
    const first = await run(notification);
    expect(first).toMatchObject({
      outcome: { kind: 'held', code: 'not-in-time' },
      progress: { tries: 0, unreached: 1 },
    });
    expect(sandbox.journal.accepted).toEqual([]);

    sandbox.apns.dropConnections();
    await vi.waitFor(() => expect(sandbox.apns.openConnections).toBe(0));
    const third = await run(notification, { ...first.progress, unreached: 3 });
    expect(third.outcome).toEqual({ kind: 'delivered' });
  });

  it('is counted from when the alert went out, where that was late', async () => {
    const { run, sandbox, limiter } = await openBench();
    const [quick, slow] = [makeDevice(), makeDevice()];
    for (let other = 0; other < 8; other++)
      await run(makeNotification({ devices: [quick], recipientId: `other-${other}` }));
    sandbox.apns.script(slow.token, [{ kind: 'accept', delayMs: 400 }]);
    const startedAt = performance.now();
    await run(makeNotification({ devices: [slow] }));
    const next = await limiter.peek({ recipientId: 'teacher-42', id: 'next' });
    const sinceStartMs = (next as { waitMs: number }).waitMs + performance.now() - startedAt;
    expect(sinceStartMs).toBeGreaterThan(POLICY.minGapMs + 300);
  });

  it('is given back by a worker that has to stop', async () => {
    const { run, limiter } = await openBench();
    const signal = AbortSignal.abort();
    expect((await run(makeNotification(), none, { signal })).outcome).toMatchObject({ kind: 'held', waitMs: 0 });
    expect(await limiter.peek({ recipientId: 'teacher-42', id: 'next' })).toMatchObject({ kind: 'admitted' });
  });
});

describe('a provider that refuses our credentials', () => {
  it('is paused, and the notification kept without an attempt', async () => {
    const { run, sandbox, parts } = await openBench();
    const [first, second] = [makeDevice(), makeDevice()];
    sandbox.apns.script(first.token, [{ kind: 'refuse', status: 403, reason: 'InvalidProviderToken' }]);
    const held = await run(makeNotification({ devices: [first] }));
    expect(held.outcome).toMatchObject({ kind: 'held', code: 'InvalidProviderToken' });
    expect(held.progress.tries).toBe(0);
    expect(parts.pauses.current('apns')).toMatchObject({ trouble: 'auth', code: 'InvalidProviderToken' });

    const requests = sandbox.journal.all.length;
    expect((await run(makeNotification({ devices: [second] }))).outcome).toMatchObject({ code: 'provider-paused' });
    expect(sandbox.journal.all).toHaveLength(requests);
    expect((await run(makeNotification({ devices: [makeDevice('fcm')] }))).outcome).toEqual({ kind: 'delivered' });
  });
});
