import type { Target } from './device.ts';
import type { DeadLetterReason, OutcomeName } from './outcome.ts';

/** How a device of a notification ended: it was alerted, or why not. */
export type DeviceState = 'delivered' | DeadLetterReason;

/** What a completed job returns. BullMQ keeps it with the job, and `producer.status` reads it. */
export interface Ended {
  readonly outcome: Exclude<OutcomeName, 'dead-lettered'>;
  /** Of `superseded` and `merged`: the id of the notification that goes in its place. */
  readonly by?: string;
  /** It was canceled, and a digest of others went in its slot: what was sent has nothing of it. Absent otherwise. */
  readonly forOthers?: true;
  /** Delivered without sound, vibration or banner, because its producer wanted that of what is blocked. Absent otherwise. */
  readonly silenced?: true;
  /** Epoch milliseconds: when it was canceled, if its job had completed as `merged` before that. Absent otherwise. */
  readonly endedAt?: number;
  /** Epoch milliseconds: when the first device accepted it. Absent if none did. */
  readonly sentAt?: number;
  /** By label, such as `apns#0`; a device that is not here was not tried to an end. */
  readonly devices: Readonly<Record<string, DeviceState>>;
}

/** What became of a notification: one entry of the stream of outcomes. docs/outcomes.md explains the fields. */
export interface Outcome extends Target {
  readonly id: string;
  /** Absent where the notification has no usable one. */
  readonly recipientId?: string;
  readonly category?: string;
  readonly outcome: OutcomeName;
  /** Why it is a dead letter; absent for the other outcomes. */
  readonly reason?: DeadLetterReason;
  /** Of `superseded` and `merged`: the id of the notification that goes in its place. */
  readonly by?: string;
  /** It was canceled, and a digest of others went in its slot: what was sent has nothing of it. Absent otherwise. */
  readonly forOthers?: true;
  /** Delivered without sound, vibration or banner. Absent otherwise. */
  readonly silenced?: true;
  /** How often it was replayed before. */
  readonly generation: number;
  /** Epoch milliseconds: when its job was added. */
  readonly enqueuedAt: number;
  /** Epoch milliseconds: when the first device accepted it. Absent if none did. */
  readonly sentAt?: number;
  /** From `enqueuedAt`, or from a later `sendAfter`, to `sentAt`, or to the end if it was not sent; milliseconds. */
  readonly waitMs: number;
  readonly devices: Readonly<Record<string, DeviceState>>;
}

/** Milliseconds from enqueuing to the first alert, or to the end without one. Clocks of machines differ, so it is never below 0. */
export function waitOf(enqueuedAt: number, sentAt: number | undefined, endedAt: number): number {
  return Math.max(0, (sentAt ?? endedAt) - enqueuedAt);
}

/** The fields and values of its entry, in turn: `['id', 'msg-1', 'outcome', 'delivered', …]`. */
export function outcomeFields({ devices, ...others }: Outcome): string[] {
  const fields = Object.entries(others).flatMap(([name, value]: [string, string | number | true | undefined]) =>
    value === undefined ? [] : [name, String(value)],
  );
  return [...fields, 'devices', JSON.stringify(devices)];
}
