import type { Queue } from 'bullmq';
import { defineQueueScript } from '../../redis/scripts.ts';
import { ID_KEPT_S } from '../names.ts';

/**
 * Marks of ids in a former queue: the notification is in another queue now, or is being added to one. To BullMQ a marked id is
 * taken (also to BullMQ of another language that adds to the former queue), so one id is one notification while queues change.
 */

const MARKS = defineQueueScript<(0 | 1)[]>(new URL('marks.lua', import.meta.url), 1);

type Verb = 'claim' | 'marked' | 'clear';

/**
 * `claim` answers which ids may be added to another queue; `marked` and `clear` answer which were marked. In the order of the
 * ids.
 */
export async function callMarks(queue: Queue, verb: Verb, jobIds: readonly string[]): Promise<boolean[]> {
  const answers = await MARKS(queue, [queue.toKey('meta'), verb, queue.toKey(''), ID_KEPT_S, ...jobIds]);
  return jobIds.map((_, index) => answers[index] === 1);
}
