import type { Queue } from 'bullmq';
import { defineQueueScript } from '../../redis/scripts.ts';
import { ID_KEPT_S } from '../names.ts';

/**
 * A mark of an id in a former queue: the notification is in another queue, or is being added to one. BullMQ finds a marked id
 * taken, also BullMQ of another language that adds to the former queue. So one id is one notification while queues change.
 */

const MARKS = defineQueueScript<(0 | 1)[]>(new URL('marks.lua', import.meta.url), 1);

type Verb = 'claim' | 'marked' | 'clear';

/**
 * In the order of the ids: `claim` answers which ids may be added to another queue; `marked` and `clear`, which were marked.
 */
export async function callMarks(queue: Queue, verb: Verb, jobIds: readonly string[]): Promise<boolean[]> {
  const answers = await MARKS(queue, [queue.toKey('meta'), verb, queue.toKey(''), ID_KEPT_S, ...jobIds]);
  return jobIds.map((_, index) => answers[index] === 1);
}
