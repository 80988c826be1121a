import type { DeadLetter } from '../../src/notification/outcome.ts';
import { notification } from '../queue/support.ts';

/** The data of a dead letter; `fields` on top. */
export function deadLetter(id: string, fields: Partial<DeadLetter> = {}): DeadLetter {
  return {
    notification: notification({ id, recipientId: `recipient-${id}` }),
    reason: 'rejected',
    message: 'no',
    attempts: [],
    deadAt: Date.now(),
    generation: 0,
    ...fields,
  };
}
