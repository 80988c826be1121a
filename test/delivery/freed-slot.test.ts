import { describe, expect, it } from 'vitest';
import type { DeliverParts } from '../../src/delivery/parts.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { WaitingAsk } from '../../src/limiter/limiter.ts';
import type { NotificationInput } from '../../src/notification/notification.ts';
import type { JobLock } from '../../src/queue/job-lock.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { heldBack, lockOf, none, openBench, openBreaker, RECIPIENT, type Bench, type Overrides } from './support.ts';

/** So rare that a slot which nobody gives back is seen. */
const HOURLY: Policy = { rules: [{ max: 1, perMs: 3_600_000 }], minGapMs: 0 };
const HOUR_MS = 3_600_000;

async function openHourly(): Promise<Bench> {
  const bench = await openBench();
  await bench.limiter.limit(RECIPIENT, HOURLY);
  return bench;
}

const recipient = { recipientId: RECIPIENT };

/** The limiter; when it has answered the first ask, this happens before the pass goes on. */
function afterFirstAsk(
  { limiter }: Pick<Bench, 'limiter'>,
  happens: () => Promise<unknown>,
  beforeSecondAsk: () => void = () => undefined,
): { readonly limiter: DeliverParts['limiter']; readonly asked: readonly WaitingAsk[] } {
  const asked: WaitingAsk[] = [];
  const admit = async (ask: WaitingAsk) => {
    if (asked.push(ask) === 2) beforeSecondAsk();
    const answer = await limiter.admit(ask);
    if (asked.length === 1) await happens();
    return answer;
  };
  return { asked, limiter: { ...limiter, admit } };
}

/** A lock that another worker takes over when `lose` is called. */
function takenOver(): { readonly lock: JobLock; readonly lose: () => void } {
  let isOurs = true;
  return { lock: { ...lockOf(), isValid: () => isOurs }, lose: () => void (isOurs = false) };
}

/** The first that waits comes in a second or two, not in an hour; its job too. */
async function expectMovedUp({ limiter, clock, redelayed }: Bench): Promise<void> {
  const { sent, reserved } = await limiter.inspect(RECIPIENT);
  expect(sent).toEqual([]);
  expect(reserved).toMatchObject([{ id: 'behind/0' }]);
  expect(reserved[0]?.at).toBeLessThanOrEqual(clock.now() + 1_500);
  expect(redelayed).toContainEqual(expect.objectContaining({ jobId: 'behind' }));
}

const unforeseen = () => Promise.reject(new TypeError('unforeseen'));
const over = { kind: 'over', waitMs: 60_000, at: Date.now() + 60_000, rule: '1/1m' } as const;
const quota = (take: () => Promise<typeof over>): Overrides => ({ quotas: new Map([['apns', { take }]]) });

interface Scene {
  /** The answer of the provider. */
  readonly refuse?: { readonly status: number; readonly reason: string };
  readonly overrides?: Overrides;
  /** The process stands still for so long after each answer of the limiter. */
  readonly lateMs?: number;
  /** Another worker takes the job over while the limiter is asked. */
  readonly isTaken?: boolean;
  readonly result: object;
}

const NOBODY_ALERTED: readonly (readonly [string, Scene])[] = [
  ['a token is gone', { refuse: { status: 410, reason: 'Unregistered' }, result: { kind: 'dead-letter' } }],
  ['the provider has no time', { refuse: { status: 503, reason: 'ServiceUnavailable' }, result: { kind: 'deferred' } }],
  ['a quota has no room', { overrides: quota(() => Promise.resolve(over)), result: { kind: 'requeued' } }],
  ['our own code fails before the send', { overrides: quota(unforeseen), result: { code: 'unexpected-error' } }],
  ['every slot is missed', { lateMs: 700, result: { code: 'missed-slot' } }],
  ['the worker has to stop', { overrides: { signal: AbortSignal.abort() }, result: { code: 'missed-slot' } }],
  ['another worker has the job', { isTaken: true, result: { kind: 'yielded' } }],
];

describe('a slot in which nobody was alerted goes to the first that waits', () => {
  it.each(NOBODY_ALERTED)('where %s', async (_, { refuse, overrides, lateMs = 0, isTaken = false, result }) => {
    const bench = await openHourly();
    const device = makeDevice();
    if (refuse !== undefined) bench.sandbox.apns.script(device.token, [{ kind: 'refuse', ...refuse }]);
    const { lock, lose } = takenOver();
    const { limiter } = afterFirstAsk(bench, async () => {
      const behind = await bench.limiter.admit({ ...recipient, id: 'behind/0' });
      expect(behind).toMatchObject({ kind: 'reserved', rule: '1/1h' });
      if (isTaken) lose();
    });
    const late: typeof limiter.admit = async (ask) => {
      const answer = await limiter.admit(ask);
      bench.clock.advance(lateMs);
      return answer;
    };
    const parts = { ...overrides, lock, limiter: { ...limiter, admit: late } };
    const { outcome } = await bench.run(makeNotification({ devices: [device] }), none, parts);
    expect(outcome).toMatchObject(result);
    await expectMovedUp(bench);
    expect(bench.sandbox.journal.accepted).toEqual([]);
  });

  it('where the job of one that was granted without an answer is deferred for long', async () => {
    const bench = await openHourly();
    const notification = makeNotification();
    await bench.limiter.admit({ ...recipient, id: `${notification.id}/0` });
    await bench.limiter.admit({ ...recipient, id: 'behind/0' });
    openBreaker(bench.breakers, 'apns', 'outage');
    const { outcome } = await bench.run(notification, { ...none, unsent: true }, { isSlotUnused: true });
    expect(outcome).toMatchObject({ kind: 'deferred' });
    await expectMovedUp(bench);
  });

  it('and nobody is looked for where nobody waits, or where it was used', async () => {
    const bench = await openHourly();
    let moves = 0;
    const moveUp: DeliverParts['limiter']['moveUp'] = (...line) => {
      moves += 1;
      return bench.limiter.moveUp(...line);
    };
    const parts = { limiter: { ...bench.limiter, moveUp } };
    const gone = makeDevice();
    bench.sandbox.apns.script(gone.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered' }]);
    expect((await bench.run(makeNotification({ devices: [gone] }), none, parts)).outcome.kind).toBe('dead-letter');
    const { limiter } = afterFirstAsk(parts, () => bench.limiter.admit({ ...recipient, id: 'behind/0' }));
    expect((await bench.run(makeNotification(), none, { limiter })).outcome.kind).toBe('delivered');
    expect(moves).toBe(0);
  });

  it('also if the worker that gave it back died before it moved the line', async () => {
    const bench = await openHourly();
    await bench.limiter.admit({ ...recipient, id: 'died/0' });
    await bench.limiter.admit({ ...recipient, id: 'behind/0' });
    await bench.limiter.refund({ ...recipient, id: 'died/0' });
    const died = makeNotification({ id: 'died', expiresAt: bench.clock.now() - 1 });
    expect((await bench.run(died, none, { stalls: 1 })).outcome.kind).toBe('expired');
    await expectMovedUp(bench);
  });
});

describe('a slot ahead goes to the next one where the notification', () => {
  /** One waits for an hour, and another one behind it; then the pass at its slot. */
  async function passAtSlot(bench: Bench, fields: Partial<NotificationInput>, overrides: Overrides = {}) {
    await bench.limiter.admit({ ...recipient, id: 'first/0' });
    const notification = makeNotification(fields);
    const { outcome, progress } = await bench.run(notification);
    expect(outcome).toMatchObject({ kind: 'requeued', rule: '1/1h' });
    await bench.limiter.admit({ ...recipient, id: 'behind/0' });
    bench.clock.advance(HOUR_MS + 50);
    return bench.run(notification, progress, overrides);
  }

  it('expires', async () => {
    const bench = await openHourly();
    const { outcome } = await passAtSlot(bench, { expiresAt: bench.clock.now() + HOUR_MS + 20 });
    expect(outcome.kind).toBe('expired');
    await expectMovedUp(bench);
  });

  it('meets an error that no step foresaw, and it asks anew behind the others', async () => {
    const bench = await openHourly();
    const providers: DeliverParts['providers'] = {
      get: () => {
        throw new TypeError('unforeseen');
      },
    };
    const fields = { id: 'unlucky' };
    const { outcome, progress } = await passAtSlot(bench, fields, { providers });
    expect(outcome).toMatchObject({ kind: 'retried', code: 'unexpected-error' });
    await expectMovedUp(bench);
    const again = await bench.run(makeNotification(fields), progress, { maxWaitMs: 2 * HOUR_MS });
    expect(again.outcome).toMatchObject({ kind: 'requeued', before: 1 });
  });
});

it('after an error that no step foresaw, a slot in which something may have been sent stays counted', async () => {
  const bench = await openHourly();
  const { limiter } = afterFirstAsk(bench, () => bench.limiter.admit({ ...recipient, id: 'behind/0' }));
  const { outcome, progress } = await bench.run(makeNotification(), none, { limiter, onReply: unforeseen });
  expect(outcome).toMatchObject({ kind: 'retried', code: 'unexpected-error' });
  expect(progress.asks).toBe(1);
  const { sent, reserved } = await bench.limiter.inspect(RECIPIENT);
  expect(sent).toHaveLength(1);
  expect(reserved[0]?.at).toBeGreaterThan(bench.clock.now() + HOUR_MS - 5_000);
});

describe('a worker that stood still for longer than its job lock and the window', () => {
  /** Meanwhile the other worker is given a slot under the same id, and sends in it. */
  async function whileStopped({ limiter, clock }: Bench, id: string): Promise<void> {
    clock.advance(HOUR_MS + 60_000);
    const other = await limiter.admit({ ...recipient, id: `${id}/0` });
    expect(other).toMatchObject({ kind: 'admitted', repeated: false });
  }

  it.each([
    ['does not ask again', 1],
    ['takes no slot from the other worker, if its lock goes between the look at it and the ask', 2],
  ])('%s', async (_, asks) => {
    const bench = await openHourly();
    const notification = makeNotification();
    const { lock, lose } = takenOver();
    let others: readonly object[] = [];
    const { limiter, asked } = afterFirstAsk(
      bench,
      async () => {
        await whileStopped(bench, notification.id);
        bench.clock.advance(500);
        others = (await bench.limiter.inspect(RECIPIENT)).sent;
        if (asks === 1) lose();
      },
      lose,
    );
    const { outcome } = await bench.run(notification, none, { lock, limiter });
    expect(outcome.kind).toBe('yielded');
    expect(asked).toHaveLength(asks);
    const { sent, reserved } = await bench.limiter.inspect(RECIPIENT);
    expect(others).toHaveLength(1);
    expect({ sent, reserved }).toEqual({ sent: others, reserved: [] });
    expect(bench.sandbox.journal.all).toEqual([]);
  });

  it('gives back no slot of the other worker when its own send has alerted nobody', async () => {
    const bench = await openHourly();
    const device = makeDevice();
    const notification = makeNotification({ devices: [device] });
    bench.sandbox.apns.script(device.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered' }]);
    const { lock, lose } = takenOver();
    const providers = heldBack(bench, 'apns', async () => {
      await whileStopped(bench, notification.id);
      lose();
    });
    await bench.run(notification, none, { lock, providers });
    expect((await bench.limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });

  it('gives back no reservation of the other worker', async () => {
    const bench = await openHourly();
    await bench.limiter.admit({ ...recipient, id: 'first/0' });
    const notification = makeNotification();
    const { progress } = await bench.run(notification);
    const before = (await bench.limiter.inspect(RECIPIENT)).reserved;
    expect(before).toHaveLength(1);
    const { lock, lose } = takenOver();
    const endOf: DeliverParts['endOf'] = () => {
      lose();
      return Promise.resolve(undefined);
    };
    const expired = { ...notification, expiresAt: bench.clock.now() - 1 };
    expect((await bench.run(expired, progress, { lock, endOf })).outcome.kind).toBe('yielded');
    expect((await bench.limiter.inspect(RECIPIENT)).reserved).toEqual(before);
  });
});
