import { devicesIn } from '../notification/device.ts';
import { PLATFORMS, type Platform } from '../notification/notification.ts';
import type { DeadLetterReason, FailedAttempt } from '../notification/outcome.ts';
import { defined, objectOr, valueAt } from '../domain/json.ts';
import { instantOf } from '../domain/time.ts';
import { openDevicesOf, statedIdOf, type StoredDeadLetter } from './letter.ts';
import { notificationIdOf } from '../queue/names.ts';

/** The part of a dead letter that may be shown: no token, no text of the alert, no data. */
export interface Facts {
  /** The dead letter's id: the id of its job, with `#d1` or `#r1` at its end if it became a dead letter more than once. */
  readonly id: string;
  readonly reason: DeadLetterReason;
  readonly message: string;
  readonly attempts: readonly FailedAttempt[];
  /** Epoch milliseconds. */
  readonly deadAt: number;
  readonly generation: number;
  readonly delivered?: readonly string[];
  /** The platforms of the devices that were not alerted; absent if none is known. */
  readonly platforms?: readonly Platform[];
  /** The apps that these devices name; absent if none does. */
  readonly apps?: readonly string[];
  readonly notification: NotificationFacts;
}

/** Missing or invalid fields are left out, since the notification may be any value. */
export interface NotificationFacts {
  readonly id?: string;
  readonly recipientId?: string;
  readonly category?: string;
  readonly priority?: string;
  /** Epoch milliseconds. */
  readonly expiresAt?: number;
  /** Labels as the attempts have them: `apns#0`. */
  readonly devices?: readonly string[];
  /** Bytes of JSON. */
  readonly sizes: { readonly alert?: number; readonly data?: number; readonly all: number };
}

/** A name that is longer than this is not valid in a notification, and may be a token or a text, so it is not shown. */
const MAX_NAME = 256;

/** `msg-1`, `msg-1#r1`; `msg-1 (job 17)` if the producer gave the job another id than the notification's. */
export function nameOf({ id, notification }: Facts): string {
  if (notification.id === notificationIdOf(id)) return id;
  return `${notification.id ?? '-'} (job ${id})`;
}

export function factsOf({ id, letter }: StoredDeadLetter): Facts {
  const { reason, message, attempts, deadAt, generation, delivered, notification } = letter;
  const devices = openDevicesOf(letter);
  const platforms = PLATFORMS.filter((platform) => devices.some((device) => device.platform === platform));
  const apps = [...new Set(devices.flatMap(({ app }) => app ?? []))].sort();
  return {
    ...defined({ id, reason, message, attempts, deadAt, generation, delivered }),
    ...(platforms.length > 0 && { platforms }),
    ...(apps.length > 0 && { apps }),
    notification: notificationFacts(notification, id),
  };
}

/** The part of any job's data that may be shown. `jobId`: the job's id, used if the data has no id. */
export function notificationFacts(notification: unknown, jobId: string): NotificationFacts {
  const fields = objectOr(notification);
  const names = ['recipientId', 'category', 'priority'] as const;
  const known = names.map((name) => [name, fields[name]] as const).filter(([, value]) => isName(value));
  const expiresAt = instantOf(fields['expiresAt']);
  const devices = labelsOf(devicesIn(fields));
  const id = 'id' in fields ? statedIdOf(notification) : notificationIdOf(jobId);
  return {
    ...(isName(id) && { id }),
    ...(Object.fromEntries(known) as Partial<Record<(typeof names)[number], string>>),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(devices && { devices }),
    sizes: {
      ...('alert' in fields && { alert: bytesOf(fields['alert']) }),
      ...('data' in fields && { data: bytesOf(fields['data']) }),
      all: bytesOf(notification),
    },
  };
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_NAME;
}

function labelsOf(devices: readonly unknown[] | undefined): string[] | undefined {
  return devices?.map((device, index) => {
    const platform = PLATFORMS.find((known) => known === valueAt(device, 'platform'));
    return `${platform ?? '?'}#${index}`;
  });
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value ?? null));
}
