import type { Queue } from 'bullmq';
import type { Config } from '../src/config/config.ts';
import { createMoveUps } from '../src/delivery/lines.ts';
import { createOrderProcessor } from '../src/delivery/orders.ts';
import { readProgress } from '../src/delivery/progress.ts';
import { createProcessor } from '../src/delivery/deliver.ts';
import { giveBack } from '../src/delivery/slot.ts';
import { paceOf } from '../src/limiter/pace.ts';
import { addJobs } from '../src/producer/add-jobs.ts';
import { cancelWaiting } from '../src/producer/cancel.ts';
import { retract, type RetractParts } from '../src/producer/retract.ts';
import { createCancellationIndex } from '../src/queue/cancellation-index.ts';
import { redelay, type Due } from '../src/queue/redelay.ts';
import { homesOf, queuesAt } from '../src/queue/shards/layout.ts';
import { isOrder } from '../src/queue/names.ts';
import { createOtherWorkers } from '../src/queue/workers.ts';
import type { Accounts } from './accounts.ts';
import type { ConsumerOptions } from './consumer.ts';
import { createLimiters } from './limiters.ts';
import { createReplyListener, createWatchers, type WatcherParts } from './watchers.ts';

interface PassParts extends Omit<WatcherParts, 'queuesOf'> {
  readonly accounts: Accounts;
  /** All queues that this worker consumes. */
  readonly queues: readonly Queue[];
  /** The queues of the dead letters, one for each of `queues`. */
  readonly deadQueues: readonly Queue[];
  /** Fires when the grace period of a stop is over. */
  readonly signal: AbortSignal;
  /** As DeliverParts has it. */
  readonly now: () => number;
  /** Closes the parts that need it. */
  readonly closing: AsyncDisposableStack;
}

/**
 * What a pass does with its job: it delivers a notification, or for a job named `cancel` it cancels waiting notifications.
 * `giveBack` gives back what a notification held if it ended without a pass.
 */
export async function createPasses(
  config: Config,
  parts: PassParts,
): Promise<Pick<ConsumerOptions, 'process' | 'completed' | 'giveBack'>> {
  const { connections, accounts, breakers, queues, deadQueues, layout, signal, now, metrics, log } = parts;
  const { policy, maxWaitMs, maxPending, overtaking, retry, atMostOnce, credentialsWaitMs } = config;
  const homes = (recipientId: string): readonly string[] => homesOf(recipientId, layout());
  const queuesOf = (recipientId: string): readonly Queue[] => queuesAt(homes(recipientId), queues);

  const { deciders, endOf, ...limiters } = await createLimiters(config, parts);
  const cancelParts = { connection: connections.queue, queues, homes, deciders };
  const retractParts: RetractParts = {
    ...cancelParts,
    deadQueue: (prefix) => deadQueues.find(({ opts }) => opts.prefix === prefix) as Queue,
    async add(entries) {
      for (const [home, own] of Map.groupBy(entries, ({ recipientId }) => queuesOf(recipientId)[0])) {
        if (home !== undefined) await addJobs(home, own);
      }
    },
  };
  const order = createOrderProcessor({
    cancel: (target) => cancelWaiting(target, cancelParts),
    retract: (target, meant) => retract(target, retractParts, meant),
    ...{ log, metrics },
  });

  const waiting = {
    ...limiters,
    toleranceMs: paceOf(policy).toleranceMs,
    moveUps: createMoveUps(),
    redelay: async (recipientId: string, due: readonly Due[]) => {
      await redelay(queuesOf(recipientId), due);
    },
  };
  const delivery = createProcessor({
    ...waiting,
    watchers: await createWatchers(config, { ...parts, queuesOf }),
    overallGapMs: policy.minGapMs,
    index: createCancellationIndex(connections.queue, layout),
    endOf,
    quotas: accounts.quotas,
    providers: accounts.providers,
    others: createOtherWorkers(connections.queue, config.queue.prefix),
    ...{ breakers, credentialsWaitMs, maxWaitMs, maxPending, retry, atMostOnce, signal },
    isHighFirst: overtaking.mostTimes > 0,
    now,
    random: Math.random,
    onReply: createReplyListener(config, parts),
  });
  return {
    process: (job, lock, place) => (isOrder(job.name) ? order : delivery.process)(job, lock, place),
    completed: delivery.completed,
    giveBack: async (failed) => {
      const progress = readProgress(failed.progress);
      return (await giveBack({ ...failed, progress }, 'dead', waiting)).digest;
    },
  };
}
