import { describe, expect, it } from 'vitest';
import { conclude, record, type Tried } from '../../src/delivery/conclude.ts';
import { readProgress, type Progress } from '../../src/delivery/progress.ts';
import type { Reply } from '../../src/providers/provider.ts';

const NOW = 1_795_284_000_000;
const parts = {
  retry: { attempts: 3, backoffBaseMs: 1_000, backoffMaxMs: 60_000 },
  now: () => NOW,
  random: () => 1,
};
const none = readProgress(undefined);

const accepted: Reply = { meaning: 'accepted', code: 'ok', alerted: 'yes' };
const gone: Reply = { meaning: 'gone', code: 'Unregistered', alerted: 'no' };
const badToken: Reply = { meaning: 'bad-token', code: 'BadDeviceToken', alerted: 'no' };
const rejected: Reply = { meaning: 'rejected', code: 'TopicDisallowed', alerted: 'no' };
const busy: Reply = { meaning: 'later', code: 'ServiceUnavailable', alerted: 'no' };
const timeout: Reply = { meaning: 'later', code: 'timeout', alerted: 'maybe', ambiguous: true };
const auth: Reply = { meaning: 'auth', code: 'InvalidProviderToken', alerted: 'no' };

/** Records and concludes one round; replies are those of apns#0, apns#1, … */
function round(replies: readonly Reply[], before: Progress = none, pausedMs = 0) {
  const tried = replies.map((reply, index): Tried => ({ label: `apns#${index}`, reply }));
  const progress = record(before, tried, NOW);
  const open = tried.map(({ label }) => label).filter((label) => !(label in progress.devices));
  return conclude(progress, open, tried, pausedMs, parts);
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
    const { outcome, progress } = conclude({ ...none, tries: 2 }, open, tried, 5_000, parts);
    expect(outcome).toMatchObject({ kind: 'held', waitMs: 6_250, code: 'provider-paused' });
    expect(progress.devices).toEqual({ 'apns#0': 'attempts-exhausted' });
  });

  it('spends no attempt where it is the worker that stops', () => {
    const { outcome, progress } = round([{ meaning: 'later', code: 'cancelled', alerted: 'no' }]);
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
      const concluded = conclude(record(progress, tried, NOW), ['apns#0'], tried, 0, generous);
      progress = concluded.progress;
      return concluded.outcome.kind;
    });
    expect(kinds).toEqual(['retried', 'retried', 'dead-letter']);
  });
});

describe('credentials refused, or a paused provider', () => {
  it('keeps the notification and spends no attempt', () => {
    const { outcome, progress } = round([auth], none, 30_000);
    expect(outcome).toEqual({ kind: 'held', waitMs: 37_500, code: 'InvalidProviderToken' });
    expect(progress).toMatchObject({ tries: 0, asks: 1, heldSince: NOW });
  });

  it('does not ask for another slot where none was used', () => {
    const { outcome, progress } = conclude(none, ['apns#0'], [], 8_000, parts);
    expect(outcome).toMatchObject({ kind: 'held', code: 'provider-paused' });
    expect(progress.asks).toBe(0);
  });

  it('gives up after a day', () => {
    const { outcome } = round([auth], { ...none, heldSince: NOW - 86_400_001 });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'provider-auth' });
  });
});
