import { Job, type Queue } from 'bullmq';
import type { Waited } from '../domain/outcome.ts';
import { noteWhy } from './bullmq-internals.ts';

/** Why a job waits for so long; epoch milliseconds. */
export type Why = Pick<Waited, 'rule' | 'ruleUntil'>;

/** A delayed job and its new due time. */
export interface Due {
  readonly jobId: string;
  /** Epoch milliseconds on Redis's clock. */
  readonly at: number;
  /** The reason for it, for `producer.status`: that in the job's progress is older, and only a worker may write there. */
  readonly why?: Why;
}

/** How many commands are under way at once, so that workers' commands get through in between. */
const AT_ONCE = 100;

/**
 * Changes the due times of delayed jobs, and answers how many were delayed. Jobs that a worker has by now or that have ended are
 * left as they are: a worker asks the limiter anyway.
 */
export async function redelay(queue: Queue, jobs: readonly Due[]): Promise<number> {
  let done = 0;
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const changed = await Promise.all(jobs.slice(from, from + AT_ONCE).map((due) => changeDelay(queue, due)));
    done += changed.filter(Boolean).length;
  }
  return done;
}

/** BullMQ adds the delay to this machine's `Date.now()`, so subtracting that here makes it write exactly `at`. */
async function changeDelay(queue: Queue, { jobId, at, why }: Due): Promise<boolean> {
  const job = new Job(queue, '', {}, {}, jobId); // not added: only its id is used
  try {
    await job.changeDelay(Math.max(0, Math.ceil(at - Date.now())));
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
  // The job is there: what has moved is not taken for a while (MOVE_LEAD_MS).
  if (why !== undefined) await noteWhy(queue, jobId, { at, ...why });
  return true;
}

/** BullMQ's codes of `changeDelay`: -1 no such job, -3 the job is not delayed. */
function isGone(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | undefined)?.code;
  return code === -1 || code === -3;
}
