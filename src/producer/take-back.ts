import type { Job } from 'bullmq';
import { isSameDevice } from '../notification/device.ts';
import type { Device } from '../notification/notification.ts';
import type { Completion } from '../notification/outcome.ts';
import { hasTaken, retractionOf, RETRACTION, type Retraction } from '../notification/retraction.ts';
import { check, type EnqueueInput, type Entry } from './add-jobs.ts';
import { findByKey, type FindParts } from './find.ts';

export interface TakeBackParts extends FindParts {
  /** Adds jobs to the queue of their recipient. */
  readonly add: (entries: readonly Entry[]) => Promise<unknown>;
}

/** An alert that devices of a recipient may show. Without tags: none, but the devices are to get a badge. */
export interface Shown {
  readonly id: string;
  readonly recipientId: string;
  /** When its notification was enqueued: epoch milliseconds. */
  readonly enqueuedAt: number;
  readonly devices: readonly Device[];
  readonly tags: readonly string[];
}

/** How often to look again whether others have retracted for the same recipient meanwhile. */
const MOST_LOOKS = 5;

/**
 * Enqueues the retractions of these alerts: for each recipient one background push, or several if it would be too large. Where
 * there is room, it also names what was retracted in the last hour: of those that wait only the newest is sent. What is named
 * already is not enqueued again. False if others retract so often at once that a later call must look again.
 */
export async function takeBack(
  shown: readonly Shown[],
  badge: number | undefined,
  parts: TakeBackParts,
): Promise<boolean> {
  let isTaken = true;
  for (const [recipientId, own] of Map.groupBy(shown, (each) => each.recipientId)) {
    isTaken = (await takeBackOf(recipientId, own, badge, parts)) && isTaken;
  }
  return isTaken;
}

async function takeBackOf(
  recipientId: string,
  shown: readonly Shown[],
  badge: number | undefined,
  parts: TakeBackParts,
): Promise<boolean> {
  // What fits into no push cannot be taken back.
  const own = shown.filter((one) => entryOf(recipientId, RETRACTION, badge, [ofShown(one)]) !== undefined);
  for (let look = 0; look < MOST_LOOKS; look++) {
    const { jobs } = await findByKey({ recipientId, cancellationKey: RETRACTION }, parts);
    const known = jobs.map(({ job }) => readJob(job)).toSorted(byAge);
    const entries = missing(recipientId, own, badge, known);
    if (entries.length === 0) return true;
    // Producers have clocks of their own: it must be newer than what it replaces, and than what it takes back.
    const after = Math.max(0, ...own.map(({ enqueuedAt }) => enqueuedAt), ...known.map(({ at }) => at));
    await parts.add(entries.map((entry) => ({ ...entry, after })));
  }
  return false;
}

/** A retraction that was enqueued. */
interface Known extends Retraction {
  readonly devices: readonly Device[];
  /** Those that get it, or have taken it. */
  readonly reached: readonly Device[];
  readonly collapseId: unknown;
  readonly at: number;
  readonly isWaiting: boolean;
  /** At least one device has taken it. */
  readonly isSent: boolean;
}

function readJob({ data, finishedOn, returnvalue, timestamp }: Job<unknown>): Known {
  const { devices = [], collapseId } = data as { readonly devices?: readonly Device[]; readonly collapseId?: unknown };
  const { outcome, devices: states = {} } = (returnvalue ?? {}) as Partial<Completion>;
  const isWaiting = finishedOn === undefined;
  const isSent = !isWaiting && outcome === 'retracted';
  const reached = devices.filter(({ platform }, index) => {
    const state = states[`${platform}#${index}`];
    return isWaiting || (state !== undefined && hasTaken(state));
  });
  const { retract = [], tags = [], badge } = retractionOf(data) ?? {};
  const known = { retract, tags, devices, reached, collapseId, at: timestamp, isWaiting, isSent };
  return { ...known, ...(badge !== undefined && { badge }) };
}

/** The newest first. */
function byAge(a: Known, b: Known): number {
  return b.at - a.at;
}

/**
 * The jobs that are to be added so that all is taken back; empty if the known ones do it.
 *
 * @param known the newest first
 */
function missing(
  recipientId: string,
  own: readonly Shown[],
  badge: number | undefined,
  known: readonly Known[],
): readonly Entry[] {
  const waiting = known.filter(({ isWaiting }) => isWaiting);
  const newest = waiting.find(isReplaceable);
  // Of those that wait under the same collapse id, only the newest is sent, unless a newer one was sent before.
  const isReplaced = known.some((each) => each.isSent && isReplaceable(each) && each.at > (newest?.at ?? Infinity));
  const isLasting = (each: Known): boolean => !isReplaceable(each) || (each === newest && !isReplaced);
  const lasting = known.filter((each) => each.isSent || (each.isWaiting && isLasting(each)));
  const replaced = waiting.filter(({ retract }) =>
    retract.some((id) => lasting.every((other) => !other.retract.includes(id))),
  );
  // An earlier notification may have had the same id.
  const isNamed = ({ id, enqueuedAt, devices }: Shown): boolean =>
    lasting.some(
      ({ retract, at, reached }) => retract.includes(id) && at >= enqueuedAt && devices.every(isAmong(reached)),
    );
  const isBadged =
    badge === undefined || own.every(({ devices }) => devices.every((device) => badgeOn(device, lasting) === badge));
  const fresh = isBadged ? own.filter((each) => each.tags.length > 0 && !isNamed(each)) : own;
  const wanted: readonly Named[] = [...fresh.map(ofShown), ...replaced];
  if (wanted.length === 0) return [];

  const shownBadge = badge ?? newest?.badge;
  for (const others of [lasting, newest === undefined ? [] : [newest]]) {
    const entry = entryOf(recipientId, RETRACTION, shownBadge, [...wanted, ...others]);
    if (entry !== undefined) return [entry];
  }
  return divided(recipientId, shownBadge, wanted);
}

/** A newer retraction is sent in its place. */
function isReplaceable({ collapseId }: Known): boolean {
  return collapseId === RETRACTION;
}

function isAmong(devices: readonly Device[]): (device: Device) => boolean {
  return (device) => devices.some((other) => isSameDevice(device, other));
}

/** The badge that the newest retraction with one brings to a device. */
function badgeOn(device: Device, known: readonly Known[]): number | undefined {
  return known.find(({ badge, devices }) => badge !== undefined && isAmong(devices)(device))?.badge;
}

interface Named extends Pick<Retraction, 'retract' | 'tags'> {
  readonly devices: readonly Device[];
}

function ofShown({ id, tags, devices }: Shown): Named {
  return { retract: tags.length === 0 ? [] : [id], tags, devices };
}

/** Together they are too large for one push, so they go in as few as halving gives; none of these replaces another one. */
function divided(recipientId: string, badge: number | undefined, named: readonly Named[]): Entry[] {
  const collapseId = `${RETRACTION}-${crypto.randomUUID().slice(0, 8)}`;
  const entry = entryOf(recipientId, collapseId, badge, named);
  if (entry !== undefined) return [entry];
  if (named.length < 2) return [];
  const half = Math.ceil(named.length / 2);
  return [named.slice(0, half), named.slice(half)].flatMap((some) => divided(recipientId, badge, some));
}

/** Undefined if it would be too large. */
function entryOf(
  recipientId: string,
  collapseId: string,
  badge: number | undefined,
  named: readonly Named[],
): Entry | undefined {
  const unique = (key: 'retract' | 'tags'): string[] => [...new Set(named.flatMap((each) => each[key]))];
  const devices: Device[] = [];
  for (const device of named.flatMap((each) => each.devices)) {
    if (!isAmong(devices)(device)) devices.push(device);
  }
  const ofBadge = badge === undefined ? {} : { badge };
  const input: EnqueueInput = {
    ...{ id: `retract-${crypto.randomUUID()}`, recipientId, devices, pushType: 'background', priority: 'high' },
    data: { pushpacer: { retract: unique('retract'), tags: unique('tags'), ...ofBadge } },
    ...{ ...ofBadge, onThrottle: 'latest', collapseId, cancellationKey: RETRACTION },
  };
  return check(input, 'pushpacer retract').entry;
}
