import type { CancellationIndex } from '../queue/cancellation-index.ts';
import type { Context } from './context.ts';
import type { Result } from './decide.ts';

/**
 * Notes under the cancellation key of a notification that it waits, or has ended; nothing for one without a key. Never rejects: a
 * cancel by the key then may not find it.
 */
export function noteKey(context: Context, result: Result, index: CancellationIndex): Promise<void> | undefined {
  const { recipientId, cancellationKey } = context.notification;
  if (cancellationKey === undefined || result.kind === 'yielded') return undefined;
  const place = { recipientId, cancellationKey };
  return write(context.jobId, result, place, index).catch(() => undefined);
}

function write(
  jobId: string,
  result: Result,
  place: { readonly recipientId: string; readonly cancellationKey: string },
  index: CancellationIndex,
): Promise<void> {
  switch (result.kind) {
    case 'requeued':
      return index.waits(place, jobId, result.delayMs);
    case 'held':
    case 'retried':
      return index.waits(place, jobId, result.waitMs);
    case 'canceled': // a second cancel is to answer the same
    case 'merged': // it can still be taken out of its digest
      return index.ended(place, jobId, true);
    default:
      return index.ended(place, jobId, false);
  }
}
