import { describe, expect, it } from 'vitest';
import type { Progress, Tried } from '../../src/delivery/context.ts';
import { afterSend, deferOrGiveUp } from '../../src/delivery/decide.ts';
import type { Platform } from '../../src/domain/notification.ts';
import type { Result } from '../../src/domain/outcome.ts';
import { APNS_ANSWERS } from '../../src/providers/apns/answers.ts';
import type { Reply } from '../../src/providers/provider.ts';
import { transportReply } from '../../src/providers/replies.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { contextOf, none, openBench, openBreaker } from './support.ts';

const NOW = 1_795_284_000_000;
const { accepted, words } = APNS_ANSWERS;
const gone: Reply = { ...words.Unregistered, code: 'Unregistered' };
const badToken: Reply = { ...words.BadDeviceToken, code: 'BadDeviceToken' };
const rejected: Reply = { ...words.BadTopic, code: 'BadTopic' };
const busy: Reply = { ...words.ServiceUnavailable, code: 'ServiceUnavailable' };
const timeout = transportReply('timeout');
const refused = transportReply('connection-refused');

interface Round {
  readonly progress?: Progress;
  /** `apns` unless told, for each device in turn. */
  readonly platforms?: readonly Platform[];
  readonly attempts?: number;
  readonly atMostOnce?: boolean;
}

/** Decides rounds of replies over real breakers; a device for which there is no reply was not tried. */
async function openDecisions() {
  const { parts, breakers } = await openBench({ platforms: [] });
  const decide = (
    replies: readonly (Reply | undefined)[],
    round: Round = {},
  ): { outcome: Result; progress: Progress } => {
    const { progress = none, platforms = [], attempts = 3, atMostOnce = false } = round;
    const devices = replies.map((_, index) => makeDevice(platforms[index]));
    const context = contextOf(makeNotification({ devices }), progress);
    const tried = replies.flatMap((reply, index): Tried[] => {
      const platform = devices[index]?.platform ?? 'apns';
      return reply === undefined ? [] : [{ label: `${platform}#${index}`, service: platform, reply, at: NOW }];
    });
    const retry = { ...parts.retry, attempts };
    const decided = { ...parts, retry, atMostOnce, now: () => NOW, random: () => 1 };
    context.tried.push(...tried);
    return { outcome: afterSend(context, decided), progress: context.progress };
  };
  return { decide, breakers, parts };
}

describe('nothing left to try', () => {
  it.each<[string, Reply[], Result]>([
    ['one device alerted', [accepted], { kind: 'delivered' }],
    ['one of two alerted', [gone, accepted], { kind: 'delivered' }],
    ['gone', [gone], { kind: 'dead-letter', reason: 'unregistered', message: 'Unregistered' }],
    ['bad beside gone', [badToken, gone], { kind: 'dead-letter', reason: 'bad-token', message: 'Unregistered' }],
    ['refused beside gone', [gone, rejected], { kind: 'dead-letter', reason: 'rejected', message: 'BadTopic' }],
  ])('%s: the reason is the one most worth curing', async (_, replies, outcome) => {
    expect((await openDecisions()).decide(replies).outcome).toEqual(outcome);
  });
});

describe('an answer that says later', () => {
  it('is retried with backoff, and counts as an attempt', async () => {
    const { decide } = await openDecisions();
    expect(decide([busy])).toEqual({
      outcome: { kind: 'retried', waitMs: 1_000, code: 'ServiceUnavailable' },
      progress: { ...none, tries: 1, attempts: [{ at: NOW, device: 'apns#0', error: 'ServiceUnavailable' }] },
    });
  });

  it('waits as long as the slowest device asks', async () => {
    const { decide } = await openDecisions();
    const slow = { ...busy, retryAfterMs: 30_000 };
    expect(decide([busy, slow]).outcome).toMatchObject({ kind: 'retried', waitMs: 33_000 });
  });

  it('concerns only the devices that failed', async () => {
    const { outcome, progress } = (await openDecisions()).decide([accepted, busy]);
    expect(outcome.kind).toBe('retried');
    expect(progress.devices).toEqual({ 'apns#0': 'delivered' });
  });

  it('is given up after the last attempt', async () => {
    const { outcome, progress } = (await openDecisions()).decide([busy], { progress: { ...none, tries: 2 } });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'attempts-exhausted', message: 'ServiceUnavailable' });
    expect(progress.devices).toEqual({ 'apns#0': 'attempts-exhausted' });
  });

  it('ends as delivered where another device was alerted', async () => {
    const { decide } = await openDecisions();
    expect(decide([accepted, busy], { progress: { ...none, tries: 2 } }).outcome).toEqual({ kind: 'delivered' });
  });

  it('gives up the device that failed, and no other one that waits for its provider', async () => {
    const { decide, breakers } = await openDecisions();
    openBreaker(breakers, 'fcm', 'auth', 'told');
    const round: Round = { progress: { ...none, tries: 2 }, platforms: ['apns', 'fcm'] };
    const { outcome, progress } = decide([busy, undefined], round);
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'told' });
    expect(progress.devices).toEqual({ 'apns#0': 'attempts-exhausted' });
  });

  it('does not wait for the breaker of another provider', async () => {
    const { decide, breakers } = await openDecisions();
    openBreaker(breakers, 'fcm', 'auth');
    const { outcome } = decide([busy, undefined], { platforms: ['apns', 'fcm'] });
    expect(outcome).toEqual({ kind: 'retried', waitMs: 1_000, code: 'ServiceUnavailable' });
  });

  it('forgets since when the notification was kept before', async () => {
    const { decide } = await openDecisions();
    expect(decide([busy], { progress: { ...none, heldSince: 1, unreached: 3 } }).progress).toMatchObject({
      heldSince: undefined,
      unreached: 0,
    });
  });

  it('that leaves open whether it alerted is tried twice more, not to the end', async () => {
    const { decide } = await openDecisions();
    let progress = none;
    const kinds = [1, 2, 3].map(() => {
      const decided = decide([timeout], { progress, attempts: 100 });
      progress = decided.progress;
      return decided.outcome.kind;
    });
    expect(kinds).toEqual(['retried', 'retried', 'dead-letter']);
  });
});

describe('what did not get there', () => {
  it('is tried again soon, less often the longer it lasts, and spends no attempt', async () => {
    const { decide } = await openDecisions();
    const waits = [1, 2, 3, 9].map((times) => {
      const { outcome, progress } = decide([refused], { progress: { ...none, unreached: times - 1 } });
      expect(progress).toMatchObject({ tries: 0, unreached: times });
      return (outcome as { waitMs: number }).waitMs;
    });
    expect(waits).toEqual([500, 1_000, 2_000, 30_000]);
  });

  it('is tried again at once where it is our own fault, less often the longer it lasts', async () => {
    const { decide } = await openDecisions();
    const waits = [1, 2, 9].map((times) => {
      const { outcome } = decide([transportReply('too-late')], { progress: { ...none, unreached: times - 1 } });
      return (outcome as { waitMs: number }).waitMs;
    });
    expect(waits).toEqual([50, 100, 5_000]);
  });

  it('does not wait for the breaker of another provider', async () => {
    const { decide, breakers } = await openDecisions();
    openBreaker(breakers, 'fcm', 'auth');
    const { outcome } = decide([refused, undefined], { platforms: ['apns', 'fcm'] });
    expect(outcome).toMatchObject({ kind: 'deferred', waitMs: 500 });
  });
});

it.each([
  ['auth', 'provider-auth'],
  ['configuration', 'provider-auth'],
  ['outage', 'attempts-exhausted'],
] as const)('what was kept for a day of %s is given up as %s', async (trouble, reason) => {
  const { parts, breakers } = await openDecisions();
  openBreaker(breakers, 'apns', trouble);
  const context = contextOf(makeNotification(), { ...none, heldSince: Date.now() - 86_400_001 });
  expect(deferOrGiveUp(context, [], parts)).toMatchObject({ kind: 'dead-letter', reason });
});

describe('at most once', () => {
  it('gives up what may have alerted, with a reason of its own', async () => {
    const { outcome } = (await openDecisions()).decide([timeout], { atMostOnce: true });
    expect(outcome).toEqual({ kind: 'dead-letter', reason: 'ambiguous', message: 'timeout' });
  });

  it('still retries what certainly did not, and no longer notes it as under way', async () => {
    const { decide } = await openDecisions();
    const { outcome, progress } = decide([busy], { atMostOnce: true, progress: { ...none, trying: ['apns#0'] } });
    expect(outcome.kind).toBe('retried');
    expect(progress.trying).toBeUndefined();
  });
});
