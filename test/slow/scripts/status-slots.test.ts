import { expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { main } from '../../../scripts/status.ts';
import type { SeenWorker } from '../../../src/queue/workers.ts';
import { notification } from '../../queue/support.ts';
import { runMain } from '../../support/command.ts';
import { queueEnv } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';

interface Shown {
  readonly ok: boolean;
  readonly workers: readonly SeenWorker[];
  readonly wrong: readonly { readonly kind: string }[];
}

/** Waits until these kinds are what is wrong. A worker writes every 5 s. */
function untilWrong(prefix: string, kinds: readonly string[]): Promise<Shown> {
  return vi.waitFor(
    async () => {
      const shown = JSON.parse((await runMain(main, ['--json'], queueEnv(prefix))).stdout) as Shown;
      expect(shown.wrong.map(({ kind }) => kind)).toEqual(kinds);
      return shown;
    },
    { timeout: 40_000, interval: 200 },
  );
}

test.each([
  ['replicas-missing', /too few replicas of Redis confirm slots in time \(REDIS_WAIT_REPLICAS\)\n/],
  ['limiter-unavailable', /the limiter's Redis does not answer\n/],
])('that workers get no slots (%s) is wrong, until they get some', { timeout: 100_000 }, async (code, why) => {
  const bench = await openReplicaBench();
  const own = await startEmbeddedRedis();
  onTestFinished(() => own.close());
  const isMissing = code === 'replicas-missing';
  const replica = await bench.startHere(
    isMissing ? { REDIS_WAIT_REPLICAS: '1', REDIS_WAIT_TIMEOUT: '100ms' } : { LIMITER_REDIS_URL: own.url },
  );
  if (!isMissing) await own.close();
  await bench.queue.add('push', notification({ id: 'a' }), { jobId: 'a', priority: 10 });
  const shown = await untilWrong(bench.prefix, ['no-slot']);
  expect(shown.ok).toBe(false);
  expect(shown.workers[0]).toMatchObject({ withoutSlot: { code } });
  const text = (await runMain(main, [], queueEnv(bench.prefix))).stdout;
  expect(text).toMatch(/\nWRONG {2}1 of 1 workers got no slot for [\d.]+s, so alerts wait: /);
  expect(text).toMatch(why);
  expect(bench.sandbox.journal.all).toEqual([]);

  await replica.stop();
  await bench.startHere();
  await untilWrong(bench.prefix, []);
  await bench.sandbox.journal.waitFor(1, { timeoutMs: 15_000 });
});
