import type { Queue } from 'bullmq';
import { repeat, within } from '../src/domain/time.ts';
import type { Logger } from '../src/observe/log.ts';
import { redisNow } from '../src/queue/clock-offset.ts';
import { readOldestTakeable } from '../src/queue/overview.ts';
import type { Connection } from '../src/redis/connection.ts';
import type { Consumer } from './consumer.ts';

/** A queue from which this worker takes no jobs, although it could. */
export interface Wedge {
  /** No ask for a job was answered for at least this time, in milliseconds. */
  readonly forMs: number;
  /** How long ago the oldest job that no worker takes could have been taken, in milliseconds. */
  readonly oldestDueMs: number;
}

export interface WedgeParts {
  /** The consumers that have started, in the order of `queues`. */
  readonly consumers: readonly Pick<Consumer, 'worker' | 'isRunning'>[];
  readonly queues: readonly Queue[];
  readonly connection: Connection;
  readonly log: Pick<Logger, 'error' | 'info'>;
  /** Default: WEDGED_AFTER_MS. */
  readonly boundMs?: number | undefined;
}

export interface WedgeWatch {
  /** The first wedge that exists now. Sends nothing to Redis. */
  wedged(): Wedge | undefined;
  stop(): void;
}

/**
 * A worker that can ask for jobs does so every 10 s, and every 30 s in a queue that is rate limited. If its blocking connection
 * goes silent, BullMQ opens a new one after 2 to 12 s. So a worker that did not ask for this long will never ask again.
 */
export const WEDGED_AFTER_MS = 60_000;
/** How many looks there are in that time. At each look the worker must have asked for no job, and Redis must answer. */
const LOOKS = 12;

/**
 * Notices that this worker has stopped taking jobs: it is alive, and its connection for commands works, but its loop around the
 * blocking connection waits for an answer that never comes (for three causes, see BullMQ's issues 4378, 4479 and 4585). It has
 * stopped if at each of LOOKS looks in a row
 *
 * - the worker runs, and has a free place,
 * - it asked for no job since the look before,
 * - Redis answers on the connection for commands,
 *
 * and a job could have been taken for all that time, in a queue that is neither paused nor rate limited. Looks are counted
 * instead of time, because a process that stood still did not look. If other workers take the jobs, no job waits that long.
 */
export function watchWedge({ consumers, queues, connection, log, boundMs = WEDGED_AFTER_MS }: WedgeParts): WedgeWatch {
  const everyMs = boundMs / LOOKS;
  const states = queues.map((queue) => ({ queue, moves: -1, looks: 0, wedge: undefined as Wedge | undefined }));
  type State = (typeof states)[number];

  function isStill({ moves }: State, index: number): boolean {
    const consumer = consumers[index];
    if (consumer === undefined || !consumer.isRunning()) return false;
    const { all, asleep, places } = consumer.worker.inHand;
    return all - asleep < places && consumer.worker.moves === moves;
  }

  async function look(state: State, index: number): Promise<void> {
    const answers = isStill(state, index) && (await isAnswered(redisNow(state.queue), everyMs));
    if (!answers || !isStill(state, index)) {
      if (state.wedge !== undefined) log.info('jobs are asked for again');
      Object.assign(state, { moves: consumers[index]?.worker.moves ?? -1, looks: 0, wedge: undefined });
      return;
    }
    state.looks += 1;
    if (state.looks < LOOKS) return;
    const oldestDueMs = await oldestTakeable(state.queue, connection, everyMs);
    if (oldestDueMs < boundMs) return;
    const wedge = { forMs: state.looks * everyMs, oldestDueMs };
    if (state.wedge === undefined) log.error({ ...wedge, queue: state.queue.qualifiedName }, WEDGED);
    state.wedge = wedge;
  }

  const looks = repeat(() => Promise.all(states.map(look)), everyMs);
  return {
    wedged: () => states.find((state, index) => state.wedge !== undefined && isStill(state, index))?.wedge,
    stop: () => void looks.stop(),
  };
}

const WEDGED =
  'no job is taken: no ask for one was answered for `forMs`, although jobs wait, places are free and Redis answers; /healthz ' +
  'answers 503 until jobs are asked for again; restart the worker';

export async function isAnswered(asking: Promise<unknown>, withinMs: number): Promise<boolean> {
  const answer = asking.then(
    () => true,
    () => false,
  );
  return (await within(answer, withinMs)) === true;
}

/** For how long the oldest job could have been taken; 0 also if the queue is paused or rate limited, or Redis does not answer. */
async function oldestTakeable(queue: Queue, connection: Connection, withinMs: number): Promise<number> {
  const reading = Promise.all([readOldestTakeable(queue, connection), queue.isPaused(), queue.getRateLimitTtl()]);
  const [oldestMs, isPaused, limitedForMs] = (await within(reading, withinMs).catch(() => undefined)) ?? [0, true, 0];
  return isPaused || limitedForMs > 0 ? 0 : oldestMs;
}
