import { expect, test } from 'vitest';
import { dueAtOfScore } from '../../../src/queue/bullmq-internals.ts';
import { notification, present } from '../../queue/support.ts';
import { connectRedis } from '../../support/redis.ts';
import { waitFor } from '../../support/wait.ts';
import { openWorkerBench } from '../../support/worker.ts';

/** What moves the clock of a whole worker process. */
function shifted(byMs: number): Record<string, string> {
  const script = `const now = Date.now; Date.now = () => now() + ${byMs};`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` };
}

const PEOPLE = 5;
const GAP_MS = 3_000;

test.for([
  { name: 'a minute ahead', shiftsMs: [60_000] },
  { name: 'a minute behind', shiftsMs: [-60_000] },
  { name: 'a minute ahead, and one that is right,', shiftsMs: [60_000, 0] },
  { name: 'a minute behind, and one that is right,', shiftsMs: [-60_000, 0] },
])('a worker $name puts jobs back to their time on Redis’s clock, and takes none before it', async ({ shiftsMs }) => {
  const { queue, env, startWorker } = await openWorkerBench();
  const redis = connectRedis();
  const settings = { ...env, LIMIT_MIN_GAP: `${GAP_MS}ms` };
  const workers = await Promise.all(shiftsMs.map((byMs) => startWorker({ ...settings, ...shifted(byMs) })));
  await present(workers[0]).waitForLine(/"level":"?(warn|40).*this machine's clock is not Redis's/);
  const people = Array.from({ length: PEOPLE }, (_, n) => `teacher-${n}`);
  for (const recipientId of people) {
    for (const part of [1, 2]) {
      const id = `${recipientId}-${part}`;
      await queue.add('push', notification({ id, recipientId }), { jobId: id, priority: 10 });
    }
  }

  await waitFor(async () => expect(await queue.getDelayedCount()).toBe(PEOPLE));
  const [seconds] = await redis.time();
  const delayed = await redis.zrange(queue.toKey('delayed'), '0', '-1', 'WITHSCORES');
  const aheadMs = delayed
    .filter((_, at) => at % 2 === 1)
    .map((score) => dueAtOfScore(Number(score)) - 1_000 * Number(seconds));
  expect(aheadMs).toHaveLength(PEOPLE);
  for (const ms of aheadMs) expect(Math.abs(ms)).toBeLessThan(30_000); // a clock that is not Redis's would be a minute off

  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(2 * PEOPLE)); // less than a minute
  const passes = (await queue.getCompleted()).map(({ attemptsStarted }) => attemptsStarted);
  expect(passes.filter((count) => count > 1).length).toBeGreaterThanOrEqual(PEOPLE);
  // A busy worker may ask anew a few times; taken before its time, a job would be put back hundreds of times.
  expect(Math.max(...passes)).toBeLessThan(20);
});
