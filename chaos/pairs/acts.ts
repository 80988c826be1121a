import type { Rate } from '../../sandbox/loopback/answers.ts';
import type { Platform } from '../../src/notification/notification.ts';
import { createDice, WORDS, type Dice } from '../faults.ts';

/** What an operator or a producer does. `pick`, 0 to 1, chooses among the candidates that there are at that time. */
export type Act = { readonly atMs: number } & (
  | {
      readonly kind: 'cancel-id';
      readonly of: 'any' | 'digest' | 'latest' | 'dead' | 'canceled';
      readonly pick: number;
    }
  | { readonly kind: 'cancel-key'; readonly pick: number }
  | { readonly kind: 'retract-id'; readonly of: 'any' | 'digest' | 'latest' | 'dead'; readonly pick: number }
  | { readonly kind: 'block'; readonly recipientId: string; readonly forMs: number }
  | { readonly kind: 'unblock' | 'limit' | 'unlimit' | 'quiet' | 'unquiet' | 'reset'; readonly recipientId: string }
  | { readonly kind: 'replay-all' }
  | { readonly kind: 'replay-one' | 'discard-one'; readonly pick: number }
  /** A waiting job is removed by hand, as on an operator's board. */
  | { readonly kind: 'remove'; readonly of: 'any' | 'digest' | 'latest'; readonly pick: number }
  /** An id is enqueued again: while it waits, or after it ended (then its ended job is removed by hand, as an hour would). */
  | { readonly kind: 'again'; readonly state: 'waits' | 'ended'; readonly pick: number }
  | { readonly kind: 'reshard'; readonly to: number }
);

/** A fault. `worker`: a place in the fleet. */
export type PairFault = { readonly atMs: number } & (
  | { readonly kind: 'kill-worker'; readonly worker: number }
  | { readonly kind: 'stop-worker'; readonly worker: number; readonly forMs: number }
  /** A worker beside the others for a while. */
  | { readonly kind: 'visitor'; readonly what: Visitor; readonly forMs: number }
  | { readonly kind: 'script-flush' }
  | {
      readonly kind: 'answers';
      readonly platform: Platform;
      readonly forMs: number;
      readonly name: string;
      readonly rates: readonly Rate[];
    }
  /** One device is answered as gone. */
  | { readonly kind: 'gone-device'; readonly pick: number; readonly forMs: number }
);

/** Without the credentials of a platform; of the earlier version; with a clock that is ahead. */
export type Visitor = 'without-fcm' | 'without-apns' | 'earlier' | 'clock-ahead';

export interface PairsPlan {
  readonly workers: number;
  readonly acts: readonly Act[];
  readonly faults: readonly PairFault[];
}

interface PlanOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly recipientIds: readonly string[];
  /** The recipient that is blocked for long. */
  readonly aside: string;
  /** With a worker of the earlier version for a while. */
  readonly hasEarlier?: boolean | undefined;
}

const BEGIN = 0.06;
const END = 0.96;
/** One seed in so many changes the number of shards and back, which takes most of a minute. */
const RESHARD_EVERY = 5;

/** All acts and faults in order: a pure function of the seed. */
export function planPairs({ seed, seconds, recipientIds, aside, hasEarlier = false }: PlanOptions): PairsPlan {
  const ms = seconds * 1_000;
  const dice = createDice(seed, 41);
  const isResharded = seed % RESHARD_EVERY === RESHARD_EVERY - 1;
  const acts = [
    ...singleActs(dice, ms),
    ...recipientActs(dice, ms, recipientIds),
    { atMs: Math.round(ms * BEGIN), kind: 'block' as const, recipientId: aside, forMs: 300_000 },
    { atMs: Math.round(ms * 0.8), kind: 'unblock' as const, recipientId: aside },
    ...(isResharded ? [{ atMs: 300, kind: 'reshard' as const, to: 2 }] : []),
  ];
  const workers = dice.between(3, 5);
  const faults = planFaults(createDice(seed, 42), ms, workers, hasEarlier && !isResharded);
  const known = acts.filter((act) => act.kind !== 'retract-id' || !isUnknownTo(faults, act.atMs));
  return {
    workers,
    acts: [...known, ...duringVisits(dice, faults, ms)].toSorted((a, b) => a.atMs - b.atMs),
    faults: faults.toSorted((a, b) => a.atMs - b.atMs),
  };
}

/** A retract that meets a send that is under way may last so long. */
const RETRACT_MS = 8_000;

/** A worker of the earlier version knows no retracts: docs/upgrading.md says to upgrade the workers first. */
function isUnknownTo(faults: readonly PairFault[], atMs: number): boolean {
  return faults.some((fault) => {
    if (fault.kind !== 'visitor' || fault.what !== 'earlier') return false;
    return atMs > fault.atMs - RETRACT_MS && atMs < fault.atMs + fault.forMs + START_MS;
  });
}

/** How often each is done in the usual 25 s. */
const TIMES = {
  ...{ cancelId: 44, cancelKey: 8, retractId: 24, replayAll: 3, replayOne: 4, discardOne: 2 },
  ...{ remove: 8, againWaits: 6, againEnded: 12 },
};
const USUAL_MS = 25_000;

function singleActs(dice: Dice, ms: number): Act[] {
  const times = (name: keyof typeof TIMES): number => Math.max(1, Math.round((TIMES[name] * ms) / USUAL_MS));
  const at = (): number => dice.between(ms * BEGIN, ms * END);
  const pick = (): number => dice.between(0, 9_999) / 10_000;
  const repeat = (name: keyof typeof TIMES, make: () => Act): Act[] => Array.from({ length: times(name) }, make);
  const any = ['any', 'digest', 'latest'] as const;
  return [
    ...repeat('cancelId', () => {
      const of = dice.pick([...any, ...any, 'dead', 'canceled'] as const);
      return { atMs: at(), kind: 'cancel-id', of, pick: pick() };
    }),
    ...repeat('cancelKey', () => ({ atMs: at(), kind: 'cancel-key', pick: pick() })),
    ...repeat('retractId', () => {
      const of = dice.pick(['any', 'any', 'digest', 'latest', 'dead'] as const);
      return { atMs: at(), kind: 'retract-id', of, pick: pick() };
    }),
    ...repeat('replayAll', () => ({ atMs: at(), kind: 'replay-all' })),
    ...repeat('replayOne', () => ({ atMs: at(), kind: 'replay-one', pick: pick() })),
    ...repeat('discardOne', () => ({ atMs: at(), kind: 'discard-one', pick: pick() })),
    ...repeat('remove', () => ({ atMs: at(), kind: 'remove', of: dice.pick(any), pick: pick() })),
    ...repeat('againWaits', () => ({ atMs: at(), kind: 'again', state: 'waits', pick: pick() })),
    ...repeat('againEnded', () => ({ atMs: at(), kind: 'again', state: 'ended', pick: pick() })),
  ];
}

/** A process takes about so long to start. */
const START_MS = 1_800;
const CANCELS_A_VISIT = 8;

/** What is canceled while a worker without credentials may take it, and make it a dead letter. */
function duringVisits(dice: Dice, faults: readonly PairFault[], ms: number): Act[] {
  return faults.flatMap((fault) => {
    if (fault.kind !== 'visitor' || !fault.what.startsWith('without')) return [];
    const { atMs, forMs } = fault;
    return Array.from({ length: CANCELS_A_VISIT }, (): Act => {
      const of = dice.pick(['any', 'digest', 'latest'] as const);
      const pick = dice.between(0, 5_000) / 10_000;
      return { atMs: Math.min(ms, atMs + START_MS + dice.between(0, forMs)), kind: 'cancel-id', of, pick };
    });
  });
}

/** Each begins and ends within the run; of one recipient one at a time is in force. */
function recipientActs(dice: Dice, ms: number, recipientIds: readonly string[]): Act[] {
  const pairs = [
    ['block', 'unblock'],
    ['limit', 'unlimit'],
    ['quiet', 'unquiet'],
  ] as const;
  return recipientIds.flatMap((recipientId) => {
    const shareMs = (ms * (END - BEGIN)) / pairs.length;
    const acts = dice.shuffled(pairs).flatMap(([begin, end], index): Act[] => {
      if (dice.chance(0.25)) return [];
      const from = Math.round(ms * BEGIN + index * shareMs + dice.between(0, shareMs * 0.3));
      const forMs = dice.between(shareMs * 0.2, shareMs * 0.6);
      const ending: Act = { atMs: from + forMs, kind: end, recipientId };
      if (begin !== 'block') return [{ atMs: from, kind: begin, recipientId }, ending];
      // Half of the blocks end by themselves.
      const isUnblocked = dice.chance(0.5);
      const block: Act = { atMs: from, kind: begin, recipientId, forMs: isUnblocked ? 2 * forMs : forMs };
      return isUnblocked ? [block, ending] : [block];
    });
    if (dice.chance(0.5)) acts.push({ atMs: dice.between(ms * BEGIN, ms * END), kind: 'reset', recipientId });
    return acts;
  });
}

/** Faults of the workers one after the other; the others at any time. */
function planFaults(dice: Dice, ms: number, workers: number, hasEarlier: boolean): PairFault[] {
  const at = (): number => dice.between(ms * BEGIN, ms * 0.85);
  const kinds = dice.shuffled(['kill', 'kill', 'kill', 'short', 'long'] as const);
  const shareMs = (ms * (0.9 - BEGIN)) / kinds.length;
  const ofWorkers = kinds.map((kind, index): PairFault => {
    const atMs = Math.round(ms * BEGIN + index * shareMs + dice.between(0, shareMs * 0.7));
    const worker = dice.between(0, workers - 1);
    if (kind === 'kill') return { atMs, kind: 'kill-worker', worker };
    return {
      atMs,
      kind: 'stop-worker',
      worker,
      forMs: kind === 'short' ? dice.between(1_000, 1_900) : dice.between(3_000, 6_000),
    };
  });
  const visitors: Visitor[] = [
    'without-fcm',
    'without-apns',
    dice.pick(['without-fcm', 'without-apns']),
    'clock-ahead',
  ];
  // `reshard` refuses to begin while a worker of an earlier version lives.
  if (hasEarlier) visitors.push('earlier');
  return [
    ...ofWorkers,
    // They are of use while there is much to take.
    ...visitors.map((what): PairFault => {
      return { atMs: dice.between(ms * BEGIN, ms * 0.6), kind: 'visitor', what, forMs: dice.between(4_000, 6_500) };
    }),
    ...[0, 1].map((): PairFault => ({ atMs: at(), kind: 'script-flush' })),
    ...(['apns', 'fcm'] as const).flatMap((platform): PairFault[] => [
      { atMs: at(), kind: 'answers', platform, forMs: dice.between(1_500, 3_000), ...trouble(dice, platform) },
    ]),
    { atMs: at(), kind: 'gone-device', pick: dice.between(0, 1_000_000), forMs: dice.between(2_000, 4_000) },
  ];
}

/** Half of the requests fail; of some that fail the device was alerted all the same. */
function trouble(dice: Dice, platform: 'apns' | 'fcm'): { readonly name: string; readonly rates: readonly Rate[] } {
  const { unavailable, broken } = WORDS[platform];
  const closed = [
    { rate: 0.1, answer: { kind: 'reset', scope: 'stream' } },
    { rate: 0.05, answer: { kind: 'reset', scope: 'stream', accepted: true } },
    { rate: 0.02, answer: { kind: 'reset', scope: 'connection' } },
  ] as const;
  const errors = [
    { rate: 0.2, answer: unavailable },
    { rate: 0.2, answer: broken },
    { rate: 0.05, answer: { ...broken, accepted: true } },
  ];
  return dice.chance(0.5)
    ? { name: 'errors', rates: errors }
    : { name: 'errors and closed connections', rates: [...errors, ...closed] };
}

/** `   1.2 s  cancel one of a digest`: one line of the plan. */
export function describe(one: Act | PairFault): string {
  return `${seconds(one.atMs).padStart(8)}  ${textOf(one)}`;
}

function textOf(one: Act | PairFault): string {
  switch (one.kind) {
    case 'cancel-id':
      return `cancel one by its id: ${one.of}`;
    case 'cancel-key':
      return 'cancel all under a key';
    case 'retract-id':
      return `retract one by its id: ${one.of}`;
    case 'block':
      return `block ${one.recipientId} for ${seconds(one.forMs)}`;
    case 'unblock':
    case 'limit':
    case 'unlimit':
    case 'quiet':
    case 'unquiet':
    case 'reset':
      return `${one.kind} ${one.recipientId}`;
    case 'replay-all':
      return 'replay all dead letters';
    case 'replay-one':
      return 'replay one dead letter';
    case 'discard-one':
      return 'discard one dead letter';
    case 'remove':
      return `remove a waiting job by hand: ${one.of}`;
    case 'again':
      return one.state === 'waits' ? 'enqueue an id again that waits' : 'enqueue an id again that ended';
    case 'reshard':
      return `reshard to ${one.to}, and back`;
    case 'kill-worker':
      return `worker ${one.worker} is killed, and replaced`;
    case 'stop-worker':
      return `worker ${one.worker} is frozen for ${seconds(one.forMs)}`;
    case 'visitor':
      return `one more worker, ${one.what}, for ${seconds(one.forMs)}`;
    case 'script-flush':
      return 'Redis forgets its scripts';
    case 'answers':
      return `${one.platform} for ${seconds(one.forMs)}: ${one.name}`;
    case 'gone-device':
      return `one device is gone for ${seconds(one.forMs)}`;
  }
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
