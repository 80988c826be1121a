import { jobIdOfAsk } from '../src/delivery/slot.ts';
import { countedAs, type CountedApart, type CountedAs } from '../src/domain/limits.ts';
import { parseNotification } from '../src/domain/notification.ts';
import { apartOptions, limiterPrefix, type Inspection, type Limiter } from '../src/limiter/limiter.ts';
import { createRedisLimiter } from '../src/limiter/redis/redis-limiter.ts';
import { jobIdOf, notificationIdOf, shardOf } from '../src/queue/names.ts';
import { readWorkers, sharedPolicy, type WorkerPolicy } from '../src/queue/workers.ts';
import { findDelayed, findNotTaken, type DelayedJob, type WaitingJob } from '../src/operations/jobs.ts';
import type { Connection } from '../src/redis/connection.ts';
import type { Queue } from 'bullmq';

/** What the API says of one recipient. All instants are epoch milliseconds. */
export interface RecipientView extends Omit<Inspection, 'reserved'> {
  readonly recipientId: string;
  /** How many wait for a slot that they have. */
  readonly waitingCount: number;
  /** The first 1,000 of them, the next one first, each with the rule that makes it wait and how many are before it. */
  readonly waiting: Inspection['reserved'];
  /** Those that wait without a slot, such as for another attempt. */
  readonly delayed: readonly DelayedJob[];
  /** Those that no worker has looked at yet. */
  readonly notTaken: readonly WaitingJob[];
}

export interface RecipientsParts {
  readonly redis: Connection;
  readonly limiterRedis: Connection;
  /** The queue of each shard. */
  readonly queues: () => Promise<readonly Queue[]>;
  readonly prefix: string;
  /** The limits of this process's environment, if no worker is alive. */
  readonly own: WorkerPolicy;
}

export interface Recipients {
  look(recipientId: string): Promise<RecipientView>;
  /**
   * When a notification that was just enqueued would be sent, as far as the slots so far say: epoch milliseconds. Those that no
   * worker has looked at yet have none. Undefined if it will not be sent, or the limiter does not answer.
   */
  estimate(data: unknown): Promise<number | undefined>;
}

type Limiters = Readonly<Record<CountedAs, Pick<Limiter, 'peek' | 'inspect'>>>;

/** The limits of the living workers are read at most this often. */
const POLICY_EVERY_MS = 5_000;
const MOST_SHOWN = 1_000;

export function createRecipients({ redis, limiterRedis, queues, prefix, own }: RecipientsParts): Recipients {
  let opened: { readonly limiters: Promise<Limiters>; readonly at: number } | undefined;

  async function open(): Promise<Limiters> {
    const shared = sharedPolicy(await readWorkers(redis, prefix));
    const { policy, categories, quietHours, apartRules } = shared?.policy ?? own;
    const quiet = quietHours && { quietHours };
    const apart = (kind: CountedApart) =>
      createRedisLimiter({ redis: limiterRedis, ...apartOptions(kind, apartRules[kind], prefix) });
    return {
      alert: createRedisLimiter({
        redis: limiterRedis,
        policy,
        categories,
        ...quiet,
        prefix: limiterPrefix('alert', prefix),
      }),
      background: apart('background'),
      liveactivity: apart('liveactivity'),
    };
  }

  function limiters(): Promise<Limiters> {
    if (opened === undefined || performance.now() - opened.at > POLICY_EVERY_MS) {
      const opening = { limiters: open(), at: performance.now() };
      opening.limiters.catch(() => (opened = undefined));
      opened = opening;
    }
    return opened.limiters;
  }

  return {
    async look(recipientId) {
      const all = await queues();
      const queue = all[shardOf(recipientId, all.length)];
      if (queue === undefined) throw new RangeError('expected a queue for each shard');
      const { reserved, ...inspection } = await (await limiters()).alert.inspect(recipientId);
      const jobIds = reserved.map(({ id }) => id && jobIdOfAsk(id));
      const known = new Set(jobIds.filter((id) => id !== undefined));
      const [delayed, notTaken] = await Promise.all([
        findDelayed(queue, redis, { recipientId, known }),
        findNotTaken(queue, { recipientId, known }),
      ]);
      const waiting = reserved.slice(0, MOST_SHOWN).map((slot, index) => {
        const jobId = jobIds[index];
        return { ...slot, ...(jobId !== undefined && { id: notificationIdOf(jobId) }) };
      });
      const lists = { waitingCount: reserved.length, waiting, delayed: delayed.found, notTaken: notTaken.found };
      return { recipientId, ...inspection, ...lists };
    },
    async estimate(data) {
      const parsed = parseNotification(data);
      if (!parsed.ok) return undefined;
      const { id, recipientId, category, sendAfter = 0 } = parsed.notification;
      try {
        const limiter = (await limiters())[countedAs(parsed.notification)];
        const named = category !== undefined && { category };
        const answer = await limiter.peek({ recipientId, id: `${jobIdOf(id)}/0`, ...named });
        return answer.kind === 'refused' ? undefined : Math.max(sendAfter, Math.round(answer.at));
      } catch {
        return undefined; // it is enqueued in any case
      }
    },
  };
}
