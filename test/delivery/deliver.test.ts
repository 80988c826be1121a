import { describe, expect, it } from 'vitest';
import { makeDevice, makeNotification } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import { lockOf, lostAfter, none, openBench, RECIPIENT } from './support.ts';

describe('before anything is asked', () => {
  it('what does not fit becomes a dead letter, every fault named', async () => {
    const { run, sandbox } = await openBench();
    const { outcome } = await run({ id: 'x', devices: [], alert: { body: 'b' } });
    expect(outcome).toEqual({
      kind: 'dead-letter',
      reason: 'invalid',
      message: 'recipientId: expected a string, found nothing; devices: expected at least 1 entry, found an array of 0',
    });
    expect(sandbox.journal.all).toEqual([]);
  });

  it("a notification without an id gets the job's", async () => {
    const { run, replies } = await openBench();
    const { id, ...data } = makeNotification();
    expect(id).toBeDefined();
    expect((await run(data)).outcome).toEqual({ kind: 'delivered' });
    expect(replies[0]?.notification.id).toBe('job-1');
  });

  it('what is too late expires, without a slot', async () => {
    const { run, limiter } = await openBench();
    expect((await run(makeNotification({ expiresAt: Date.now() - 1 }))).outcome).toEqual({ kind: 'expired' });
    expect(await limiter.reset(RECIPIENT)).toBe(false);
  });

  it('a platform without credentials makes it a dead letter', async () => {
    const { run } = await openBench({ platforms: ['apns'] });
    const { outcome, progress } = await run(makeNotification({ devices: [makeDevice('fcm')] }));
    const [reason, message] = ['provider-not-configured', 'no credentials for fcm'];
    expect(outcome).toEqual({ kind: 'dead-letter', reason, message });
    expect(progress.attempts).toMatchObject([{ device: 'fcm#0', error: message }]);
  });

  it('a job that is another worker’s by now is left alone', async () => {
    const { run, sandbox, limiter } = await openBench();
    expect((await run(makeNotification(), none, { lock: lostAfter(0) })).outcome).toEqual({ kind: 'yielded' });
    expect(sandbox.journal.all).toEqual([]);
    expect(await limiter.reset(RECIPIENT)).toBe(false);
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
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);

    await limiter.reset(RECIPIENT);
    const second = await run(notification, first.progress);
    expect(second.outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted.map(({ token }) => token)).toEqual([phone.token, tablet.token]);
  });

  it('tell of a failed attempt when it failed, though another device is still under way', async () => {
    const { run, sandbox } = await openBench();
    const [phone, slow] = [makeDevice('apns'), makeDevice('fcm')];
    sandbox.apns.script(phone.token, [{ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' }]);
    sandbox.fcm.script(slow.token, [{ kind: 'accept', delayMs: 1_500 }]);
    const { progress } = await run(makeNotification({ devices: [phone, slow] }));
    expect(progress.attempts).toMatchObject([{ device: 'apns#0', error: 'ServiceUnavailable' }]);
    const accepted = sandbox.journal.accepted[0]?.at ?? NaN;
    expect(progress.attempts[0]?.at).toBeLessThan(accepted + 1_400);
  });

  it('are one where the same is listed twice', async () => {
    const { run, sandbox } = await openBench();
    const phone = makeDevice();
    expect((await run(makeNotification({ devices: [phone, phone] }))).outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('are delivered where one is gone, which is told with its time', async () => {
    const { run, sandbox, replies } = await openBench();
    const [phone, old] = [makeDevice(), makeDevice()];
    const timestamp = 1_700_000_000_000;
    sandbox.apns.script(old.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered', timestamp }]);
    const { outcome, progress } = await run(makeNotification({ devices: [phone, old] }));
    expect(outcome).toEqual({ kind: 'delivered' });
    expect(progress.devices).toEqual({ 'apns#0': 'delivered', 'apns#1': 'unregistered' });
    expect(replies.find(({ label }) => label === 'apns#1')?.reply).toMatchObject({ goneSince: timestamp });
  });
});

describe('what was acknowledged', () => {
  it('is saved while another device is under way', async () => {
    const { run, sandbox } = await openBench();
    const [phone, slow] = [makeDevice('apns'), makeDevice('fcm')];
    sandbox.fcm.script(slow.token, [{ kind: 'accept', delayMs: 600 }]);
    const saved: object[] = [];
    const save = (progress: object) => Promise.resolve(saved.push(progress) > 0);
    const pass = run(makeNotification({ devices: [phone, slow] }), none, { lock: lockOf(save) });
    await waitFor(() => expect(saved).toMatchObject([{ devices: { 'apns#0': 'delivered' } }]));
    expect((await pass).progress.devices).toEqual({ 'apns#0': 'delivered', 'fcm#1': 'delivered' });
    expect(saved).toHaveLength(1); // the end of the pass saves the rest
  });

  it('is not sent again because a save fails', async () => {
    const { run, sandbox } = await openBench();
    const [phone, slow] = [makeDevice('apns'), makeDevice('fcm')];
    sandbox.fcm.script(slow.token, [{ kind: 'accept', delayMs: 300 }]);
    let saves = 0;
    const save = () => {
      saves += 1;
      return Promise.reject(new Error('OOM command not allowed'));
    };
    const { outcome } = await run(makeNotification({ devices: [phone, slow] }), none, { lock: lockOf(save) });
    expect(outcome).toEqual({ kind: 'delivered' });
    expect(saves).toBe(1);
    expect(sandbox.journal.accepted).toHaveLength(2);
  });
});
