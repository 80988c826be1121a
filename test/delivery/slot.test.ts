import { describe, expect, it } from 'vitest';
import type { Slot } from '../../src/delivery/context.ts';
import { isLate, leadMs, maxLateMs, postponeSlot, takeSlot } from '../../src/delivery/slot.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import type { WaitingAsk, WaitingLimiter } from '../../src/limiter/waiting.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { contextOf, lostAfter, none, openBench, POLICY, RECIPIENT, takeDown } from './support.ts';

/** A process that is stopped, or an event loop that is busy. */
function standStill(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** The limiter in a process that stands still after each answer for so long, in turn. */
function interrupted(limiter: WaitingLimiter, standstillsMs: readonly number[]) {
  const asked: WaitingAsk[] = [];
  const admit = async (ask: WaitingAsk) => {
    const admission = await limiter.admit(ask);
    standStill(standstillsMs[asked.length] ?? 0);
    asked.push(ask);
    return admission;
  };
  return { asked, limiter: { ...limiter, admit } };
}

describe('how late a request may be handed to the sender', () => {
  it.each([
    [0, 500],
    [300, 150],
    [3_000, 1_500],
    [60_000, 5_000],
  ])('with a gap of %i ms: %i ms', (gapMs, lateMs) => expect(maxLateMs({ gapMs })).toBe(lateMs));

  it('is late by half the gap at most, by the overall one where that is shorter than its category’s', () => {
    expect(maxLateMs({ gapMs: 2_000 }, 500)).toBe(250);
    expect(maxLateMs({ gapMs: 500 }, 2_000)).toBe(250);
    expect(maxLateMs({ gapMs: 2_000 }, 0)).toBe(1_000);
    expect(maxLateMs({ gapMs: 0 }, 0)).toBe(500);
  });

  it('a blocked job is called back early enough to sleep the rest, and never so early that it is sent away', () => {
    expect([0, 10, 49, 150].map((toleranceMs) => leadMs({ toleranceMs }))).toEqual([0, 5, 24, 25]);
  });
});

describe('the slot', () => {
  it('is asked for anew where it was missed by more than half the gap, and nothing is sent on the old one', async () => {
    const { run, limiter, sandbox } = await openBench();
    const busy = interrupted(limiter, [POLICY.minGapMs / 2 + 20]);
    expect((await run(makeNotification(), none, { limiter: busy.limiter })).outcome).toEqual({ kind: 'delivered' });
    expect(busy.asked).toMatchObject([{ renew: false }, { renew: true }]);
    expect(sandbox.journal.accepted).toHaveLength(1);
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });

  it('that a request left late for is moved to when it really left', async () => {
    const { run, limiter } = await openBench();
    const { limiter: busy } = interrupted(limiter, [100]);
    const slots: number[] = [];
    const noted = {
      ...busy,
      admit: async (ask: WaitingAsk) => {
        const admission = await busy.admit(ask);
        if (admission.kind === 'admitted') slots.push(admission.at);
        return admission;
      },
    };
    expect((await run(makeNotification(), none, { limiter: noted })).outcome).toEqual({ kind: 'delivered' });
    const [slot] = (await limiter.inspect(RECIPIENT)).sent;
    expect(slot?.at).toBeGreaterThan((slots[0] ?? NaN) + 90);
  });

  it('is told exactly where the request left on time: what the answer takes plays no role', async () => {
    const { run, limiter, sandbox } = await openBench();
    const slow = makeDevice();
    sandbox.apns.script(slow.token, [{ kind: 'accept', delayMs: 400 }]);
    const postponed: unknown[] = [];
    const watched = {
      ...limiter,
      postpone: (...args: Parameters<WaitingLimiter['postpone']>) => {
        postponed.push(args);
        return limiter.postpone(...args);
      },
    };
    expect((await run(makeNotification({ devices: [slow] }), none, { limiter: watched })).outcome.kind).toBe(
      'delivered',
    );
    expect(postponed).toEqual([]);
  });

  it('that is missed again and again is given back, and asked for ever less often', async () => {
    const { run, limiter, sandbox } = await openBench();
    const late = interrupted(limiter, Array(12).fill(POLICY.minGapMs / 2 + 5) as number[]);
    const notification = makeNotification();
    const first = await run(notification, none, { limiter: late.limiter });
    expect(first.outcome).toMatchObject({ kind: 'held', code: 'missed-slot' });
    expect((await limiter.inspect(RECIPIENT)).sent).toEqual([]);
    const stop = { signal: AbortSignal.abort(), random: () => 1 };
    const held = await Promise.all(
      [1, 4, 20].map((unreached) =>
        run(makeNotification({ recipientId: `missed-${unreached}` }), { ...none, unreached }, stop),
      ),
    );
    expect(held.map(({ outcome }) => outcome)).toMatchObject([{ waitMs: 100 }, { waitMs: 800 }, { waitMs: 5_000 }]);
    expect(sandbox.journal.all).toEqual([]);
  }, 15_000);

  it('is given back by a worker that has to stop', async () => {
    const { run, limiter, sandbox } = await openBench();
    const { outcome } = await run(makeNotification(), none, { signal: AbortSignal.abort() });
    expect(outcome).toMatchObject({ kind: 'held', code: 'missed-slot' });
    expect(sandbox.journal.all).toEqual([]);
    expect((await limiter.inspect(RECIPIENT)).sent).toEqual([]);
  });

  it('that an earlier worker was given stays counted, since it may have sent on it, and another one is asked for', async () => {
    const { run, limiter } = await openBench();
    const notification = makeNotification();
    await limiter.admit({ recipientId: RECIPIENT, id: `${notification.id}/0` }); // a worker that died then
    const { outcome, progress } = await run(notification);
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
    expect(progress.asks).toBe(1);
    expect(await limiter.refund({ recipientId: RECIPIENT, id: `${notification.id}/0` })).toBe(true);
    expect(await limiter.cancel({ recipientId: RECIPIENT, id: `${notification.id}/1` })).toBe(true);
  });

  it('that was granted without an answer is used after all, where nothing was sent', async () => {
    const { run, limiter, sandbox } = await openBench();
    const notification = makeNotification();
    await limiter.admit({ recipientId: RECIPIENT, id: `${notification.id}/0` }); // the answer came too late
    expect((await run(notification, none, { isSlotUnused: true })).outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('that was granted without an answer is remembered until it is asked for again', async () => {
    const bench = await openBench();
    const { run, limiter, sandbox, parts } = bench;
    const notification = makeNotification();
    await limiter.admit({ recipientId: RECIPIENT, id: `${notification.id}/0` });
    await takeDown(bench, 'apns');
    const { progress } = await run(notification, { ...none, unsent: true }, { isSlotUnused: true });
    expect(progress.unsent).toBe(true);

    await sandbox.apns.up();
    await parts.providers.get('apns')?.connect();
    const again = await run(notification, progress, { isSlotUnused: true });
    expect(again.outcome).toEqual({ kind: 'delivered' });
    expect(again.progress.unsent).toBeUndefined();
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });

  it('of a job that was taken over is not renewed: its new owner may have sent on it', async () => {
    const { run, limiter, sandbox } = await openBench();
    const notification = makeNotification();
    // What the new owner does while this worker, which asked without an answer before, is stopped in its pass.
    await limiter.admit({ recipientId: RECIPIENT, id: `${notification.id}/0` });
    const before = (await limiter.inspect(RECIPIENT)).sent;
    const { outcome } = await run(notification, none, { lock: lostAfter(1), isSlotUnused: true });
    expect(outcome).toEqual({ kind: 'yielded' });
    expect((await limiter.inspect(RECIPIENT)).sent).toEqual(before);
    expect(sandbox.journal.all).toEqual([]);
  });

  it('is given back where its renewal is refused', async () => {
    const { run, limiter } = await openBench();
    const notification = makeNotification({ onThrottle: 'drop' });
    const stopped = interrupted(limiter, [POLICY.minGapMs + 100]);
    const overtaken = {
      ...stopped.limiter,
      admit: async (ask: WaitingAsk) => {
        if (stopped.asked.length === 1) await limiter.admit({ recipientId: RECIPIENT, id: 'somebody else' });
        return stopped.limiter.admit(ask);
      },
    };
    expect((await run(notification, none, { limiter: overtaken })).outcome).toMatchObject({ kind: 'dropped' });
    expect(stopped.asked).toHaveLength(2);
    expect(await limiter.refund({ recipientId: RECIPIENT, id: `${notification.id}/0` })).toBe(false);
  });

  it('is not taken by a notification whose job was lost meanwhile, and stays counted', async () => {
    const { run, limiter, sandbox } = await openBench();
    expect((await run(makeNotification(), none, { lock: lostAfter(1) })).outcome).toEqual({ kind: 'yielded' });
    expect(sandbox.journal.all).toEqual([]);
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });
});

describe('after the send, the slot', () => {
  it('is given back where the provider certainly alerted nobody', async () => {
    const { run, sandbox, limiter } = await openBench();
    const refused = makeDevice();
    sandbox.apns.script(refused.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered' }]);
    expect((await run(makeNotification({ devices: [refused] }))).outcome).toMatchObject({ reason: 'unregistered' });
    expect((await limiter.inspect(RECIPIENT)).sent).toEqual([]);
  });

  it('stays counted where one of several devices was alerted', async () => {
    const { run, sandbox, limiter } = await openBench();
    const devices = [makeDevice(), makeDevice()];
    sandbox.apns.script(devices[0]?.token ?? '', [{ kind: 'refuse', status: 410, reason: 'Unregistered' }]);
    expect((await run(makeNotification({ devices }))).outcome).toEqual({ kind: 'delivered' });
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });

  it('stays counted where it may have alerted', async () => {
    const { run, sandbox } = await openBench();
    const cut = makeDevice();
    sandbox.apns.script(cut.token, [{ kind: 'reset', scope: 'stream', accepted: true }]);
    expect((await run(makeNotification({ devices: [cut] }))).outcome).toMatchObject({ kind: 'retried' });
    expect((await run(makeNotification())).outcome).toMatchObject({ kind: 'requeued' });
  });
});

describe('the limiter', () => {
  const SEND_AT = 1_000;
  const slot: Slot = {
    kind: 'slot',
    ask: { recipientId: RECIPIENT, id: 'msg/0' },
    at: 1_795_284_000_000,
    sendAt: SEND_AT,
    sendBy: SEND_AT + 500,
  };

  it('is told of what left more than 15 ms late', () => {
    expect([-1, 0, 15, 16, 400].map((lateMs) => isLate(slot, SEND_AT + lateMs))).toEqual([
      false,
      false,
      false,
      true,
      true,
    ]);
  });

  it('is told again until it answers', async () => {
    const told: number[] = [];
    const postpone = (_: unknown, at: number) => {
      told.push(at);
      return told.length <= 3 ? Promise.reject(new LimiterUnavailableError('away')) : Promise.resolve(true);
    };
    await postponeSlot(slot, SEND_AT + 80, { postpone });
    expect(told).toEqual(Array(4).fill(slot.at + 80));
  });

  it('that is away keeps nobody for ever', async () => {
    const postpone = () => Promise.reject(new LimiterUnavailableError('away'));
    await expect(postponeSlot(slot, SEND_AT + 80, { postpone })).resolves.toBeUndefined();
  });

  it('is asked under the next number where an admission was given before, each time', async () => {
    const { limiter, parts } = await openBench();
    const policy = { rules: [], minGapMs: 0 };
    const admit = (ask: WaitingAsk) => limiter.admit({ ...ask, policy });
    for (const number of [0, 1]) await admit({ recipientId: RECIPIENT, id: `msg/${number}` });
    const context = contextOf(makeNotification({ id: 'msg' }));
    const taken = await takeSlot(context, { ...parts, limiter: { ...limiter, admit } });
    expect(taken).toMatchObject({ kind: 'slot', ask: { id: 'msg/2' } });
    expect(context.progress.asks).toBe(2);
  });
});
