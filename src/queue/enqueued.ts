import type { Fault } from '../domain/faults.ts';
import type { NotificationInput } from '../domain/notification.ts';

/** A notification to enqueue: a `NotificationInput` whose id may be left out. */
export interface EnqueueInput extends Omit<NotificationInput, 'id'> {
  /**
   * Idempotency key, and the job id: the same id twice is one notification. 1 to 128 of `A-Z a-z 0-9 . _ ~ -`. Default: a new
   * UUID. Example: `msg-8841`.
   */
  id?: string | undefined;
}
/** The result for one notification. */
export type Enqueued =
  | {
      /** It is in the queue now. */
      readonly kind: 'added';
      /** Its id: the given one, or the UUID that it got. */
      readonly id: string;
    }
  | {
      /** The id is taken: it was enqueued before, and waits, or ended within the last hour. Nothing was added. */
      readonly kind: 'duplicate';
      /** The id that is taken. */
      readonly id: string;
    }
  | {
      /** It does not fit. Nothing was added. */
      readonly kind: 'invalid';
      /** Everything that is wrong with it. */
      readonly faults: readonly Fault[];
    };
