import { describe, expect, it } from 'vitest';
import { conclude, record, type Kept, type Tried } from '../../src/delivery/conclude.ts';
import { readProgress, type Progress } from '../../src/delivery/progress.ts';
import type { Reply } from '../../src/providers/provider.ts';

const NOW = 1_795_284_000_000;
const parts = {
  retry: { attempts: 3, backoffBaseMs: 1_000, backoffMaxMs: 60_000 },
  now: () => NOW,
  random: () => 1,
  atMostOnce: false,
};
const none = readProgress(undefined);

const accepted: Reply = { meaning: 'accepted', code: 'ok', alerted: 'yes' };
const gone: Reply = { meaning: 'gone', code: 'Unregistered', alerted: 'no' };
const badToken: Reply = { meaning: 'bad-token', code: 'BadDeviceToken', alerted: 'no' };
const rejected: Reply = { meaning: 'rejected', code: 'TopicDisallowed', alerted: 'no' };
const busy: Reply = { meaning: 'later', code: 'ServiceUnavailable', alerted: 'no' };
const timeout: Reply = { meaning: 'later', code: 'timeout', alerted: 'maybe', ambiguous: true };
const auth: Reply = { meaning: 'auth', code: 'InvalidProviderToken', alerted: 'no', trouble: 'auth' };
const refused: Reply = {
  meaning: 'later',
  code: 'connection-refused',
  alerted: 'no',
  unreached: true,
  trouble: 'outage',
};
const paused: Kept = { until: NOW + 5_000, comeBackAt: () => NOW + 5_000, trouble: 'auth' };

/** Records and concludes one round; replies are those of apns#0, apns#1, … */
function round(replies: readonly Reply[], before: Progress = none, kept?: Kept) {
  const tried = replies.map((reply, index): Tried => ({ label: `apns#${index}`, reply }));
  const progress = record(before, tried, NOW);
  const open = tried.map(({ label }) => label).filter((label) => !(label in progress.devices));
  return conclude(progress, open, tried, kept, parts);
}

describe('nothing left to try', () => {
  it.each([
    ['one device alerted', [accepted], { kind: 'delivered' }],
    ['one of two alerted', [gone, accepted], { kind: 'delivered' }],
    ['gone', [gone], { kind: 'dead-letter', reason: 'unregistered', message: 'Unregistered' }],
    [
      'a bad token beside a gone one',
      [badToken, gone],
      { kind: 'dead-letter', reason: 'bad-token', message: 'Unregistered' },
    ],
    [
      'refused beside gone: the one worth curing',
      [gone, rejected],
      { kind: 'dead-letter', reason: 'rejected', message: 'TopicDisallowed' },
    ],
  ])('%s', (_, replies, outcome) => expect(round(replies).outcome).toEqual(outcome));
});

describe('later', () => {
  it('is retried with backoff, counts as an attempt, and asks for another slot', () => {
    expect(round([busy])).toEqual({
      outcome: { kind: 'retried', waitMs: 1_000, code: 'ServiceUnavailable' },
      progress: { ...none, tries: 1, asks: 1, attempts: [{ at: NOW, device: 'apns#0', error: 'ServiceUnavailable' }] },
    });
  });

  it('waits as long as the slowest device asks', () => {
    const slow = { ...busy, retryAfterMs: 30_000 };
    expect(round([busy, slow]).outcome).toMatchObject({ kind: 'retried', waitMs: 33_000 });
  });

  it('retries only the devices that failed', () => {
    const first = round([accepted, busy]);
    expect(first.outcome.kind).toBe('retried');
    expect(first.progress.devices).toEqual({ 'apns#0': 'delivered' });
  });

  it('is given up after the last attempt', () => {
    const { outcome, progress } = round([busy], { ...none, tries: 2 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'attempts-exhausted', message: 'ServiceUnavailable' });
    expect(progress.devices).toEqual({ 'apns#0': 'attempts-exhausted' });
  });

  it('gives up the device that failed, and no other one that waits for its provider', () => {
    const tried = [{ label: 'apns#0', reply: busy }];
    const open = ['apns#0', 'fcm#1'];
    const { outcome, progress } = conclude({ ...none, tries: 2 }, open, tried, paused, parts);
    expect(outcome).toMatchObject({ kind: 'held', waitMs: 5_000, code: 'provider-paused' });
    expect(progress.devices).toEqual({ 'apns#0': 'attempts-exhausted' });
  });

  it('spends no attempt where it is the worker that stops', () => {
    const { outcome, progress } = round([{ meaning: 'later', code: 'cancelled', alerted: 'no', unreached: true }]);
    expect(outcome).toMatchObject({ kind: 'held', code: 'cancelled' });
    expect(progress).toMatchObject({ tries: 0, asks: 1 });
  });

  it('forgets how long it was held before', () => {
    expect(round([busy], { ...none, heldSince: 1 }).progress.heldSince).toBeUndefined();
  });

  it('is delivered when the last attempt fails for one device but another was alerted', () => {
    expect(round([accepted, busy], { ...none, tries: 2 }).outcome).toEqual({ kind: 'delivered' });
  });

  it('is tried twice more, not to the end, where it may have alerted', () => {
    const generous = { ...parts, retry: { ...parts.retry, attempts: 100 } };
    let progress = none;
    const kinds = [1, 2, 3].map(() => {
      const tried = [{ label: 'apns#0', reply: timeout }];
      const concluded = conclude(record(progress, tried, NOW), ['apns#0'], tried, undefined, generous);
      progress = concluded.progress;
      return concluded.outcome.kind;
    });
    expect(kinds).toEqual(['retried', 'retried', 'dead-letter']);
  });
});

describe('credentials refused, or a paused provider', () => {
  it('keeps the notification until the pause is over, and spends no attempt', () => {
    const { outcome, progress } = conclude(
      none,
      ['apns#0'],
      [{ label: 'apns#0', reply: auth, isPaused: true }],
      paused,
      parts,
    );
    expect(outcome).toEqual({ kind: 'held', waitMs: 5_000, code: 'InvalidProviderToken' });
    expect(progress).toMatchObject({ tries: 0, asks: 1, heldSince: NOW, dueAt: NOW + 5_000 });
  });

  it('does not ask for another slot where none was used', () => {
    const { outcome, progress } = conclude(none, ['apns#0'], [], paused, parts);
    expect(outcome).toMatchObject({ kind: 'held', code: 'provider-paused' });
    expect(progress.asks).toBe(0);
  });

  it.each([
    ['auth', 'provider-auth'],
    ['outage', 'attempts-exhausted'],
  ] as const)('gives up after a day of %s', (trouble, reason) => {
    const { outcome } = conclude(
      { ...none, heldSince: NOW - 86_400_001 },
      ['apns#0'],
      [],
      { ...paused, trouble },
      parts,
    );
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason });
  });

  it('spends no attempt on what met an outage that is known of, unless it may have alerted', () => {
    const down = { ...busy, trouble: 'outage' } as const;
    const outage: Kept = { ...paused, trouble: 'outage' };
    const known = conclude(none, ['apns#0'], [{ label: 'apns#0', reply: down, isPaused: true }], outage, parts);
    expect(known).toMatchObject({ outcome: { kind: 'held' }, progress: { tries: 0 } });
    const unknown = conclude(none, ['apns#0'], [{ label: 'apns#0', reply: down }], undefined, parts);
    expect(unknown).toMatchObject({ outcome: { kind: 'retried' }, progress: { tries: 1 } });
    const maybe = conclude(none, ['apns#0'], [{ label: 'apns#0', reply: timeout, isPaused: true }], outage, parts);
    expect(maybe).toMatchObject({ outcome: { kind: 'retried', waitMs: 6_000 }, progress: { tries: 1, ambiguous: 1 } });
  });
});

describe('what never got there', () => {
  it('is tried again soon, less often the longer it lasts, and spends no attempt', () => {
    const waits = [1, 2, 3, 9].map((times) => {
      const { outcome, progress } = round([refused], { ...none, unreached: times - 1 });
      expect(progress).toMatchObject({ tries: 0, unreached: times, asks: 1 });
      return (outcome as { waitMs: number }).waitMs;
    });
    expect(waits).toEqual([500, 1_000, 2_000, 30_000]);
  });

  it('is not kept for another provider that is paused', () => {
    expect(round([refused], none, paused).outcome).toMatchObject({ kind: 'held', waitMs: 500 });
  });
});

describe('at most once', () => {
  const once = { ...parts, atMostOnce: true };

  it('gives up what may have alerted, with a reason of its own', () => {
    const tried = [{ label: 'apns#0', reply: timeout }];
    const progress = record(none, tried, NOW, true);
    expect(conclude(progress, [], tried, undefined, once).outcome).toEqual({
      kind: 'dead-letter',
      reason: 'ambiguous',
      message: 'timeout',
    });
  });

  it('still retries what certainly did not', () => {
    const tried = [{ label: 'apns#0', reply: busy }];
    expect(conclude(record(none, tried, NOW, true), ['apns#0'], tried, undefined, once).outcome.kind).toBe('retried');
  });
});
