import { type JournalEntry, shownOf } from '../sandbox/journal.ts';
import { tokenOf } from '../src/notification/device.ts';
import type { NotificationInput } from '../src/notification/notification.ts';
import { NOTHING, type Forgotten } from './forgotten.ts';
import type { Enqueued, Completed, Ends } from './queue.ts';
import { refOf } from './workload.ts';

/** How many notifications ended how; all numbers but `lost` add up to `notifications`. */
export interface Balance {
  /** Those that Redis acknowledged when they were enqueued. */
  readonly notifications: number;
  /** Completed as delivered, and received by a provider. */
  readonly delivered: number;
  readonly deadLettered: number;
  readonly deadLetters: Readonly<Record<string, number>>;
  readonly expired: number;
  readonly dropped: number;
  /** A newer one took their slot; they are part of a digest; they were canceled: `judgeWaiting`. */
  readonly superseded: number;
  readonly merged: number;
  readonly canceled: number;
  readonly stillQueued: number;
  /** Without an end, with two ends, or with one that this notification cannot have. */
  readonly unaccounted: number;
  /** Found nowhere, or delivered by the queue's record but not received by the provider, for one of its devices. */
  readonly lost: number;
  /** Found nowhere, because Redis has forgotten them at a failover; they count nowhere else. */
  readonly forgotten: readonly string[];
  /** Those that are unaccounted or lost, with what was found: `n17: received, completed as dropped`. */
  readonly suspects: readonly string[];
}

/** The ends of a notification, as the balance counts them. */
const FATES = [
  ...(['delivered', 'deadLettered', 'expired', 'dropped', 'superseded', 'merged', 'canceled'] as const),
  ...(['stillQueued', 'unaccounted'] as const),
];
type Fate = (typeof FATES)[number];

/** Counts only what the queue and the providers have; what was planned is not used. */
export function countBalance(
  enqueued: ReadonlyMap<string, Enqueued>,
  entries: readonly JournalEntry[],
  ends: Ends,
  atFailovers: Pick<Forgotten, 'notification'> = NOTHING,
): Balance {
  const received = new Map<string, Set<string>>();
  for (const { accepted, data, token } of entries) {
    if (accepted) received.set(refOf(data), (received.get(refOf(data)) ?? new Set()).add(token));
  }
  const completed = Map.groupBy(ends.completed, ({ id }) => id);
  const dead = Map.groupBy(ends.dead, ({ letter }) => (letter.notification as { id: string }).id);
  const queued = Map.groupBy(ends.queued, (id) => id);

  const fates = Object.fromEntries(FATES.map((fate) => [fate, 0])) as Record<Fate, number>;
  const suspects: string[] = [];
  const forgotten: string[] = [];
  let lost = 0;
  for (const one of enqueued.values()) {
    const tokens = received.get(one.id);
    const completions = completed.get(one.id) ?? [];
    const all = [...completions, ...(dead.get(one.id) ?? []), ...(queued.get(one.id) ?? [])];
    const [completion] = completions;
    if (all.length === 0 && atFailovers.notification(one.id)) {
      forgotten.push(one.id);
      continue;
    }
    const isLost =
      all.length === 0 ? tokens === undefined : completion !== undefined && hasLost(one, completion, tokens);
    let fate: Fate = 'unaccounted';
    if (all.length === 1)
      fate = completion ? fateOf(one, completion, tokens) : dead.has(one.id) ? 'deadLettered' : 'stillQueued';
    fates[fate] += 1;
    lost += isLost ? 1 : 0;
    if (isLost || fate === 'unaccounted') {
      const states = [
        ...(tokens === undefined ? [] : ['received']),
        ...completions.map(({ outcome }) => `completed as ${outcome}`),
        ...(dead.get(one.id) ?? []).map(({ letter }) => `dead letter ${letter.reason}`),
        ...(queued.get(one.id) ?? []).map(() => 'still queued'),
      ];
      suspects.push(`${one.id}: ${states.join(', ') || 'found nowhere'}`);
    }
  }
  const known = [...received.keys(), ...completed.keys(), ...dead.keys(), ...queued.keys()];
  const strangers = known.filter((id) => !enqueued.has(id));
  return {
    notifications: enqueued.size,
    ...fates,
    unaccounted: fates.unaccounted + strangers.length,
    deadLetters: countBy(ends.dead.map(({ letter }) => letter.reason)),
    lost,
    forgotten,
    suspects: [...suspects, ...strangers.map((id) => `${id}: not enqueued`)],
  };
}

/**
 * Whether a completed job has a device as alerted that no provider has received. If a notification may expire, its job only lists
 * the devices that were alerted by then.
 */
function hasLost(
  { input }: Enqueued,
  { outcome, devices, progress }: Completed,
  tokens: ReadonlySet<string> | undefined,
): boolean {
  if (outcome !== 'delivered') return false;
  if (tokens === undefined || input === undefined) return true;
  const assumed = mayEndEarly(input) ? 'given up' : 'delivered';
  return input.devices.some((device, index) => {
    const label = `${device.platform}#${index}`;
    const state = devices?.[label] ?? progress.devices[label] ?? assumed;
    return state === 'delivered' && !tokens.has(tokenOf(device));
  });
}

/** After one device was alerted, while another one is still to be tried again. */
function mayEndEarly({ expiresAt, onThrottle, onQuiet }: NotificationInput): boolean {
  return expiresAt !== undefined || onThrottle === 'drop' || onThrottle === 'latest' || onQuiet === 'drop';
}

function fateOf({ input }: Enqueued, { outcome }: Completed, tokens: ReadonlySet<string> | undefined): Fate {
  if (outcome === 'delivered' && tokens !== undefined) return 'delivered';
  if (outcome === 'expired' && input?.expiresAt !== undefined) return 'expired';
  if (outcome === 'dropped' && (input?.onThrottle === 'drop' || input?.onQuiet === 'drop')) return 'dropped';
  if (outcome === 'superseded' && input?.onThrottle === 'latest') return outcome;
  if (outcome === 'merged' && input?.onThrottle === 'digest') return outcome;
  return outcome === 'canceled' ? outcome : 'unaccounted';
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

/**
 * Requests without a reason: for no notification that was enqueued, or for a device that is not one of its own. Providers
 * count such requests against a sender. Each as `fcm at 2026-03-01T07:30:00.123Z, notification n17`.
 */
export function unknownRequests(
  enqueued: ReadonlyMap<string, Enqueued>,
  entries: readonly JournalEntry[],
): readonly string[] {
  return entries
    .filter(({ platform, token, data }) => {
      const devices = enqueued.get(refOf(data))?.input?.devices ?? [];
      return !devices.some((device) => device.platform === platform && tokenOf(device) === token);
    })
    .map(({ platform, at, data }) => {
      const whose = refOf(data) === '' ? 'no notification' : `notification ${refOf(data)}`;
      return `${platform} at ${new Date(at).toISOString()}, ${whose}`;
    });
}

/** What became of those that waited together, or were canceled. */
export interface Waited {
  /** Requests for a digest that providers accepted. */
  readonly digests: number;
  /** Silent alerts in quiet hours. */
  readonly quietAlerts: number;
  /** What went otherwise than it must, such as a digest of another number than the notifications in it. */
  readonly faults: readonly string[];
}

export interface WaitedParts {
  readonly enqueued: ReadonlyMap<string, Enqueued>;
  readonly entries: readonly JournalEntry[];
  readonly ends: Pick<Ends, 'completed' | 'dead'>;
  /** Notification → the last answer to its cancel: whether it was canceled. */
  readonly cancels: ReadonlyMap<string, boolean>;
  /** Notifications that a worker had at a fault: it may have sent them without noting it. */
  readonly inHand: ReadonlySet<string>;
}

/** `3 new`, which the plan's `DIGEST_BODY` becomes. */
const SENT_BODY = /^(\d+) new$/;

/** Counted from what the providers got and how the jobs ended. */
export function judgeWaiting({ enqueued, entries, ends, cancels, inHand }: WaitedParts): Waited {
  const completed = new Map(ends.completed.map((one) => [one.id, one]));
  const dead = new Set(ends.dead.map(({ id }) => id));
  const merged = ends.completed.filter(({ outcome }) => outcome === 'merged');
  const superseded = ends.completed.filter(({ outcome }) => outcome === 'superseded');
  const members = Map.groupBy(merged, ({ by }) => by ?? '');
  const accepted = entries.filter((entry) => entry.accepted);
  const digests = accepted.filter(({ body = '' }) => SENT_BODY.test(body));
  const isCanceled = ({ id }: Pick<Completed, 'id'>): boolean => cancels.get(id) === true;

  const keyOf = (id: string): string | undefined => enqueued.get(id)?.input?.digest?.key;
  /** One that joined, whose worker was killed before it could say so, and that then expired. */
  const expired = ends.completed.filter(({ outcome }) => outcome === 'expired');
  const expiredWith = (id: string): number =>
    keyOf(id) === undefined ? 0 : expired.filter((one) => keyOf(one.id) === keyOf(id)).length;

  const faults: string[] = [];
  const alerted = new Set(accepted.map(({ data }) => refOf(data)));
  for (const entry of accepted) {
    const id = refOf(entry.data);
    const joined = (members.get(id) ?? []).filter((one) => !isCanceled(one)).length;
    const expected = joined + (isCanceled({ id }) ? 0 : 1);
    const found = Number(SENT_BODY.exec(entry.body ?? '')?.[1] ?? 1);
    if (found < expected || found > expected + expiredWith(id))
      faults.push(`${id}: an alert for ${found}, of ${expected} notifications`);
  }
  for (const { id, by = '' } of [...merged, ...superseded]) {
    if (!completed.has(by) && !dead.has(by)) faults.push(`${id}: gave way to ${by}, which has no end`);
    if (alerted.has(id) && !inHand.has(id) && !mayHaveFailed(id, completed))
      faults.push(`${id}: gave way to ${by}, and was sent too`);
    if (enqueued.get(id)?.input?.recipientId !== enqueued.get(by)?.input?.recipientId)
      faults.push(`${id}: gave way to ${by}, of another recipient`);
  }
  for (const { id, outcome } of ends.completed) {
    if (outcome === 'canceled' && !cancels.has(id)) faults.push(`${id}: canceled, but nobody asked for it`);
  }
  for (const entry of accepted) {
    const input = enqueued.get(refOf(entry.data))?.input;
    if (input?.onQuiet !== undefined && shownOf(entry) === 'alert') faults.push(`${input.id}: sounded in quiet hours`);
  }
  for (const [id, canceled] of cancels) {
    const outcome = completed.get(id)?.outcome;
    if (canceled && alerted.has(id) && !members.has(id)) faults.push(`${id}: sent although it was canceled`);
    if (!canceled && outcome === 'canceled') faults.push(`${id}: canceled, but the answer was that it is too late`);
  }
  return {
    digests: digests.length,
    quietAlerts: accepted.filter(({ data }) => enqueued.get(refOf(data))?.input?.onQuiet === 'silence').length,
    faults,
  };
}

/**
 * A provider accepted it, but its answer said otherwise or was lost: then it is tried again, and may give way to a newer one.
 */
function mayHaveFailed(id: string, completed: ReadonlyMap<string, Completed>): boolean {
  return (completed.get(id)?.progress.attempts.length ?? 0) > 0;
}
