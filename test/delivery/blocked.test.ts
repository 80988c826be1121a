import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { deliver } from '../../src/delivery/deliver.ts';
import type { WaitingAsk } from '../../src/limiter/limiter.ts';
import type { QuietHours } from '../../src/domain/quiet-hours.ts';
import { PRIORITY } from '../../src/queue/names.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { contextOf, none, openBench, POLICY, RECIPIENT, takeDown, type Bench, type Overrides } from './support.ts';

describe('a blocked notification', () => {
  it('is put back for exactly the wait, and sent when it is due', async () => {
    const { run, sandbox, limiter } = await openBench();
    await run(makeNotification());
    const [slot] = (await limiter.inspect(RECIPIENT)).sent;
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
    // From the first slot, not from the first arrival: a busy machine makes that one late. 25 ms: how early a slot may be used.
    expect(sandbox.journal.accepted[1]?.at).toBeGreaterThan((slot?.at ?? Infinity) + POLICY.minGapMs - 50);
  });

  it('waits behind older ones that are overdue, where a worker has raised it before them', async () => {
    const { parts, limiter } = await openBench();
    const asked: WaitingAsk[] = [];
    const admit = (ask: WaitingAsk) => {
      asked.push(ask);
      return limiter.admit(ask);
    };
    for (const [priority, data] of [
      [PRIORITY.high, makeNotification()],
      [PRIORITY.high, makeNotification({ priority: 'high' })],
      [PRIORITY.normal, makeNotification()],
    ] as const) {
      await deliver(contextOf(data, none, priority), { ...parts, limiter: { ...limiter, admit } });
    }
    expect(asked.map(({ behindOverdue = false }) => behindOverdue)).toEqual([true, false, false]);
  });

  it('becomes a dead letter where its slot lies too far ahead', async () => {
    const { run } = await openBench();
    await run(makeNotification());
    const { outcome } = await run(makeNotification(), none, { maxWaitMs: 100 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'throttled-too-long' });
    expect((outcome as { message: string }).message).toMatch(
      /^its slot lies [\d.]+m?s ahead, by \S+; the longest wait is 100ms \(LIMIT_MAX_WAIT\)$/,
    );
  });

  it('becomes a dead letter where too many wait for the recipient', async () => {
    const { run } = await openBench();
    for (let before = 0; before < 3; before++) await run(makeNotification(), none, { maxPending: 2 });
    const { outcome } = await run(makeNotification(), none, { maxPending: 2 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'throttled-too-long' });
    expect((outcome as { message: string }).message).toMatch(/^2 or more wait for this recipient already/);
  });

  it('waits for the end of a block however long that is, unless it will not wait, or expires first', async () => {
    const bench = await openBench();
    const { limiter, clock } = bench;
    await limiter.block(RECIPIENT, { until: clock.now() + 3 * 86_400_000, reason: 'on leave' });
    const outcomes: unknown[] = [];
    for (const fields of [
      {},
      { priority: 'high' },
      { onThrottle: 'drop' },
      { onThrottle: 'silence', priority: 'high' },
      { expiresAt: clock.now() + 60_000 },
    ] as const) {
      outcomes.push((await bench.run(makeNotification(fields), none, { maxWaitMs: 60_000 })).outcome);
    }
    expect(outcomes).toMatchObject([
      { kind: 'requeued', rule: 'block' },
      { kind: 'requeued', rule: 'block', before: 0 },
      { kind: 'dropped', rule: 'block' },
      { kind: 'delivered', silenced: true },
      { kind: 'expired' },
    ]);
    const { outcome } = await bench.run(makeNotification(), none, { maxWaitMs: 1_000 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'throttled-too-long' });
  });

  it('is a retraction: it waits, however long its line is', async () => {
    const bench = await openBench();
    const background = { pushType: 'background', alert: undefined, data: { sync: '1' } } as const;
    const bounds = { maxWaitMs: 1_000, maxPending: 1 };
    const kinds: string[] = [];
    for (let sent = 0; sent < 3; sent++) kinds.push((await bench.run(makeNotification(background))).outcome.kind);
    kinds.push((await bench.run(makeNotification(background), none, bounds)).outcome.kind);
    const data = { pushpacer: { retract: ['msg-1'], tags: ['msg-1'] } };
    const retraction = makeNotification({ ...background, data, onThrottle: 'latest', collapseId: 'pushpacer-retract' });
    kinds.push((await bench.run(retraction, none, bounds)).outcome.kind);
    expect(kinds).toEqual(['delivered', 'delivered', 'requeued', 'dead-letter', 'requeued']);
  });

  it.each<[string, (bench: Bench) => Overrides, string]>([
    ['it expires', ({ clock }) => ({ now: () => clock.now() + 120_000 }), 'expired'],
    ['it dies', () => ({ providers: { get: () => undefined }, credentialsWaitMs: 0 }), 'dead-letter'],
  ])('gives its reservation back when %s', async (_, overrides, kind) => {
    const bench = await openBench();
    const { run, limiter, clock } = bench;
    await run(makeNotification());
    const blocked = makeNotification({ expiresAt: clock.now() + 60_000 });
    const { progress } = await run(blocked);
    expect((await limiter.inspect(RECIPIENT)).reserved).toHaveLength(1);
    expect((await run(blocked, progress, overrides(bench))).outcome.kind).toBe(kind);
    expect((await limiter.inspect(RECIPIENT)).reserved).toEqual([]);
  });

  it.each([
    ['its worker was lost', { stalls: 1 }, {}],
    ['a send had no answer', {}, { maybe: true }],
  ])('says that it may have been shown where %s before it expired or was dropped', async (_, overrides, seen) => {
    const { run, clock } = await openBench();
    await run(makeNotification());
    const progress = { ...none, ...seen };
    const late = makeNotification({ expiresAt: clock.now() - 1 });
    const expired = { kind: 'expired', maybeShown: true };
    expect((await run(late, progress, overrides)).outcome).toEqual(expired);
    const dropped = { kind: 'dropped', rule: 'gap', maybeShown: true };
    expect((await run(makeNotification({ onThrottle: 'drop' }), progress, overrides)).outcome).toEqual(dropped);
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

const HOUR = 3_600_000;

/** Quiet for at least an hour before and after now. */
function quietNow(): QuietHours {
  const [from, until] = [Date.now() - HOUR, Date.now() + HOUR + 60_000].map((at) =>
    new Date(at).toISOString().slice(11, 16),
  );
  return { timezone: 'UTC', quietHours: [{ from: from ?? '', until: until ?? '' }] };
}

async function openQuiet(): Promise<Bench> {
  const bench = await openBench();
  await bench.limiter.quiet(RECIPIENT, quietNow());
  return bench;
}

async function reservedIn({ limiter }: Bench): Promise<number> {
  return (await limiter.inspect(RECIPIENT)).reserved.length;
}

describe('a notification in quiet hours', () => {
  it('waits for their end, at its slot behind the others', async () => {
    const bench = await openQuiet();
    const first = await bench.run(makeNotification());
    const second = await bench.run(makeNotification());
    expect([first.outcome, second.outcome]).toMatchObject([
      { kind: 'requeued', rule: 'quiet', before: 0 },
      { kind: 'requeued', rule: 'quiet', before: 1 },
    ]);
    const { ruleUntil } = (await bench.limiter.inspect(RECIPIENT)).reserved[0] ?? {};
    expect([first.progress, second.progress]).toMatchObject([{ ruleUntil }, { ruleUntil }]);
    expect(ruleUntil).toBe((await bench.limiter.inspect(RECIPIENT)).quiet?.until);
    const [one, two] = [first.outcome, second.outcome].map((each) => (each as { waitMs: number }).waitMs);
    expect(one).toBeGreaterThan(HOUR - 60_000);
    expect((two ?? 0) - (one ?? 0)).toBeGreaterThan(0);
    expect(await reservedIn(bench)).toBe(2);
    expect(bench.sandbox.journal.accepted).toHaveLength(0);
  });

  it('waits however short the longest wait is', async () => {
    const bench = await openQuiet();
    const { outcome } = await bench.run(makeNotification(), none, { maxWaitMs: 1_000 });
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'quiet' });
  });

  it('expires if it is not to be delivered so late', async () => {
    const bench = await openQuiet();
    const { outcome } = await bench.run(makeNotification({ expiresAt: bench.clock.now() + HOUR / 2 }));
    expect(outcome).toEqual({ kind: 'expired' });
    expect(await reservedIn(bench)).toBe(0);
  });

  it('is dropped on request, by the rule quiet', async () => {
    const bench = await openQuiet();
    const { outcome } = await bench.run(makeNotification({ onQuiet: 'drop' }));
    expect(outcome).toEqual({ kind: 'dropped', rule: 'quiet' });
    expect(await reservedIn(bench)).toBe(0);
    await bench.limiter.unquiet(RECIPIENT);
    expect((await bench.run(makeNotification({ onQuiet: 'drop' }))).outcome).toEqual({ kind: 'delivered' });
  });

  it.each(['drop', 'silence'] as const)('waits for their end before %s counts', async (onThrottle) => {
    const bench = await openQuiet();
    const push = makeNotification({ onThrottle });
    const { outcome, progress } = await bench.run(push);
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'quiet' });
    await bench.limiter.unquiet(RECIPIENT);
    expect((await bench.run(push, progress)).outcome).toEqual({ kind: 'delivered' });
  });

  it('is not delivered silently in them because of limits that apply after them', async () => {
    const bench = await openQuiet();
    await bench.run(makeNotification());
    const { outcome } = await bench.run(makeNotification({ onThrottle: 'silence' }));
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'quiet' });
    expect(await reservedIn(bench)).toBe(1);
    expect(bench.sandbox.journal.accepted).toHaveLength(0);
  });

  it('is delivered as ever if it is a background push', async () => {
    const bench = await openQuiet();
    const push = { ...makeNotification({ pushType: 'background', data: { a: '1' } }), alert: undefined };
    expect((await bench.run(push)).outcome).toEqual({ kind: 'delivered' });
  });
});
