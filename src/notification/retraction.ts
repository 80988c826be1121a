import { isObject, valueAt } from '../domain/json.ts';
import type { DeviceState } from './outcome.ts';
import { firstEnqueuedAtOf } from './story.ts';

/**
 * A retraction: a background push that tells apps to take alerts from the screen. The schema treats it like any notification.
 * Apps recognize it by `data.pushpacer`, which has this shape. docs/retract.md says what apps do then.
 */
export interface Retraction {
  /** The ids of the notifications that are taken back, the newest first. */
  readonly retract: readonly string[];
  /** The tags under which devices show their alerts: on iPhones the identifiers of the notification requests. */
  readonly tags: readonly string[];
  /** The number on the app's icon, for apps that set it themselves. */
  readonly badge?: number;
}

/** The collapse id of retractions: a newer one replaces an older one. It is also the cancellation key of retractions. */
export const RETRACTION = 'pushpacer-retract';

/** Reads the retraction from any job's data. Undefined if the data are something else, such as an alert. */
export function retractionOf(notification: unknown): Retraction | undefined {
  const isBackground = valueAt(notification, 'pushType') === 'background';
  return isBackground ? readRetraction(valueAt(notification, 'data.pushpacer')) : undefined;
}

/** Reads what an app finds at `pushpacer` in its data. Undefined if that is not a retraction. */
export function readRetraction(found: unknown): Retraction | undefined {
  if (!isObject(found)) return undefined;
  const { retract, tags, badge } = found;
  if (!Array.isArray(retract)) return undefined;
  return { retract: texts(retract), tags: texts(tags), ...(typeof badge === 'number' && { badge }) };
}

/** Whether a device does not need the retraction any more: it has taken the retraction, or its app is gone (`unregistered`). */
export function hasTaken(state: DeviceState): boolean {
  return state === 'delivered' || state === 'unregistered';
}

/**
 * Which notifications under a key a retract is about: those with these ids, or, if they are not known, those that were enqueued
 * until an instant (epoch milliseconds).
 */
export type Meant = { readonly ids: readonly string[] } | { readonly until: number };

/**
 * Which notifications are meant by a job named `retract`. A producer notes the ids of those that it left to the workers in the
 * job's options: producers have different clocks, so the job's own time says little about what was enqueued after it. Earlier
 * versions, and clients in other languages, note no ids.
 */
export function meantBy(job: { readonly opts: unknown; readonly timestamp: number }): Meant {
  const ids = valueAt(job.opts, 'left');
  return Array.isArray(ids) ? { ids: texts(ids) } : { until: firstEnqueuedAtOf(job) };
}

function texts(given: unknown): string[] {
  return Array.isArray(given) ? given.filter((each) => typeof each === 'string') : [];
}
