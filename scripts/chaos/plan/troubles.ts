import type { Platform } from '../../../src/domain/notification.ts';
import type { Answer, Rate, Refuse } from '../../../src/sandbox/loopback/answers.ts';
import type { Dice } from './dice.ts';

/** A time in which a provider answers a share of the requests in such a way. */
export interface Trouble {
  readonly name: string;
  readonly rates: readonly Rate[];
}

/** In which part of a run each trouble fits. */
export interface Troubles {
  /** What takes long to get over: a request that is never answered is given up after ten seconds. */
  readonly early: readonly Trouble[];
  readonly middle: readonly Trouble[];
  /** Refusals for a minute, so that most of the run still has both providers. */
  readonly late: readonly Trouble[];
}

/** A refusal for a minute has no place in a run that is shorter. */
const LONG_MS = 45_000;

/** The troubles of one provider, at rates of the dice. */
export function troubles(dice: Dice, platform: Platform, ms: number): Troubles {
  const rate = (percent: number, answer: Answer): Rate => ({ rate: (percent * dice.between(5, 15)) / 1_000, answer });
  const words = WORDS[platform];
  const both = (percent: number, answer: Answer): Rate[] => [
    rate(percent, answer),
    // The device was alerted, and nobody is told.
    rate(percent, { ...answer, accepted: true } as Answer),
  ];
  const resets = [
    ...both(2, { kind: 'reset', scope: 'stream' }),
    ...both(0.5, { kind: 'reset', scope: 'connection' }),
    rate(4, { kind: 'reset', scope: 'refused-stream' }),
  ];
  const everyMinute = [
    // FCM is known to say so of messages that it delivers; APNs does not.
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
      ...(isLong && platform === 'apns' ? [quota] : []), // of one device; the others go on
    ],
    middle: everyMinute,
    late: isLong && platform === 'fcm' ? [quota] : [], // of the whole project
  };
}

type Word = 'unavailable' | 'broken' | 'gone' | 'badToken' | 'rejected' | 'quota';

/** Answers about one device of thousands, which must not keep the others from theirs. */
export type OddWord = 'BadDeviceToken' | 'THIRD_PARTY_AUTH_ERROR' | 'QUOTA_EXCEEDED';

export interface Oddity {
  readonly platform: Platform;
  readonly word: OddWord;
  readonly answer: Refuse;
  /** How many of the device's next requests are answered so: more than it gets, where it stays so for good. */
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
    // 401, as where our own credentials are refused; it means the APNs key of that device's app.
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

/** How each provider says it. */
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
};
