import { describe, expect, it } from 'vitest';
import { judge } from '../../../sandbox/judge.ts';
import { makeDevice, makeTraced } from '../../support/push.ts';
import { openRealBench } from '../../support/real-bench.ts';
import { ringsOf } from '../../support/sleeping-phone.ts';

/** What a person hears whose Android phone sleeps while alerts are sent, each in a slot of its own. */

const COUNT = 8;
const GAP_MS = 400;
const POLICY = { rules: [{ max: 60, perMs: 60_000 }], minGapMs: GAP_MS };
const ENV = { LIMIT_RULES: '60/1m', LIMIT_MIN_GAP: `${GAP_MS}ms` };

/** When the phone rang, and when it woke: a second after the last alert was sent. */
async function heard(env: Readonly<Record<string, string>>, priority: 'normal' | 'high') {
  const bench = await openRealBench();
  await bench.startWorker({ ...ENV, ...env });
  const devices = [makeDevice('fcm')];
  await bench.enqueue(Array.from({ length: COUNT }, () => makeTraced({ devices, priority })));
  await bench.completed(COUNT);
  const accepted = bench.accepted();
  const wakesAt = Math.max(...accepted.map(({ at }) => at)) + 1_000;
  const rings = ringsOf(accepted, wakesAt);
  const arrivals = rings.map(({ at, entry }) => ({
    recipientId: 'teacher-42',
    notificationId: entry.data['ref'] ?? '',
    device: entry.token,
    at,
    // What rings when the phone wakes rings then.
    delayMs: at < wakesAt ? entry.delayMs : 0,
  }));
  return { verdict: judge(arrivals, POLICY), asleep: rings.filter(({ at }) => at < wakesAt).length };
}

describe('a phone that sleeps', () => {
  it('rings for all alerts of normal priority at once when it wakes, although each left in its slot', async () => {
    const { verdict, asleep } = await heard({}, 'normal');
    expect(asleep).toBe(0);
    expect(verdict.gapViolations).toBe(COUNT - 1);
  });

  it.each([
    ['with FCM_ANDROID_V2', { FCM_ANDROID_V2: 'true' }, 'normal'],
    ['for alerts of high priority', {}, 'high'],
  ] as const)('rings in their slots %s', async (_name, env, priority) => {
    const { verdict, asleep } = await heard(env, priority);
    expect(asleep).toBe(COUNT);
    expect(verdict).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 0 });
  });
});
