import type { Queue } from 'bullmq';
import { duesOf, MOVE_LEAD_MS } from '../delivery/lines.ts';
import type { CountedAs, Policy } from '../domain/limits.ts';
import type { Action } from '../limiter/foresee.ts';
import type { Follow, Moved, Oversight } from '../limiter/limiter.ts';
import { paceOf } from '../limiter/pace.ts';
import { within } from '../domain/time.ts';
import { redelay, redelayLate, type Due } from '../queue/redelay.ts';

export interface ActionParts {
  /** The limiters of alerts, background pushes and Live Activities, with the policies and the prefix of the workers. */
  readonly limiters: Readonly<Record<CountedAs, Oversight>>;
  /** The overall policy of these limiters. */
  readonly policy: Policy;
  /** The queues that may have the recipient's notifications. */
  readonly queues: readonly Queue<unknown>[];
}

export interface Acted {
  /**
   * True if there was something to end or to forget (a block, stored limits or quiet hours, sent slots), or if the action
   * stored something.
   */
  readonly wasThere: boolean;
  /** How many waiting notifications got another slot, or a job that comes in time for the slot that an earlier run gave them. */
  readonly moved: number;
}

/** An action waits at most this long until its jobs are put back: usually milliseconds, but a worker may be frozen. */
const MOST_FOLLOWED_MS = 5_000;

/**
 * Does to a recipient what an operator has decided, and changes the due times of its delayed jobs to their new slots. The due
 * time of a job that a worker has now is changed when the worker has put the job back. If the action fails half-way, it may be
 * repeated: then jobs whose slots have moved before get their due times too.
 *
 * @param onMoved called now and then with how many have moved so far
 */
export async function act(
  recipientId: string,
  action: Action,
  { limiters, policy, queues }: ActionParts,
  onMoved?: (moved: number) => void,
): Promise<Acted> {
  const { toleranceMs } = paceOf(policy);
  let moved = 0;
  const reported = new Set<string | undefined>();
  const followed: Promise<void>[] = [];
  const change = async (dues: readonly Due[]): Promise<void> => {
    followed.push((await redelay(queues, dues)).followed);
  };
  const follow: Follow = {
    leadMs: MOVE_LEAD_MS,
    onUnslotted: (jobIds) => change(jobIds.map((jobId) => ({ jobId, at: 0 }))),
    onMoving: (part) => change(duesOf(part, toleranceMs, 'begins')),
    async onMoved(part: readonly Moved[]) {
      await change(duesOf(part, toleranceMs, 'done'));
      for (const { id } of part) reported.add(id);
      moved += part.length;
      onMoved?.(moved);
    },
  };
  let wasThere = false;
  for (const limiter of limitersOf(action, limiters)) {
    wasThere = (await run(limiter, recipientId, action, follow)) || wasThere;
    const { reserved } = await limiter.inspect(recipientId);
    const others = reserved.filter(({ id }) => !reported.has(id)); // an earlier run may have moved them, and woken nobody
    moved += await redelayLate(queues, duesOf(others, toleranceMs));
  }
  await within(Promise.allSettled(followed), MOST_FOLLOWED_MS);
  return { wasThere, moved };
}

/** The limiters that an action concerns. A block stops all notifications; every other action concerns only alerts. */
export function limitersOf<L>({ kind }: Pick<Action, 'kind'>, limiters: Readonly<Record<CountedAs, L>>): readonly L[] {
  return kind === 'block' || kind === 'unblock' ? Object.values(limiters) : [limiters.alert];
}

async function run(limiter: Oversight, recipientId: string, action: Action, follow: Follow): Promise<boolean> {
  switch (action.kind) {
    case 'block': {
      const { until, reason } = action;
      await limiter.block(recipientId, { until, reason }, follow);
      return true;
    }
    case 'limit': {
      const { policy, until } = action;
      await limiter.limit(recipientId, policy, { ...follow, ...(until !== undefined && { until }) });
      return true;
    }
    case 'quiet':
      await limiter.quiet(recipientId, action.hours, follow);
      return true;
    default:
      return limiter[action.kind](recipientId, follow);
  }
}
