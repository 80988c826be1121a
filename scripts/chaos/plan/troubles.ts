import type { Platform } from '../../../src/domain/notification.ts';
import type { Answer, Rate, Refuse } from '../../../src/sandbox/loopback/answers.ts';
import type { Dice } from './dice.ts';

/** Answers that a provider gives to shares of the requests for a time. */
interface Trouble {
  readonly name: string;
  readonly rates: readonly Rate[];
}

/** Troubles by the part of a run into which they fit. */
export interface Troubles {
  /** Troubles with long effects: a request without an answer times out after ten seconds. */
  readonly early: readonly Trouble[];
  readonly middle: readonly Trouble[];
  /** Refusals that last for a minute: late, so that most of the run has both providers. */
  readonly late: readonly Trouble[];
}

/** Shorter runs have no refusals that last for a minute. */
export const LONG_MS = 45_000;

/** The troubles of one provider, with random rates. */
export function troubles(dice: Dice, platform: Platform, ms: number): Troubles {
  const rate = (percent: number, answer: Answer): Rate => ({ rate: (percent * dice.between(5, 15)) / 1_000, answer });
  const words = WORDS[platform];
  const both = (percent: number, answer: Answer): Rate[] => [
    rate(percent, answer),
    // The device was alerted, but the answer says otherwise.
    rate(percent, { ...answer, accepted: true } as Answer),
  ];
  const resets = [
    ...both(2, { kind: 'reset', scope: 'stream' }),
    ...both(0.5, { kind: 'reset', scope: 'connection' }),
    rate(4, { kind: 'reset', scope: 'refused-stream' }),
  ];
  const everyMinute = [
    // FCM is known to send 503 for messages that it delivers; APNs is not.
    { name: 'unavailable', rates: platform === 'fcm' ? both(10, words.unavailable) : [rate(20, words.unavailable)] },
    { name: 'errors that alert or not', rates: both(4, words.broken) },
    { name: 'refusals', rates: [rate(2, words.gone), rate(2, words.badToken), rate(1, words.rejected)] },
    { name: 'resets', rates: resets },
    { name: 'slow', rates: [rate(20, { kind: 'accept', delayMs: 150 }), rate(10, { kind: 'accept', delayMs: 900 })] },
    ...(platform === 'fcm'
      ? [{ name: 'quota, with Retry-After', rates: [rate(3, { ...words.quota, retryAfter: '1' })] }]
      : []),
  ];
  const quota = { name: 'quota', rates: [rate(2, words.quota)] };
  const isLong = ms >= LONG_MS;
  return {
    early: [
      { name: 'hangs', rates: both(0.7, { kind: 'hang' }) },
      ...(isLong && platform !== 'fcm' ? [quota] : []), // of one device; the others go on
    ],
    middle: everyMinute,
    late: isLong && platform === 'fcm' ? [quota] : [], // of the whole project
  };
}

type Word = 'unavailable' | 'broken' | 'gone' | 'badToken' | 'rejected' | 'quota';

/** Answers about one device of thousands, which must not delay the others. */
export type OddWord = 'BadDeviceToken' | 'THIRD_PARTY_AUTH_ERROR' | 'QUOTA_EXCEEDED';

export interface Oddity {
  readonly platform: Platform;
  readonly word: OddWord;
  readonly answer: Refuse;
  /** How many of the device's next requests get this answer; FOR_GOOD is more than will come. */
  readonly times: number;
}

const FOR_GOOD = 200;

export const ODDITIES: readonly Oddity[] = [
  {
    platform: 'apns',
    word: 'BadDeviceToken',
    answer: { kind: 'refuse', status: 400, reason: 'BadDeviceToken' },
    times: FOR_GOOD,
  },
  {
    // 401, the status for refused credentials too; but it is about the APNs key of that device's app.
    platform: 'fcm',
    word: 'THIRD_PARTY_AUTH_ERROR',
    answer: { kind: 'refuse', status: 401, reason: 'THIRD_PARTY_AUTH_ERROR' },
    times: FOR_GOOD,
  },
  {
    platform: 'fcm',
    word: 'QUOTA_EXCEEDED',
    answer: { kind: 'refuse', status: 429, reason: 'QUOTA_EXCEEDED', quota: 'device', retryAfter: '2' },
    times: 2,
  },
];

/** Each provider's own answer for it. */
export const WORDS: Readonly<Record<Platform, Readonly<Record<Word, Refuse>>>> = {
  apns: {
    unavailable: { kind: 'refuse', status: 503, reason: 'ServiceUnavailable' },
    broken: { kind: 'refuse', status: 500, reason: 'InternalServerError' },
    gone: { kind: 'refuse', status: 410, reason: 'Unregistered' },
    badToken: { kind: 'refuse', status: 400, reason: 'BadDeviceToken' },
    rejected: { kind: 'refuse', status: 400, reason: 'BadCollapseId' },
    quota: { kind: 'refuse', status: 429, reason: 'TooManyRequests' },
  },
  fcm: {
    unavailable: { kind: 'refuse', status: 503, reason: 'UNAVAILABLE', retryAfter: '1' },
    broken: { kind: 'refuse', status: 500, reason: 'INTERNAL' },
    gone: { kind: 'refuse', status: 404, reason: 'UNREGISTERED' },
    badToken: { kind: 'refuse', status: 403, reason: 'SENDER_ID_MISMATCH' },
    rejected: { kind: 'refuse', status: 400, reason: 'INVALID_ARGUMENT' },
    quota: { kind: 'refuse', status: 429, reason: 'QUOTA_EXCEEDED', quota: 'project' },
  },
  webpush: {
    unavailable: { kind: 'refuse', status: 503, reason: 'PushServiceUnavailable' },
    broken: { kind: 'refuse', status: 500, reason: 'PushServiceError' },
    gone: { kind: 'refuse', status: 410, reason: 'ExpiredSubscription' },
    badToken: { kind: 'refuse', status: 400, reason: 'VapidPkHashMismatch' },
    rejected: { kind: 'refuse', status: 400, reason: 'BadWebPushTopic' },
    quota: { kind: 'refuse', status: 429, reason: 'TooManyPushes' },
  },
};
