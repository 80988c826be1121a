import { onTestFinished } from 'vitest';
import { startPresence, type WorkerFacts, type WorkerPolicy } from '../../src/queue/workers.ts';
import { connectRedis } from './redis.ts';

/** What a worker says of itself; `fields` on top. */
export function workerFacts(fields: Partial<WorkerFacts> = {}): WorkerFacts {
  return {
    ...{ id: 'a', version: '0.1.0', host: 'web-1', pid: 7, startedAt: 1, clockOffsetMs: 0, concurrency: 50 },
    ...{ inHand: 0, asleep: 0, stopping: false, platforms: [], apps: [], appCount: 0, breakers: [], unreachable: [] },
    ...fields,
  };
}

/** A worker in the registry until the test ends, as it writes of itself. */
export async function enterWorker(
  prefix: string,
  facts: Partial<WorkerFacts> = {},
  policy: Partial<WorkerPolicy> = {},
  redis = connectRedis(),
): Promise<void> {
  const presence = startPresence({
    ...{ redis, prefix, facts: () => workerFacts(facts) },
    policy: {
      ...{ policy: { rules: [], minGapMs: 0 }, categories: {}, apartRules: { background: [], liveactivity: [] } },
      ...policy,
    },
  });
  onTestFinished(() => presence.close());
  await presence.written;
}
