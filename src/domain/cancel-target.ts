import { z } from 'zod';
import { describeFound, zodFaults, type Fault } from './faults.ts';
import { isObject } from './json.ts';
import { notificationSchema } from './notification-schema.ts';

const { id, recipientId, cancellationKey } = notificationSchema.shape;
const byIdSchema = z.strictObject({ id });
const byKeySchema = z.strictObject({ recipientId, cancellationKey: cancellationKey.unwrap() });

/** What is to be canceled: one notification by its id, or all that wait for a recipient under a cancellation key. */
export type CancelTarget =
  | {
      /** The id that the notification was enqueued with. */
      readonly id: string;
    }
  | {
      /** The recipient of the notifications. */
      readonly recipientId: string;
      /** The `cancellationKey` that they were enqueued with. */
      readonly cancellationKey: string;
    };

/** A checked target, or everything that is wrong with it. */
export type ParsedCancelTarget =
  { readonly ok: true; readonly target: CancelTarget } | { readonly ok: false; readonly faults: readonly Fault[] };

/** Checks what a producer, or a job named `cancel`, gives. */
export function parseCancelTarget(raw: unknown): ParsedCancelTarget {
  if (!isObject(raw) || Object.keys(raw).length === 0) {
    const expected = 'an object with an id, or with a recipientId and a cancellationKey';
    return { ok: false, faults: [{ path: '', expected, found: describeFound(raw, true) }] };
  }
  const result = ('id' in raw ? byIdSchema : byKeySchema).safeParse(raw);
  return result.success ? { ok: true, target: result.data } : { ok: false, faults: zodFaults(result.error, raw) };
}
