import { describe, expect, it } from 'vitest';
import type { QuietHours } from '../../src/domain/quiet-hours.ts';
import { makeNotification } from '../support/push.ts';
import { none, openBench, RECIPIENT, type Bench } from './support.ts';

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
    const { outcome } = await bench.run(makeNotification({ expiresAt: Date.now() + HOUR / 2 }));
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

  it('is delivered now without a sound on request, and takes no slot', async () => {
    const bench = await openQuiet();
    const { outcome } = await bench.run(makeNotification({ onQuiet: 'silence', sound: 'default' }));
    expect(outcome).toEqual({ kind: 'delivered', silenced: true });
    expect(JSON.stringify(bench.sandbox.journal.accepted)).not.toContain('"sound"');
    expect((await bench.limiter.inspect(RECIPIENT)).sent).toEqual([]);
  });

  it.each(['drop', 'silence'] as const)('waits for their end before %s counts', async (onThrottle) => {
    const bench = await openQuiet();
    const push = makeNotification({ onThrottle });
    const { outcome, progress } = await bench.run(push);
    expect(outcome).toMatchObject({ kind: 'requeued', rule: 'quiet' });
    await bench.limiter.unquiet(RECIPIENT);
    expect((await bench.run(push, progress)).outcome).toEqual({ kind: 'delivered' });
  });

  it('is not delivered silently in them because of limits that hold after them', async () => {
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
