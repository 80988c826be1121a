import type { Rate, Answer, Refuse } from '../sandbox/loopback/answers.ts';
import { seededRandom } from '../sandbox/loopback/timing.ts';
import { PLATFORMS, type Platform } from '../src/notification/notification.ts';

/** A fault that is injected. `worker` is a place in the fleet, whatever process runs there at that time. */
export type Fault = { readonly atMs: number } & (
  | { readonly kind: 'kill-worker' | 'restart-worker'; readonly worker: number }
  | { readonly kind: 'stop-worker'; readonly worker: number; readonly forMs: number }
  | ({ readonly kind: 'kill-redis'; readonly forMs: number } & Partial<OfCluster>)
  | ({ readonly kind: 'pause-redis'; readonly forMs: number } & Partial<OfCluster>)
  | ({ readonly kind: 'move-slot' } & OfCluster)
  | { readonly kind: 'cut-clients' }
  | {
      readonly kind: 'answers';
      readonly platform: Platform;
      readonly forMs: number;
      readonly name: string;
      readonly rates: readonly Rate[];
    }
  | { readonly kind: 'go-away'; readonly platform: Platform; readonly forMs: number; readonly every: number }
  | { readonly kind: 'drop-connections' | 'close-idle'; readonly platform: Platform }
  /** One device of all: number `pick`, modulo their number, of those that are sent to later. */
  | { readonly kind: 'odd-device'; readonly platform: Platform; readonly word: OddWord; readonly pick: number }
  | { readonly kind: 'revoke-key' | 'provider-down'; readonly platform: Platform; readonly forMs: number }
);

/** Which part of a cluster: the master of a shard's slot or of a recipient's slot, by number `pick` modulo their number. */
interface OfCluster {
  readonly of: 'shard' | 'recipient';
  readonly pick: number;
  /** The master's replica is cut off for so long before a kill, as if it lagged. */
  readonly lagMs?: number;
}

export const WORKERS = 6;
/** The workers' LOCK_DURATION. */
export const LOCK_MS = 5_000;

/** The first faults come a little after the start, and the last ones end a little before the end (shares of the run). */
const BEGIN = 0.05;
const END = 0.97;

/**
 * Every fault of a run of `seconds`, in order. A pure function, so that the same seed gives the same faults. On a cluster only those
 * of Redis are others.
 */
export function planFaults(seed: number, seconds: number, isCluster = false): Fault[] {
  const ms = seconds * 1_000;
  const lanes = [
    workerFaults(createDice(seed, 1), ms),
    isCluster ? clusterFaults(createDice(seed, 3), ms) : redisFaults(createDice(seed, 2), ms),
    ...PLATFORMS.flatMap((platform, index) => [
      answerFaults(createDice(seed, 10 + index), ms, platform),
      providerFaults(createDice(seed, 20 + index), ms, platform),
    ]),
    oddDevices(createDice(seed, 8), ms),
  ];
  return lanes.flat().toSorted((a, b) => a.atMs - b.atMs);
}

/** Instants in equal shares of the time, each somewhere in the first half of its own. */
function instants(dice: Dice, ms: number, count: number): { readonly atMs: number; readonly shareMs: number }[] {
  const shareMs = Math.floor((ms * (END - BEGIN)) / count);
  return Array.from({ length: count }, (_, index) => ({
    atMs: Math.round(ms * BEGIN + index * shareMs + dice.between(0, shareMs / 2)),
    shareMs,
  }));
}

/** Two dozen a minute, at each place in turn, so that a new process has time to start before the next fault. */
function workerFaults(dice: Dice, ms: number): Fault[] {
  const places = dice.shuffled(Array.from({ length: WORKERS }, (_, place) => place));
  const count = Math.max(6, Math.round(ms / 2_500));
  let round: string[] = [];
  return instants(dice, ms, count).map(({ atMs }, index): Fault => {
    // The long stop goes first: later there may be no time left for it.
    if (round.length === 0) round = ['long', ...dice.shuffled(['kill', 'restart', 'short'])];
    const worker = places[index % WORKERS] ?? 0;
    const kind = round.shift();
    const long = LOCK_MS + dice.between(1_000, 4_000);
    const short = dice.between(200, 1_500);
    if (kind === 'kill') return { atMs, kind: 'kill-worker', worker };
    if (kind === 'restart') return { atMs, kind: 'restart-worker', worker };
    const leftMs = Math.floor(ms * END) - atMs;
    const forMs = kind === 'long' && long < leftMs ? long : Math.min(short, leftMs);
    return { atMs, kind: 'stop-worker', worker, forMs };
  });
}

/** Nine a minute; none begins before the one before it is over. */
function redisFaults(dice: Dice, ms: number): Fault[] {
  let round: Fault['kind'][] = [];
  return instants(dice, ms, Math.max(3, Math.round(ms / 6_500))).map(({ atMs, shareMs }): Fault => {
    if (round.length === 0) round = dice.shuffled(['kill-redis', 'pause-redis', 'cut-clients']);
    const forMs = Math.min(dice.between(500, 2_000), Math.floor(shareMs / 2));
    const kind = round.shift();
    return kind === 'cut-clients'
      ? { atMs, kind }
      : { atMs, kind: kind === 'kill-redis' ? kind : 'pause-redis', forMs };
  });
}

/** Ten a minute. One may begin before the one before it is over, and waits for it then. */
function clusterFaults(dice: Dice, ms: number): Fault[] {
  let round: Fault['kind'][] = [];
  let kills = 0;
  let moves = 0;
  return instants(dice, ms, Math.max(5, Math.round(ms / 6_000))).map(({ atMs }): Fault => {
    if (round.length === 0)
      round = dice.shuffled(['kill-redis', 'pause-redis', 'cut-clients', 'move-slot', 'move-slot']);
    const kind = round.shift();
    const forMs = dice.between(500, 2_000);
    const place = { of: dice.pick(['shard', 'recipient'] as const), pick: dice.between(0, 1_000_000) };
    const lagMs = dice.between(100, 400);
    switch (kind) {
      case 'kill-redis':
        return { atMs, kind, forMs, ...place, ...(kills++ % 2 === 0 && { lagMs }) };
      case 'move-slot':
        return { atMs, kind, ...place, of: moves++ % 2 === 0 ? 'shard' : 'recipient' };
      case 'pause-redis':
        return { atMs, kind, forMs, ...place };
      default:
        return { atMs, kind: 'cut-clients' };
    }
  });
}

/** Every kind of trouble once a minute, one after the other. */
function answerFaults(dice: Dice, ms: number, platform: Platform): Fault[] {
  const { early, middle, late } = troubles(dice, platform, ms);
  const round = [...dice.shuffled(early), ...dice.shuffled(middle), ...late];
  const rounds = Math.max(1, Math.round(ms / 60_000));
  const all = Array.from({ length: rounds }, () => round).flat();
  return instants(dice, ms, all.length).map(({ atMs, shareMs }, index): Fault => {
    const { name, rates } = all[index] ?? { name: 'well', rates: [] };
    const forMs = Math.round(shareMs * (0.35 + dice.between(0, 15) / 100));
    return { atMs, kind: 'answers', platform, forMs, name, rates };
  });
}

/** Faults of a provider as a whole. */
function providerFaults(dice: Dice, ms: number, platform: Platform): Fault[] {
  // What a push service refuses for the credentials waits for a minute.
  const mayRevoke = platform !== 'webpush' || ms >= LONG_MS;
  const others = ['drop-connections', 'provider-down', 'go-away', 'close-idle'] as const;
  const kinds = mayRevoke ? [...others, 'revoke-key' as const] : others;
  const rounds = Math.max(1, Math.round(ms / 30_000));
  const all = Array.from({ length: rounds }, () => dice.shuffled(kinds)).flat();
  return instants(dice, ms, all.length).map(({ atMs, shareMs }, index): Fault => {
    const forMs = Math.min(dice.between(1_000, 3_000), Math.floor(shareMs / 2));
    const kind = all[index];
    if (kind === 'go-away') return { atMs, kind, platform, forMs, every: dice.between(20, 60) };
    if (kind === 'drop-connections' || kind === 'close-idle') return { atMs, kind, platform };
    return { atMs, kind: kind === 'revoke-key' ? kind : 'provider-down', platform, forMs };
  });
}

/** Each odd answer is set for one device of thousands, early, so that notifications are sent to it afterwards. */
function oddDevices(dice: Dice, ms: number): Fault[] {
  return ODDITIES.map(({ platform, word }) => ({
    atMs: Math.round(ms * BEGIN) + dice.between(0, ms * 0.2),
    kind: 'odd-device' as const,
    platform,
    word,
    pick: dice.between(0, 1_000_000),
  }));
}

/** Answers that a provider gives to shares of the requests for a time. */
interface Trouble {
  readonly name: string;
  readonly rates: readonly Rate[];
}

/** Troubles by the part of a run into which they fit. */
interface Troubles {
  /** Troubles with long effects: a request without an answer times out after ten seconds. */
  readonly early: readonly Trouble[];
  readonly middle: readonly Trouble[];
  /** Refusals that last for a minute: late, so that most of the run has both providers. */
  readonly late: readonly Trouble[];
}

/** Shorter runs have no refusals that last for a minute. */
const LONG_MS = 45_000;

/** The troubles of one provider, with random rates. */
function troubles(dice: Dice, platform: Platform, ms: number): Troubles {
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
type OddWord = 'BadDeviceToken' | 'THIRD_PARTY_AUTH_ERROR' | 'QUOTA_EXCEEDED';

interface Oddity {
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

/** Random numbers from a seed: the same seed gives the same sequence. */
export interface Dice {
  /** From `least` up to `most`, a whole number. */
  between(least: number, most: number): number;
  /** True with this probability, 0 to 1. */
  chance(share: number): boolean;
  pick<T>(from: readonly T[]): T;
  shuffled<T>(from: readonly T[]): T[];
}

/** `use` gives each place that uses the seed a sequence of its own. */
export function createDice(seed: number, use: number): Dice {
  const random = seededRandom(Math.imul(seed, 0x9e3779b1) ^ use);
  const between = (least: number, most: number) => least + Math.floor(random() * (most - least + 1));
  return {
    between,
    chance: (share) => random() < share,
    pick: <T>(from: readonly T[]) => from[between(0, from.length - 1)] as T,
    shuffled: (from) =>
      from
        .map((value) => ({ value, at: random() }))
        .sort((a, b) => a.at - b.at)
        .map(({ value }) => value),
  };
}
