import { hash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job } from 'bullmq';
import { isSameDevice } from '../notification/device.ts';
import type { Device, Notification } from '../notification/notification.ts';
import type { Completion } from '../notification/outcome.ts';
import { hasTaken, retractionOf, RETRACTION, type Retraction } from '../notification/retraction.ts';
import { check, type EnqueueInput, type Entry } from './add-jobs.ts';
import { findByKey, type FindParts } from './find.ts';
import type { Connection } from '../redis/connection.ts';

export interface TakeBackParts extends FindParts {
  /** Adds jobs to the queue of their recipient. */
  readonly add: (entries: readonly Entry[]) => Promise<unknown>;
}

/** An alert that devices of a recipient may show. Without tags, the devices show no alert of it, and only get a badge. */
export interface Shown {
  readonly id: string;
  readonly recipientId: string;
  /** When its notification was enqueued: epoch milliseconds. */
  readonly enqueuedAt: number;
  readonly devices: readonly Device[];
  /** The `apns.topic` of the notification: its app on iPhones, if that is not the app of the worker's variables. */
  readonly topic: string | undefined;
  readonly tags: readonly string[];
}

/** The pushes to one app of a recipient. Those of one group may replace each other. */
interface Group {
  readonly recipientId: string;
  readonly topic: string | undefined;
  /** The collapse id of a push that may be replaced by a newer one. */
  readonly collapseId: string;
}

/** How often retractions are enqueued at most, because other processes enqueued some for the same recipient at the same time. */
const MOST_TRIES = 5;
/**
 * The longest wait before the second try; it doubles with each one. The wait is random, so that of several processes one goes
 * first, and the retraction that it enqueues names the alerts of all: the others then have nothing to enqueue.
 */
const AGAIN_MS = 200;

/**
 * Enqueues retractions of these alerts: for each app of a recipient one background push, or several if one would be too large.
 * Of several waiting retractions only the newest is sent. So if there is room, the push also names what was retracted in the
 * last hour. An alert that another retraction names already gets no second one. False if other processes retract so often at
 * the same time that a later call must look again.
 */
export async function takeBack(
  shown: readonly Shown[],
  badge: number | undefined,
  parts: TakeBackParts,
): Promise<boolean> {
  let isTaken = true;
  for (const ofRecipient of Map.groupBy(shown, ({ recipientId }) => recipientId).values()) {
    for (const own of Map.groupBy(ofRecipient, ({ topic }) => topic).values()) {
      isTaken = (await inTurn(groupOf(own), own, badge, parts)) && isTaken;
    }
  }
  return isTaken;
}

function groupOf([first]: readonly Shown[]): Group {
  const { recipientId = '', topic } = first ?? {};
  const collapseId = topic === undefined ? RETRACTION : `${RETRACTION}-${hash('sha256', topic).slice(0, 8)}`;
  return { recipientId, topic, collapseId };
}

/** Alerts of one group that this process takes back together. */
interface Turn {
  readonly shown: Shown[];
  badge: number | undefined;
  hasBegun: boolean;
  isTaken: Promise<boolean>;
}

/** The latest turn of each group, if it has not ended: by the queue's connection, then by the queue and the group. */
const turns = new WeakMap<Connection, Map<string, Turn>>();

/**
 * Retracts of one group do not enqueue at the same time: what comes while one enqueues is taken back by the next one together,
 * so that many retracts at once need few retractions and few looks.
 */
function inTurn(
  group: Group,
  shown: readonly Shown[],
  badge: number | undefined,
  parts: TakeBackParts,
): Promise<boolean> {
  const ofConnection = turns.get(parts.connection) ?? new Map<string, Turn>();
  turns.set(parts.connection, ofConnection);
  const { recipientId, collapseId } = group;
  const name = JSON.stringify([parts.homes(recipientId), recipientId, collapseId]);
  const before = ofConnection.get(name);
  if (before?.hasBegun === false) {
    before.shown.push(...shown);
    before.badge = badge ?? before.badge; // the last number wins
    return before.isTaken;
  }
  const turn: Turn = { shown: [...shown], badge, hasBegun: false, isTaken: Promise.resolve(false) };
  const begin = (): Promise<boolean> => {
    turn.hasBegun = true;
    return takeBackOf(group, turn.shown, turn.badge, parts);
  };
  ofConnection.set(name, turn);
  turn.isTaken = (before === undefined ? begin() : before.isTaken.then(begin, begin)).finally(() => {
    if (ofConnection.get(name) === turn) ofConnection.delete(name);
  });
  return turn.isTaken;
}

async function takeBackOf(
  group: Group,
  shown: readonly Shown[],
  badge: number | undefined,
  parts: TakeBackParts,
): Promise<boolean> {
  // An alert that fits into no push cannot be taken back.
  const own = shown.filter((one) => entryOf(group, badge, [ofShown(one)]) !== undefined);
  const look = async () => {
    const { jobs } = await findByKey({ recipientId: group.recipientId, cancellationKey: RETRACTION }, parts);
    const known = jobs.map(({ job }) => readJob(job)).filter(({ topic }) => topic === group.topic);
    return { known, entries: missing(group, own, badge, known.toSorted(byAge)) };
  };
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    let { known, entries } = await look();
    if (entries.length > 0 && tries > 0) {
      await sleep(Math.random() * AGAIN_MS * 2 ** (tries - 1));
      ({ known, entries } = await look());
    }
    if (entries.length === 0) return true;
    // Each producer has its own clock: the new retraction must be newer than those that it replaces, and than its alerts.
    const after = Math.max(0, ...own.map(({ enqueuedAt }) => enqueuedAt), ...known.map(({ at }) => at));
    await parts.add(entries.map((entry) => ({ ...entry, after })));
  }
  return false;
}

/** A retraction that was enqueued. */
interface Known extends Retraction {
  readonly devices: readonly Device[];
  /** The devices that will get the retraction, or have taken it. */
  readonly reached: readonly Device[];
  readonly topic: string | undefined;
  readonly collapseId: unknown;
  readonly at: number;
  readonly isWaiting: boolean;
  /** At least one device has taken the retraction. */
  readonly isSent: boolean;
  /** The retraction is a dead letter: no device has taken it. */
  readonly isDead: boolean;
}

function readJob({ data, finishedOn, returnvalue, timestamp }: Job<unknown>): Known {
  const { devices = [], collapseId, apns } = data as Partial<Notification>;
  const { outcome, devices: states = {} } = (returnvalue ?? {}) as Partial<Completion>;
  const isWaiting = finishedOn === undefined;
  const isSent = !isWaiting && outcome === 'retracted';
  const isDead = !isWaiting && outcome === undefined;
  const reached = devices.filter(({ platform }, index) => {
    const state = states[`${platform}#${index}`];
    return isWaiting || (state !== undefined && hasTaken(state));
  });
  const { retract = [], tags = [], badge } = retractionOf(data) ?? {};
  const known = { retract, tags, devices, reached, topic: apns?.topic, collapseId };
  const state = { at: timestamp, isWaiting, isSent, isDead };
  return { ...known, ...state, ...(badge !== undefined && { badge }) };
}

/** The newest first. */
function byAge(a: Known, b: Known): number {
  return b.at - a.at;
}

/**
 * The jobs to add so that all is taken back; empty if the known retractions are enough.
 *
 * @param known the newest first
 */
function missing(
  group: Group,
  own: readonly Shown[],
  badge: number | undefined,
  known: readonly Known[],
): readonly Entry[] {
  const waiting = known.filter(({ isWaiting }) => isWaiting);
  const isReplaceable = ({ collapseId }: Known): boolean => collapseId === group.collapseId;
  const newest = waiting.find(isReplaceable);
  // Of the waiting retractions with this collapse id only the newest is sent; none is, if an even newer one was sent already.
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
  const dead = known.filter(({ isDead }) => isDead); // a replay of one ends here, since a newer one was sent
  for (const others of [[...lasting, ...dead], lasting, newest === undefined ? [] : [newest]]) {
    const entry = entryOf(group, shownBadge, [...wanted, ...others]);
    if (entry !== undefined) return [entry];
  }
  return divided(group, shownBadge, wanted);
}

function isAmong(devices: readonly Device[]): (device: Device) => boolean {
  return (device) => devices.some((other) => isSameDevice(device, other));
}

/** The badge that a device gets: the badge of the newest of these retractions that has one for this device. */
function badgeOn(device: Device, known: readonly Known[]): number | undefined {
  return known.find(({ badge, devices }) => badge !== undefined && isAmong(devices)(device))?.badge;
}

interface Named extends Pick<Retraction, 'retract' | 'tags'> {
  readonly devices: readonly Device[];
}

function ofShown({ id, tags, devices }: Shown): Named {
  return { retract: tags.length === 0 ? [] : [id], tags, devices };
}

/**
 * If the alerts are too large for one push, halves the list until each part fits. Each push has its own collapse id, so none
 * replaces another.
 */
function divided(group: Group, badge: number | undefined, named: readonly Named[]): Entry[] {
  const own = { ...group, collapseId: `${RETRACTION}-${randomUUID().slice(0, 8)}` };
  const entry = entryOf(own, badge, named);
  if (entry !== undefined) return [entry];
  if (named.length < 2) return [];
  const half = Math.ceil(named.length / 2);
  return [named.slice(0, half), named.slice(half)].flatMap((some) => divided(group, badge, some));
}

/** Undefined if the push would be too large. */
function entryOf(
  { recipientId, topic, collapseId }: Group,
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
    ...{ id: `retract-${randomUUID()}`, recipientId, devices, pushType: 'background', priority: 'high' },
    data: { pushpacer: { retract: unique('retract'), tags: unique('tags'), ...ofBadge } },
    ...{ ...ofBadge, onThrottle: 'latest', collapseId, cancellationKey: RETRACTION },
    ...(topic !== undefined && { apns: { topic } }),
  };
  return check(input, 'pushpacer retract').entry;
}
