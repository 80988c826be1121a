import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Context } from '../../src/delivery/context.ts';
import { leadMs } from '../../src/delivery/lines.ts';
import type { EndTurn } from '../../src/delivery/parts.ts';
import { maxLateMs, createTurns, slotLateMs } from '../../src/delivery/slot.ts';
import { sleepUntil } from '../../src/domain/time.ts';
import type { WaitingAsk } from '../../src/limiter/limiter.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { ReplicasMissingError } from '../../src/redis/replicas.ts';
import { confirmed } from '../../workers/limiters.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import { bringUp, lostAfter, none, occupy, openBench, POLICY, RECIPIENT, takeDown, type Bench } from './support.ts';

/** The limiter in a process that stands still after each answer for so long, in turn. */
function interrupted({ limiter, clock }: Pick<Bench, 'limiter' | 'clock'>, standstillsMs: readonly number[]) {
  const asked: WaitingAsk[] = [];
  const admit = async (ask: WaitingAsk) => {
    const admission = await limiter.admit(ask);
    clock.advance(standstillsMs[asked.length] ?? 0);
    asked.push(ask);
    return admission;
  };
  return { asked, limiter: { ...limiter, admit } };
}

describe('how long after its slot a request was handed over', () => {
  const now = 1_784_000_000_000;
  /** Its first request was handed over 40 ms ago. */
  function sent(): Pick<Context, 'slot' | 'tried'> {
    const reply = { meaning: 'accepted', code: '200', alerted: 'yes' } as const;
    const ago = (ms: number) => ({
      ...{ label: 'apns#0', service: 'apns' as const, reply, at: now, tookMs: 1 },
      handedOverAt: performance.now() - ms,
    });
    const slot = {
      ask: { recipientId: RECIPIENT, id: 'a/1' },
      at: now,
      sendAt: 0,
      sendBy: 0,
      leadMs: 25,
    };
    return { slot, tried: [ago(10), ago(40)] };
  }

  it('is counted from the slot that it was put back for', () => {
    const began = performance.now();
    const lateMs = slotLateMs(sent(), { dueAt: now - 1_065, rule: '10/1m' }, now) ?? 0;
    const tookMs = performance.now() - began;
    // Due 1,065 ms ago, so its slot was 1,040 ms ago, and the request left 1,000 ms after that.
    expect(lateMs).toBeLessThanOrEqual(1_000);
    expect(lateMs).toBeGreaterThanOrEqual(1_000 - tookMs);
    expect(slotLateMs(sent(), { dueAt: now + 60_000, rule: 'gap' }, now)).toBe(0);
  });

  it('is not known of one that was not put back for a slot, or that was not sent', () => {
    expect(slotLateMs(sent(), {}, now)).toBeUndefined();
    expect(slotLateMs(sent(), { dueAt: now }, now)).toBeUndefined(); // deferred by a breaker
    expect(slotLateMs(sent(), { dueAt: now, rule: 'sendAfter' }, now)).toBeUndefined();
    expect(slotLateMs({ ...sent(), slot: undefined }, { dueAt: now, rule: 'gap' }, now)).toBeUndefined();
    expect(slotLateMs({ ...sent(), tried: [] }, { dueAt: now, rule: 'gap' }, now)).toBeUndefined();
  });
});

describe('how late a request may be handed to the sender', () => {
  it.each([
    [0, 25],
    [60, 15],
    [100, 25],
    [3_000, 25],
  ])('with a gap of %i ms: %i ms', (gapMs, lateMs) => expect(maxLateMs({ gapMs })).toBe(lateMs));

  it('is a quarter of the overall gap where that is shorter than its category’s', () => {
    expect(maxLateMs({ gapMs: 2_000 }, 60)).toBe(15);
    expect(maxLateMs({ gapMs: 60 }, 2_000)).toBe(15);
    expect(maxLateMs({ gapMs: 0 }, 60)).toBe(15);
    expect(maxLateMs({ gapMs: 2_000 }, 0)).toBe(25);
  });

  it('a blocked job is called back early enough to sleep the rest, and never so early that it is sent away', () => {
    expect([0, 10, 90, 2_000].map((toleranceMs) => leadMs({ toleranceMs }))).toEqual([0, 2, 22, 25]);
  });
});

describe('the slot', () => {
  it('is asked for anew where it was missed, and nothing is sent on the old one', async () => {
    const bench = await openBench();
    const { run, limiter, sandbox } = bench;
    const busy = interrupted(bench, [60, 60]);
    expect((await run(makeNotification(), none, { limiter: busy.limiter })).outcome).toEqual({ kind: 'delivered' });
    expect(busy.asked.map(({ renew }) => renew)).toEqual([false, true, true]);
    expect(busy.asked[1]?.leadMs).toBeUndefined();
    expect(busy.asked[2]?.leadMs).toBeGreaterThanOrEqual(60); // so that a machine that is always so late can make it
    const [slot] = (await limiter.inspect(RECIPIENT)).sent;
    const [arrived] = sandbox.journal.accepted;
    expect((arrived?.at ?? NaN) - (slot?.at ?? NaN)).toBeLessThan(30);
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('that was missed while the limiter does not answer is not used: the next one may have been answered', async () => {
    const bench = await openBench();
    const { run, limiter, sandbox } = bench;
    const busy = interrupted(bench, [60]);
    const away = {
      ...busy.limiter,
      admit: (ask: WaitingAsk) =>
        busy.asked.length === 0 ? busy.limiter.admit(ask) : Promise.reject(new LimiterUnavailableError('away')),
    };
    const notification = makeNotification();
    const { outcome, progress } = await run(notification, none, { limiter: away });
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'limiter-unavailable' });
    expect(sandbox.journal.all).toEqual([]);
    // Somebody else was admitted meanwhile, a gap after the slot that went unused.
    const [unused] = (await limiter.inspect(RECIPIENT)).sent;
    const other = await limiter.admit({ recipientId: RECIPIENT, id: 'other' });
    expect(other).toMatchObject({ kind: 'reserved', at: (unused?.at ?? NaN) + POLICY.minGapMs });
    const again = await run(notification, progress, { isSlotUnused: true });
    expect(again.outcome).toEqual({ kind: 'delivered' });
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('that is unused is free again if the notification expires, and the others move up', async () => {
    const bench = await openBench();
    const notification = makeNotification({ expiresAt: bench.clock.now() - 1 });
    const unlimited = { rules: [], minGapMs: 0 };
    for (let id = 0; id < 4; id++)
      await bench.limiter.admit({ recipientId: RECIPIENT, id: `${id}/0`, policy: unlimited });
    await bench.limiter.admit({ recipientId: RECIPIENT, id: `${notification.id}/0`, policy: unlimited });
    const behind = await bench.limiter.admit({ recipientId: RECIPIENT, id: 'behind/0' });
    expect(behind).toMatchObject({ kind: 'reserved', rule: '5/1m' });
    const progress = { ...none, unsent: true } as const;
    await bench.run(notification, progress, { isSlotUnused: true, lock: lostAfter(1) }); // another worker may send in the slot
    expect((await bench.limiter.inspect(RECIPIENT)).sent).toHaveLength(5);
    expect((await bench.run(notification, progress, { isSlotUnused: true })).outcome.kind).toBe('expired');
    const { sent, reserved } = await bench.limiter.inspect(RECIPIENT);
    expect(sent).toHaveLength(4);
    expect(reserved[0]?.at).toBeLessThan(bench.clock.now() + 2_000);
    expect(bench.redelayed).toMatchObject([{ jobId: 'behind' }]);
  });

  it('is not asked for again under the id that an earlier worker used, where the next id got no answer', async () => {
    const { run, limiter, sandbox } = await openBench();
    const notification = makeNotification();
    await limiter.admit({ recipientId: RECIPIENT, id: `${notification.id}/0` }); // its worker died, and may have sent
    const ids: string[] = [];
    const admit = (ask: WaitingAsk) => {
      ids.push(ask.id);
      return ids.length === 1 ? limiter.admit(ask) : Promise.reject(new ReplicasMissingError('none of 1'));
    };
    const first = await run(notification, none, { limiter: { ...limiter, admit } });
    expect(first.outcome).toMatchObject({ kind: 'deferred', code: 'replicas-missing' });
    const second = await run(notification, first.progress, { isSlotUnused: first.progress.unsent === true });
    expect(second.outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
    expect(sandbox.journal.all).toEqual([]);
  });

  it('that replicas did not confirm is not used, and is asked for again: it takes no second one', async () => {
    const { run, limiter, sandbox } = await openBench();
    const admit = async (ask: WaitingAsk) => {
      await limiter.admit(ask);
      throw new ReplicasMissingError('0 of 1 replicas confirmed');
    };
    const notification = makeNotification();
    const first = await run(notification, none, { limiter: { ...limiter, admit } });
    expect(first.outcome).toMatchObject({ kind: 'deferred', code: 'replicas-missing' });
    expect(first.progress).toMatchObject({ unsent: true, tries: 0, attempts: [] });
    expect(sandbox.journal.all).toEqual([]);
    const again = await run(notification, first.progress, { isSlotUnused: true });
    expect(again.outcome).toEqual({ kind: 'delivered' });
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });

  it('that replicas confirm late is asked for as much ahead as the confirmation takes', async () => {
    const bench = await openBench();
    const { run, limiter } = bench;
    const { asked, limiter: inner } = interrupted(bench, []);
    const CONFIRM_MS = 150;
    const slowly = async () => {
      await sleepUntil(performance.now() + CONFIRM_MS, new AbortController().signal);
    };
    const parts = { limiter: confirmed(inner, () => slowly) };
    expect((await run(makeNotification(), none, parts)).outcome).toEqual({ kind: 'delivered' });
    expect(asked[0]?.leadMs).toBeUndefined(); // nothing was confirmed yet
    expect(asked[1]).toMatchObject({ renew: true });
    expect(asked[1]?.leadMs).toBeGreaterThanOrEqual(CONFIRM_MS);
    const before = asked.length;
    const again = makeNotification({ recipientId: 'another' });
    await limiter.admit({ recipientId: 'another', id: `${again.id}/0` });
    expect((await run(again, none, { ...parts, isSlotUnused: true })).outcome).toEqual({ kind: 'delivered' });
    expect(asked[before]?.leadMs).toBeGreaterThanOrEqual(CONFIRM_MS);
  });

  it('is slept for without a place of WORKER_CONCURRENCY, where the line is late', async () => {
    const { run, limiter } = await openBench();
    const left: string[] = [];
    const place = {
      giveWay: () => undefined,
      leave: () => {
        left.push('left');
        return () => void left.push('back');
      },
    };
    const first = await limiter.admit({ recipientId: RECIPIENT, id: 'first' });
    const admit = (ask: WaitingAsk) =>
      limiter.admit({ ...ask, policy: { rules: [], minGapMs: 200 } }).then(async (answer) => {
        if (answer.kind !== 'reserved') return answer;
        await sleepUntil(performance.now() + answer.waitMs - 80, new AbortController().signal);
        return limiter.admit({ ...ask, policy: { rules: [], minGapMs: 200 } });
      });
    expect(first.kind).toBe('admitted');
    expect((await run(makeNotification(), none, { limiter: { ...limiter, admit }, place })).outcome.kind).toBe(
      'delivered',
    );
    expect(left).toEqual(['left', 'back', 'left', 'back'].slice(0, left.length));
    expect(left.length).toBeGreaterThanOrEqual(2);
  });

  it('that is missed again and again is given back, and asked for ever less often', async () => {
    const bench = await openBench();
    const { run, limiter, sandbox } = bench;
    const late = interrupted(bench, Array(12).fill(700) as number[]);
    const notification = makeNotification();
    const first = await run(notification, none, { limiter: late.limiter });
    expect(first.outcome).toMatchObject({ kind: 'deferred', code: 'missed-slot' });
    expect((await limiter.inspect(RECIPIENT)).sent).toEqual([]);
    const stop = { signal: AbortSignal.abort(), random: () => 1 };
    const deferred = await Promise.all(
      [1, 4, 20].map((unreached) =>
        run(makeNotification({ recipientId: `missed-${unreached}` }), { ...none, unreached }, stop),
      ),
    );
    expect(deferred.map(({ outcome }) => outcome)).toMatchObject([{ waitMs: 100 }, { waitMs: 800 }, { waitMs: 5_000 }]);
    expect(sandbox.journal.all).toEqual([]);
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

  it('that was granted without an answer is remembered until it is asked for again', async () => {
    const bench = await openBench();
    const { run, limiter } = bench;
    const notification = makeNotification();
    await limiter.admit({ recipientId: RECIPIENT, id: `${notification.id}/0` });
    await takeDown(bench, 'apns');
    const { progress } = await run(notification, { ...none, unsent: true }, { isSlotUnused: true });
    expect(progress.unsent).toBe(true);

    await bringUp(bench, 'apns');
    const again = await run(notification, progress, { isSlotUnused: true });
    expect(again.outcome).toEqual({ kind: 'delivered' });
    expect(again.progress.unsent).toBeUndefined();
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });

  it.each([
    ['before the ask is not renewed', 1],
    ['during the ask is not given back', 2],
  ])('of a job that was taken over %s: its new owner may have sent on it', async (_, looks) => {
    const { run, limiter, sandbox } = await openBench();
    const notification = makeNotification();
    // What the new owner does while this worker, which asked without an answer before, is stopped in its pass.
    await limiter.admit({ recipientId: RECIPIENT, id: `${notification.id}/0` });
    const before = (await limiter.inspect(RECIPIENT)).sent;
    const { outcome } = await run(notification, none, { lock: lostAfter(looks), isSlotUnused: true });
    expect(outcome).toEqual({ kind: 'yielded' });
    expect((await limiter.inspect(RECIPIENT)).sent).toEqual(before);
    expect(sandbox.journal.all).toEqual([]);
  });

  it('is given back where its renewal is refused', async () => {
    const bench = await openBench();
    const { run, limiter } = bench;
    const notification = makeNotification({ onThrottle: 'drop' });
    const stopped = interrupted(bench, [POLICY.minGapMs + 100]);
    const overtaken = {
      ...stopped.limiter,
      admit: async (ask: WaitingAsk) => {
        if (stopped.asked.length === 1) {
          const policy = { rules: [], minGapMs: 0 };
          for (let other = 0; other < 5; other++)
            await limiter.admit({ recipientId: RECIPIENT, id: `other-${other}`, policy });
        }
        return stopped.limiter.admit(ask);
      },
    };
    expect((await run(notification, none, { limiter: overtaken })).outcome).toMatchObject({ kind: 'dropped' });
    expect(stopped.asked).toHaveLength(2);
    expect(await limiter.refund({ recipientId: RECIPIENT, id: `${notification.id}/0` })).toBe(false);
  });
});

describe('after the send, the slot', () => {
  it('is asked for anew where a stream was refused, and the second try would have left too long after it', async () => {
    const { run, sandbox, limiter } = await openBench();
    const device = makeDevice();
    sandbox.apns.script(device.token, [{ kind: 'reset', scope: 'refused-stream', delayMs: 100 }, { kind: 'accept' }]);
    const notification = makeNotification({ devices: [device] });
    const { outcome, progress } = await run(notification);
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'too-late' });
    const other = await limiter.admit({ recipientId: RECIPIENT, id: 'other' });
    expect(other.kind).toBe('reserved'); // the slot is still taken
    expect((await run(notification, progress, { isSlotUnused: true })).outcome).toEqual({ kind: 'delivered' });
    const [slot, ...more] = (await limiter.inspect(RECIPIENT)).sent;
    expect(more).toEqual([]);
    expect((sandbox.journal.accepted[0]?.at ?? NaN) - (slot?.at ?? NaN)).toBeLessThan(90);
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

describe('turns', () => {
  it('the passes of one recipient take turns in the order in which they came', async () => {
    const turns = createTurns();
    const begun: number[] = [];
    const ends: EndTurn[] = [];
    const passes = [0, 1, 2].map(async (number) => {
      ends[number] = await turns.take('teacher-1');
      begun.push(number);
    });
    for (const number of [0, 1, 2]) {
      await waitFor(() => expect(begun).toHaveLength(number + 1));
      await nextTurn();
      expect(begun).toHaveLength(number + 1);
      ends[number]?.();
    }
    await Promise.all(passes);
    expect(begun).toEqual([0, 1, 2]);
  });

  it('nobody waits for another recipient, nor for a turn that has ended', () => {
    const turns = createTurns();
    expect(turns.take('teacher-1')).toBeTypeOf('function');
    const end = turns.take('teacher-2');
    expect(end).toBeTypeOf('function');
    if (typeof end === 'function') end();
    expect(turns.take('teacher-2')).toBeTypeOf('function');
  });

  it('nobody waits for ever for one that does not end', async () => {
    const turns = createTurns(20);
    void turns.take('teacher-1');
    const second = await turns.take('teacher-1');
    second();
    expect(turns.take('teacher-1')).toBeTypeOf('function');
  });

  it('a notification that has a stream at once does not overtake one of the same recipient that waits for its own', async () => {
    const options = { sandbox: { maxStreams: 1 }, sender: { minConnections: 1, maxConnections: 1 } };
    const bench = await openBench(options);
    const { run } = bench;
    const { providers, asked, release } = await occupy(bench, 'apns');
    const first = run(makeNotification({ devices: [makeDevice('apns')] }), none, { providers });
    await asked(1);
    const second = run(makeNotification({ devices: [makeDevice('fcm')] }));
    release();
    expect((await first).outcome).toEqual({ kind: 'delivered' });
    expect((await second).outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
  });
});
