import { Job, type Queue } from 'bullmq';

/** When a job that waits is to come back. */
export interface Due {
  readonly jobId: string;
  /** Epoch milliseconds on Redis's clock. */
  readonly at: number;
}

/** Commands under way at once: each is a script of its own, and workers are to get a word in between. */
const AT_ONCE = 100;

/**
 * Has delayed jobs come back at other instants, and answers how many of them were delayed. Those that a worker has by now, or that
 * are done, are left alone: a worker asks the limiter anyway.
 */
export async function redelay(queue: Queue, jobs: readonly Due[]): Promise<number> {
  let done = 0;
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const changed = await Promise.all(jobs.slice(from, from + AT_ONCE).map((due) => changeDelay(queue, due)));
    done += changed.filter(Boolean).length;
  }
  return done;
}

/** BullMQ adds the delay to this machine's clock, so it is counted from there: what it writes is `at`. */
async function changeDelay(queue: Queue, { jobId, at }: Due): Promise<boolean> {
  const job = new Job(queue, '', {}, {}, jobId); // not added: only its id is used
  return job.changeDelay(Math.max(0, Math.ceil(at - Date.now()))).then(
    () => true,
    (error: unknown) => {
      if (isGone(error)) return false;
      throw error;
    },
  );
}

/** BullMQ's codes of `changeDelay`: no such job, and a job that is not delayed. */
function isGone(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | undefined)?.code;
  return code === -1 || code === -3;
}
