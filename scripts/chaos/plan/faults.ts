import { PLATFORMS, type Platform } from '../../../src/domain/notification.ts';
import type { Rate } from '../../../src/sandbox/loopback/answers.ts';
import { createDice, type Dice } from './dice.ts';
import { LONG_MS, ODDITIES, troubles, type OddWord } from './troubles.ts';

/** A fault that is injected. `worker` is a place in the fleet, whatever process runs there at that time. */
export type Fault = { readonly atMs: number } & (
  | { readonly kind: 'kill-worker' | 'restart-worker'; readonly worker: number }
  | { readonly kind: 'stop-worker'; readonly worker: number; readonly forMs: number }
  | { readonly kind: 'kill-redis' | 'pause-redis'; readonly forMs: number }
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

export const WORKERS = 6;
/** The workers' LOCK_DURATION. */
export const LOCK_MS = 5_000;

/** The first faults come a little after the start, and the last ones end a little before the end (shares of the run). */
const BEGIN = 0.05;
const END = 0.97;

/** Every fault of a run of `seconds`, in order. A pure function, so that the same seed gives the same faults. */
export function planFaults(seed: number, seconds: number): Fault[] {
  const ms = seconds * 1_000;
  const lanes = [
    workerFaults(createDice(seed, 1), ms),
    redisFaults(createDice(seed, 2), ms),
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
    const strike = round.shift();
    const long = LOCK_MS + dice.between(1_000, 4_000);
    const short = dice.between(200, 1_500);
    if (strike === 'kill') return { atMs, kind: 'kill-worker', worker };
    if (strike === 'restart') return { atMs, kind: 'restart-worker', worker };
    const leftMs = Math.floor(ms * END) - atMs;
    const forMs = strike === 'long' && long < leftMs ? long : Math.min(short, leftMs);
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
