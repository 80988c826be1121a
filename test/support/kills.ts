import { setTimeout as sleep } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import type { TestProcess } from './process.ts';

/** Starts a worker and kills it in mid-work, four times. Answers the ids of the jobs that the workers had then. */
export async function killAgainAndAgain(queue: Queue, startWorker: () => Promise<TestProcess>): Promise<Set<string>> {
  const inFlight = new Set<string>();
  for (let round = 0; round < 4; round++) {
    const worker = await startWorker();
    await sleep(150 + 90 * round);
    worker.kill('SIGSTOP');
    for (const { id } of await queue.getActive()) inFlight.add(id ?? '');
    worker.kill('SIGKILL');
    await worker.waitForExit();
  }
  return inFlight;
}
