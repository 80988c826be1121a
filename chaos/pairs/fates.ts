import { tokenOf } from '../../src/notification/device.ts';
import { notificationIdOf } from '../../src/queue/names.ts';
import type { SeenEntry } from '../../demo/providers-child.ts';
import { refOf } from '../workload.ts';
import { lifeAt, type DeadAtEnd, type Done, type End, type Excused, type Life, type PairsFacts } from './facts.ts';

// What became of each notification, put together from everything that was seen of it.

export interface Fate {
  readonly life: Life;
  /**
   * How it ended: one of `OUTCOMES`; or the act that ended it, `removed` (its job, by hand) or `discarded` (its dead letter). `queued`:
   * its job has not ended. `none`: there is no end at all.
   */
  readonly kind: string;
  /** The last end that the product said. */
  readonly last: End | undefined;
  readonly ends: readonly End[];
  /** Every acceptance by a device, the first one first. */
  readonly seen: readonly SeenEntry[];
  readonly dead: DeadAtEnd | undefined;
  readonly removed: Extract<Done, { kind: 'remove' }> | undefined;
  /** A cancel by its id answered `canceled: 1`: when it was asked for. */
  readonly canceledAt: number | undefined;
  /** Somebody has retracted it, whatever came of that. Its dead letter is gone. */
  readonly isRetracted: boolean;
  /** The answers said so, or it ended so: it is in no digest. */
  readonly isCanceled: boolean;
}

export type Fates = ReadonlyMap<string, Fate>;

export function fatesOf(facts: PairsFacts): Fates {
  const { lives, done } = facts;
  const ends = Map.groupBy(facts.ends, ({ life }) => life);
  const seen = Map.groupBy(
    facts.entries.filter(({ accepted }) => accepted),
    ({ data }) => refOf(data),
  );
  const dead = new Map(facts.dead.map((one) => [one.life, one]));
  const queued = new Set(facts.queued.map((text) => text.split(' ')[0]));
  const removed = new Map(done.flatMap((one) => (one.kind === 'remove' ? [[one.life, one] as const] : [])));
  const discarded = new Map(done.flatMap((one) => (one.kind === 'discard' ? [[one.life, one] as const] : [])));
  const retracted = new Set(
    done.flatMap((one) => (one.kind === 'retract' ? lifeAt(lives, one.id, one.from)?.name : []) ?? []),
  );
  const canceledAt = new Map<string, number>();
  for (const one of done) {
    if ((one.kind !== 'cancel-id' && one.kind !== 'retract') || one.canceled === 0) continue;
    const name = lifeAt(lives, one.id, one.from)?.name;
    if (name !== undefined && !canceledAt.has(name)) canceledAt.set(name, one.from);
  }
  return new Map(
    lives.map((life) => {
      const { name } = life;
      const own = (ends.get(name) ?? []).toSorted((a, b) => a.generation - b.generation || a.at - b.at);
      const last = lastOf(own);
      const removal = removed.get(name);
      const parts = {
        isQueued: queued.has(name),
        isDead: dead.has(name),
        isDiscarded: discarded.has(name) || retracted.has(name),
      };
      const kind = kindOf(last, removal, parts);
      const isCanceled = canceledAt.has(name) || last?.outcome === 'canceled';
      const fate: Fate = {
        ...{ life, kind, last, ends: own, seen: seen.get(name) ?? [], isCanceled, isRetracted: retracted.has(name) },
        ...{ dead: dead.get(name), removed: removal, canceledAt: canceledAt.get(name) },
      };
      return [name, fate];
    }),
  );
}

/** Of the last generation what its job says, which is written last; else the last entry of the stream. */
function lastOf(ends: readonly End[]): End | undefined {
  const generation = ends.at(-1)?.generation;
  const last = ends.filter((end) => end.generation === generation);
  return last.findLast(({ from }) => from === 'job') ?? last.at(-1);
}

interface Parts {
  readonly isQueued: boolean;
  readonly isDead: boolean;
  readonly isDiscarded: boolean;
}

function kindOf(last: End | undefined, removal: Fate['removed'], { isQueued, isDead, isDiscarded }: Parts): string {
  // Its job may have ended just before it was removed.
  if (removal !== undefined && (last === undefined || last.at < removal.from || last.outcome === 'dead-lettered'))
    return isQueued ? 'queued' : 'removed';
  if (last === undefined) return isQueued ? 'queued' : 'none';
  if (last.outcome !== 'dead-lettered') return isQueued ? 'queued' : last.outcome;
  if (isDead) return 'dead-lettered';
  if (isDiscarded) return 'discarded';
  return isQueued ? 'queued' : 'none';
}

/**
 * Whether it gave up its place once without being sent: as a dead letter, that may have been replayed since, or by another end. If it led a
 * digest, another notification may lead it since.
 */
export function hasLeft({ ends, kind, seen }: Fate): boolean {
  return ends.some(({ outcome }) => outcome === 'dead-lettered') || kind === 'removed' || seen.length === 0;
}

/** A request that was on its way at a fault may arrive this much later. */
const TRANSIT_MS = 500;
/** Answers of streams of a connection that was reset are lost if they were to come within this time. */
const ANSWER_MS = 1_500;
/** A worker notes the reset within this time. */
const NOTICED_MS = 3_000;

/** A request that was under way at a fault began no earlier than so long before: it times out after 10 s. */
const PASS_MS = 11_000;

/** Why nobody can know what became of a request. */
export interface Doubts {
  /** The answer said that it was not accepted, or there was none; or it was lost with its connection. */
  unanswered(entry: SeenEntry): boolean;
  /** A worker had the notification at a kill, a long freeze or a lost lock that the request came before, or during. */
  inHand(fate: Fate, entry: SeenEntry): boolean;
  /** The same of any instant of the fault. */
  wasInHand(fate: Fate): boolean;
}

/** What the rules are judged by. */
export interface JudgeParts {
  readonly facts: PairsFacts;
  readonly fates: Fates;
  readonly doubts: Doubts;
  readonly excused: Excused;
}

/** Every life of an id. */
export function fatesOfId(id: string, fates: Fates): Fate[] {
  return [...fates.values()].filter(({ life }) => life.id === id);
}

export function doubtsOf(facts: PairsFacts): Doubts {
  const resets = facts.entries.filter(({ reason }) => reason === 'reset');
  const retried = Map.groupBy(
    facts.lines.filter(({ outcome }) => outcome === 'retried' || outcome === 'dead-lettered' || outcome === 'held'),
    ({ jobId }) => notificationIdOf(jobId),
  );
  return {
    unanswered(entry) {
      if (entry.status === undefined || entry.status >= 300) return true;
      const id = refOf(entry.data).replace(/@\d+$/, '');
      const passes = retried.get(id) ?? [];
      const cut = resets.find(({ platform, at }) => {
        return platform === entry.platform && at >= entry.at - TRANSIT_MS && at <= entry.at + ANSWER_MS;
      });
      return cut !== undefined && passes.some(({ at }) => at >= entry.at - 1 && at <= cut.at + NOTICED_MS);
    },
    inHand({ life: { id } }, { at }) {
      const atFault = facts.incidents.some((one) => {
        return one.ids.has(id) && at >= one.at - PASS_MS && at <= one.until + TRANSIT_MS;
      });
      return atFault || facts.thaws.some(({ ids, from, until }) => ids.has(id) && at >= from && at <= until);
    },
    wasInHand: ({ life: { id } }) =>
      facts.incidents.some(({ ids }) => ids.has(id)) || facts.thaws.some(({ ids }) => ids.has(id)),
  };
}

/** The labels of its devices with their tokens: `apns#0`. */
export function labelsOf({ input }: Life): { readonly label: string; readonly token: string }[] {
  return input.devices.map((device, index) => ({ label: `${device.platform}#${index}`, token: tokenOf(device) }));
}
