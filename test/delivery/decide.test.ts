import { describe, expect, it, onTestFinished } from 'vitest';
import { createBreakers } from '../../src/breaker/redis-breakers.ts';
import type { QuotaWait, Tried } from '../../src/delivery/context.ts';
import type { DeliverParts } from '../../src/delivery/parts.ts';
import type { Progress } from '../../src/delivery/progress.ts';
import { afterSend, backoffMs, newer, notNoted } from '../../src/delivery/decide.ts';
import type { Platform } from '../../src/notification/notification.ts';
import type { DeadLetterReason, Result } from '../../src/notification/outcome.ts';
import { APNS_ANSWERS } from '../../src/providers/apns/answers.ts';
import type { Reply } from '../../src/providers/provider.ts';
import { WEBPUSH_ANSWERS } from '../../src/providers/webpush/answers.ts';
import { transportReply } from '../../src/providers/replies.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { answerWell, contextOf, none, openBreaker } from './support.ts';

const NOW = 1_795_284_000_000;
const DAY_MS = 86_400_000;
const { accepted, words } = APNS_ANSWERS;
const gone: Reply = { ...words.Unregistered, code: 'Unregistered' };
const badToken: Reply = { ...words.BadDeviceToken, code: 'BadDeviceToken' };
const rejected: Reply = { ...words.BadTopic, code: 'BadTopic' };
const busy: Reply = { ...words.ServiceUnavailable, code: 'ServiceUnavailable' };
const timeout = transportReply('timeout');
const refused = transportReply('connection-refused');

interface Round {
  readonly progress?: Progress;
  /** For each device in turn. Default: `apns`. */
  readonly platforms?: readonly Platform[];
  readonly attempts?: number;
  readonly atMostOnce?: boolean;
  /** More fields of the notification. */
  readonly fields?: object;
  /** Some devices were not tried, because a quota has no room. */
  readonly quotaWait?: QuotaWait;
}

/**
 * Decides rounds of replies over real breakers; a device for which there is no reply was not tried. Unless `isSilent`, the
 * providers have just answered others well.
 */
function openDecisions({ isSilent = false } = {}) {
  const times = { baseMs: 60_000, maxMs: 240_000 };
  const breakers = createBreakers({ redis: connectRedis(), prefix: testPrefix(), ...times, onChange: () => undefined });
  onTestFinished(() => breakers.close());
  if (!isSilent) answerWell(breakers);
  const decide = (
    replies: readonly (Reply | undefined)[],
    round: Round = {},
  ): { outcome: Result; progress: Progress } => {
    const { progress = none, platforms = [], attempts = 3, atMostOnce = false, quotaWait, fields } = round;
    const devices = replies.map((_, index) => makeDevice(platforms[index]));
    const context = contextOf(makeNotification({ devices, ...fields }), progress);
    const tried = replies.flatMap((reply, index): Tried[] => {
      const platform = devices[index]?.platform ?? 'apns';
      const times = { at: NOW, handedOverAt: 0, tookMs: 0 };
      return reply === undefined ? [] : [{ label: `${platform}#${index}`, service: platform, reply, ...times }];
    });
    const retry = { attempts, backoffBaseMs: 1_000, backoffMaxMs: 60_000 };
    const parts = { breakers, retry, atMostOnce, now: () => NOW, random: () => 1 } as Partial<DeliverParts>;
    context.tried.push(...tried);
    return { outcome: afterSend(context, parts as DeliverParts, quotaWait), progress: context.progress };
  };
  return { decide, breakers };
}

const LAST: Round = { progress: { ...none, tries: 2 } };
const dead = (reason: DeadLetterReason, message: string): Result => ({ kind: 'dead-letter', reason, message });

describe('what the replies of a pass make of the notification', () => {
  it.each<[string, Reply[], Round, outcome: Partial<Result>, progress?: Partial<Progress>]>([
    ['alerted', [accepted], {}, { kind: 'delivered' }],
    ['one of two alerted: it is delivered', [gone, accepted], {}, { kind: 'delivered' }],
    ['gone', [gone], {}, dead('unregistered', 'Unregistered')],
    [
      'bad beside gone: the reason is the one most worth curing',
      [badToken, gone],
      {},
      dead('bad-token', 'Unregistered'),
    ],
    ['refused beside gone', [gone, rejected], {}, dead('rejected', 'BadTopic')],
    [
      'later: it is retried with backoff, and that counts as an attempt',
      [busy],
      {},
      { kind: 'retried', waitMs: 1_000, code: 'ServiceUnavailable' },
      { tries: 1, attempts: [{ at: NOW, device: 'apns#0', error: 'ServiceUnavailable' }] },
    ],
    [
      'later, from two: it waits as long as the slowest device asks',
      [busy, { ...busy, retryAfterMs: 30_000 }],
      {},
      { kind: 'retried', waitMs: 33_000 },
    ],
    [
      'later, in the last attempt: it is given up',
      [busy],
      LAST,
      dead('attempts-exhausted', 'ServiceUnavailable'),
      { devices: { 'apns#0': 'attempts-exhausted' } },
    ],
    ['later, in the last attempt, beside one that was alerted', [accepted, busy], LAST, { kind: 'delivered' }],
    [
      'later, after a time in which it was kept: that is forgotten',
      [busy],
      { progress: { ...none, heldSince: 1, unreached: 3 } },
      { kind: 'retried' },
      { heldSince: undefined, unreached: 0 },
    ],
    [
      'one that leaves it open, at most once: it is given up with a reason of its own',
      [timeout],
      { atMostOnce: true },
      dead('ambiguous', 'timeout'),
    ],
    [
      'later, at most once: it is retried, and no longer noted as under way',
      [busy],
      { atMostOnce: true, progress: { ...none, trying: ['apns#0'] } },
      { kind: 'retried' },
      { trying: undefined },
    ],
  ])('%s', (_, replies, round, outcome, progress = {}) => {
    const decided = openDecisions().decide(replies, round);
    expect(decided.outcome).toMatchObject(outcome);
    expect(decided.progress).toMatchObject(progress);
  });

  it('gives up the device that failed, and no other one that waits for its provider', () => {
    const { decide, breakers } = openDecisions();
    openBreaker(breakers, 'fcm', 'auth', 'reported');
    const { outcome, progress } = decide([busy, undefined], { ...LAST, platforms: ['apns', 'fcm'] });
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'reported' });
    expect(progress.devices).toEqual({ 'apns#0': 'attempts-exhausted' });
  });

  it('that leaves open whether it alerted is tried twice more, not to the end', () => {
    const { decide } = openDecisions();
    let progress = none;
    const kinds = [1, 2, 3].map(() => {
      const decided = decide([timeout], { progress, attempts: 100 });
      progress = decided.progress;
      return decided.outcome.kind;
    });
    expect(kinds).toEqual(['retried', 'retried', 'dead-letter']);
  });
});

describe('an answer of a provider that seems to be down', () => {
  it('costs no attempt before the provider has answered anything well, and is asked for less often', () => {
    const { decide, breakers } = openDecisions({ isSilent: true });
    let progress = none;
    const pass = () => {
      const { outcome, progress: next } = decide([busy], { progress, attempts: 2 });
      progress = next;
      return [outcome.kind, 'waitMs' in outcome ? outcome.waitMs : undefined];
    };
    expect([pass(), pass(), pass(), pass()]).toEqual([
      ...[500, 1_000, 2_000, 4_000].map((waitMs) => ['deferred', waitMs]),
    ]);
    expect(progress).toMatchObject({ tries: 0, limited: 4, heldSince: NOW });
    expect(decide([{ ...busy, retryAfterMs: 60_000 }]).outcome).toMatchObject({ kind: 'deferred', waitMs: 66_000 });
    answerWell(breakers);
    expect([pass(), pass()]).toEqual([
      ['retried', 1_000],
      ['dead-letter', undefined],
    ]);
  });

  it('is waited for a day at most', () => {
    const { decide } = openDecisions({ isSilent: true });
    const progress = { ...none, heldSince: NOW - DAY_MS - 1, heldAt: NOW - 60_000 };
    expect(decide([busy], { progress }).outcome).toEqual(dead('attempts-exhausted', 'ServiceUnavailable'));
  });

  it('costs an attempt where it may have alerted', () => {
    const unsure: Reply = { ...words.InternalServerError, code: 'InternalServerError' };
    expect(openDecisions({ isSilent: true }).decide([unsure]).outcome.kind).toBe('retried');
  });
});

describe('what did not get there', () => {
  it.each([
    ['could not be reached', refused, [500, 1_000, 2_000, 30_000]],
    ['was too late in this worker', transportReply('too-late'), [50, 100, 200, 5_000]],
  ])('because it %s is tried again, less often the longer it lasts, at no attempt', (_, reply, waitsMs) => {
    const { decide } = openDecisions();
    const waits = [1, 2, 3, 9].map((times) => {
      const { outcome, progress } = decide([reply], { progress: { ...none, unreached: times - 1 } });
      expect(progress).toMatchObject({ tries: 0, unreached: times });
      return (outcome as { waitMs: number }).waitMs;
    });
    expect(waits).toEqual(waitsMs);
  });
});

it.each([
  ['what failed', busy, { kind: 'retried', waitMs: 1_000 }],
  ['what did not get there', refused, { kind: 'deferred', waitMs: 500 }],
])('%s does not wait for the breaker of another provider', (_, reply, outcome) => {
  const { decide, breakers } = openDecisions();
  openBreaker(breakers, 'fcm', 'auth');
  expect(decide([reply, undefined], { platforms: ['apns', 'fcm'] }).outcome).toMatchObject(outcome);
});

it('comes no sooner than a Retry-After asks, also where the breaker is free again before', () => {
  const { decide, breakers } = openDecisions();
  openBreaker(breakers, 'apns', 'outage');
  const retryAfterMs = Math.max(0, Date.now() - NOW) + DAY_MS; // the breaker is free again within a minute from now
  const { outcome, progress } = decide([{ ...busy, retryAfterMs }]);
  expect(outcome).toMatchObject({ kind: 'deferred', waitMs: retryAfterMs });
  expect(progress.dueAt).toBe(NOW + retryAfterMs);
  const fields = { expiresAt: NOW + 90_000 };
  expect(decide([{ ...busy, retryAfterMs }], { fields }).progress.dueAt).toBe(NOW + 90_000);
});

it.each([
  ['auth', 'provider-auth'],
  ['configuration', 'provider-auth'],
  ['outage', 'attempts-exhausted'],
] as const)('what was kept for a day of %s is given up as %s', (trouble, reason) => {
  const { decide, breakers } = openDecisions();
  openBreaker(breakers, 'apns', trouble);
  const { outcome } = decide([undefined], { progress: { ...none, heldSince: NOW - 86_400_001 } });
  expect(outcome).toMatchObject({ kind: 'dead-letter', reason });
});

it('does not count the days in which no worker tried it', () => {
  const { decide, breakers } = openDecisions();
  openBreaker(breakers, 'apns', 'outage');
  const held = { ...none, heldSince: NOW - 2 * DAY_MS - 60_000, heldAt: NOW - 2 * DAY_MS };
  const { outcome, progress } = decide([undefined], { progress: held });
  expect(outcome.kind).toBe('deferred');
  // Of the time since the last try, no more counts than lies between two tries at most.
  expect(progress).toMatchObject({ heldSince: NOW - 60_000 - 3_600_000, heldAt: NOW });
  const tried = { ...none, heldSince: NOW - DAY_MS - 60_000, heldAt: NOW - 60_000 };
  expect(decide([undefined], { progress: tried }).outcome.kind).toBe('dead-letter');
});

it.each([
  ['could not be reached', refused, undefined],
  ['waits for its breaker', undefined, 'quota'],
] as const)('a quota without room ends no device of another provider that %s', (_, reply, trouble) => {
  const { decide, breakers } = openDecisions();
  if (trouble !== undefined) openBreaker(breakers, 'apns', trouble);
  const quotaWait = { waitMs: 60_000, rule: 'fcm:1/1m', dueAt: performance.now() + 60_000 };
  const round: Round = { platforms: ['apns', 'fcm'], fields: { expiresAt: NOW + 30_000 }, quotaWait };
  expect(decide([reply, undefined], round).outcome.kind).toBe('deferred');
  expect(decide([accepted, undefined], { ...round, platforms: ['webpush', 'fcm'] }).outcome.kind).not.toBe('deferred');
});

describe('a push service that takes no more for now', () => {
  const LIMIT: Reply = { ...WEBPUSH_ANSWERS.statuses['429'], meaning: 'later', alerted: 'no', code: 'http-429' };
  const browser = ['webpush'] as const;

  it('costs no attempt, however often it answers so, and is asked less often the longer it lasts', () => {
    const { decide } = openDecisions();
    let progress = none;
    const waits = Array.from({ length: 8 }, () => {
      const decided = decide([{ ...LIMIT, retryAfterMs: 1_000 }], { progress, platforms: browser, attempts: 2 });
      progress = decided.progress;
      return decided.outcome.kind === 'deferred' ? decided.outcome.waitMs : decided.outcome.kind;
    });
    expect(waits).toEqual([1_100, 1_100, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    expect(progress).toMatchObject({ tries: 0, unreached: 0, limited: 8, heldSince: NOW });
    expect(decide([accepted, busy], { progress, platforms: ['webpush', 'webpush'] }).progress.limited).toBeUndefined();
    expect(decide([LIMIT], { platforms: browser }).outcome).toMatchObject({ kind: 'deferred', waitMs: 66_000 });
  });

  it('is not waited for past the end of the notification', () => {
    const { decide, breakers } = openDecisions();
    const endless = { ...LIMIT, retryAfterMs: DAY_MS };
    const round: Round = { platforms: browser, fields: { expiresAt: NOW + 90_000 } };
    expect(decide([endless], round).outcome).toMatchObject({ kind: 'deferred', waitMs: 90_000 });
    const busy = { ...LIMIT, isLimit: false };
    expect(decide([{ ...busy, retryAfterMs: DAY_MS }], round).outcome).toMatchObject({
      kind: 'retried',
      waitMs: 90_000,
    });
    openBreaker(breakers, 'apns', 'quota');
    expect(decide([undefined], { ...round, platforms: ['apns'] }).progress.dueAt).toBe(NOW + 90_000);
  });

  it('ends so too where a quota or a slot puts the notification off in turn', () => {
    const { decide } = openDecisions();
    const wait = { waitMs: 1_000, rule: 'webpush:1/1m', dueAt: performance.now() + 1_000 };
    let progress: Progress = { ...none, heldSince: NOW - DAY_MS + 60_000, heldAt: NOW - 60_000 };
    const requeue = () => decide([undefined], { progress, platforms: browser, quotaWait: wait });
    progress = requeue().progress;
    expect(progress).toMatchObject({ heldSince: undefined, heldBefore: NOW - DAY_MS + 60_000, heldAt: NOW - 60_000 });
    progress = requeue().progress;
    const again = decide([LIMIT], { progress, platforms: browser });
    expect(again.progress).toMatchObject({ heldSince: NOW - DAY_MS + 60_000, heldBefore: undefined, heldAt: NOW });
    progress = { ...progress, heldBefore: NOW - DAY_MS - 1 };
    expect(decide([LIMIT], { progress, platforms: browser }).outcome).toMatchObject({ kind: 'dead-letter' });
    // A worker that had the credentials took it since: the next time without them begins anew.
    const lacked = { ...none, heldSince: NOW - DAY_MS, heldAt: NOW, rule: 'credentials' };
    progress = decide([undefined], { progress: lacked, platforms: browser, quotaWait: wait }).progress;
    expect(progress.heldBefore).toBeUndefined();
  });

  it('does not hurry because another device is given up', () => {
    const { decide } = openDecisions();
    const round: Round = { progress: { ...none, tries: 2 }, platforms: ['apns', 'webpush'] };
    const { outcome, progress } = decide([busy, LIMIT], round);
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'http-429', waitMs: 66_000 });
    expect(progress.devices).toEqual({ 'apns#0': 'attempts-exhausted' });
  });
});

describe('the backoff', () => {
  const policy = { backoffBaseMs: 1_000, backoffMaxMs: 60_000 };

  it('doubles with each try, up to the maximum', () => {
    expect([1, 2, 3, 7, 50].map((tries) => backoffMs(tries, policy, 0, 1))).toEqual([
      1_000, 2_000, 4_000, 60_000, 60_000,
    ]);
  });

  it('draws the upper half by chance', () => {
    expect(backoffMs(2, policy, 0, 0)).toBe(1_000);
    expect(backoffMs(2, policy, 0, 0.5)).toBe(1_500);
  });

  it('never undercuts what the provider asked for, and spreads it by a tenth', () => {
    expect(backoffMs(1, policy, 120_000, 0)).toBe(120_000);
    expect(backoffMs(1, policy, 120_000, 1)).toBe(132_000);
  });
});

it('nothing was sent where Redis did not note it, not even to the devices of a slot that was missed before', () => {
  const context = { progress: { ...none, trying: ['apns#0'] } };
  expect(notNoted(context, { random: () => 0 })).toMatchObject({ kind: 'deferred', code: 'not-noted' });
  expect(context.progress.trying).toBeUndefined();
});

it('a job of a newer version waits for longer each time, never for longer than five minutes, and others are first', () => {
  const gaveWay: number[] = [];
  const place = { leave: () => () => undefined, giveWay: (times: number) => void gaveWay.push(times) };
  const waits = (random: number) =>
    [1, 2, 5, 9, 1_000].map((passes) => {
      const result = newer({ passes, place }, { random: () => random });
      return result.kind === 'deferred' ? result.waitMs : undefined;
    });
  expect(waits(1)).toEqual([2_000, 4_000, 32_000, 300_000, 300_000]);
  expect(waits(0)).toEqual([1_000, 2_000, 16_000, 150_000, 150_000]);
  expect(gaveWay).toEqual(Array.from({ length: 10 }, () => 1));
});
