import { expect, it } from 'vitest';
import { conclude } from '../../src/delivery/conclude.ts';
import { readProgress } from '../../src/delivery/progress.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { openBench } from './support.ts';

it('leaves the first place of a provider that it does not come back for to another one', async () => {
  const { run, parts } = await openBench();
  const { pauses } = parts;
  pauses.report({ platform: 'apns', notificationId: 'a', code: 'InvalidProviderToken', trouble: 'auth' });
  pauses.report({
    platform: 'fcm',
    notificationId: 'b',
    code: 'QUOTA_EXCEEDED',
    trouble: 'quota',
    retryAfterMs: 30_000,
  });
  const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
  const first = await run(both, readProgress(0), { enqueuedAt: 0 });
  expect(first.progress.dueAt).toBe(pauses.current('apns')?.until);

  const second = await run(makeNotification({ devices: [makeDevice('fcm')] }), readProgress(0), { enqueuedAt: 0 });
  expect(second.progress.dueAt).toBe(pauses.current('fcm')?.until);
});

it('takes no place among those that wait where it is tried again behind them', () => {
  const now = 1_000_000;
  let places = 0;
  const comeBackAt = () => (places += 1);
  const reply = { meaning: 'later', code: 'timeout', alerted: 'maybe', ambiguous: true, trouble: 'outage' } as const;
  const { outcome } = conclude(
    readProgress(0),
    ['apns#0'],
    [{ label: 'apns#0', reply, isPaused: true }],
    { until: now + 5_000, comeBackAt, trouble: 'outage' },
    {
      retry: { attempts: 3, backoffBaseMs: 1, backoffMaxMs: 1 },
      atMostOnce: false,
      now: () => now,
      random: () => 0,
    },
  );
  expect(outcome).toMatchObject({ kind: 'retried', waitMs: 6_000 });
  expect(places).toBe(0);
});
