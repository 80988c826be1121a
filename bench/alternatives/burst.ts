import { tokenOf } from '../../src/domain/device.ts';
import { readMorning } from '../../demo/morning.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { NotificationInput } from '../../src/domain/notification.ts';

export const POLICY: Policy = { rules: [{ max: 10, perMs: 3_000 }], minGapMs: 250 };

export type Push = NotificationInput & { readonly id: string };

/** What every alternative has to deliver. The title of each alert is its notification's id: so the providers see which it is. */
export interface Burst {
  /** To one recipient, in the order of enqueuing. */
  readonly busy: readonly Push[];
  /** One to each of so many other recipients, enqueued right behind: there is nothing about them to limit. */
  readonly others: readonly Push[];
  /** Token → recipient. */
  readonly recipientOf: ReadonlyMap<string, string>;
}

const OTHERS = 140;

/** What the busiest teacher of the demo's morning gets, to the first device, and one alert each to 140 others. */
export function makeBurst(quick: boolean): Burst {
  const ofTeacher = [...Map.groupBy(readMorning().valid, ({ recipientId }) => recipientId).values()];
  const most = ofTeacher.toSorted((a, b) => b.length - a.length)[0] ?? [];
  const device = most[0]?.devices[0];
  if (device === undefined) throw new Error('examples/school-morning.ndjson: expected notifications, found none');
  const busy = most.slice(0, quick ? 12 : undefined).map(({ id, recipientId, alert }) => ({
    id,
    recipientId,
    devices: [device],
    alert: { ...alert, title: id },
  }));
  const others = Array.from({ length: quick ? 12 : OTHERS }, (_, index): Push => ({
    id: `other-${index}`,
    recipientId: `teacher-${index}`,
    devices: [{ platform: 'fcm', token: `f${index}:`.padEnd(152, 'APA91b') }],
    alert: { title: `other-${index}`, body: 'A form was signed' },
  }));
  const all = [...busy, ...others];
  return {
    busy,
    others,
    recipientOf: new Map(
      all.flatMap(({ devices, recipientId }) => devices.map((device) => [tokenOf(device), recipientId])),
    ),
  };
}
