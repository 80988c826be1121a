import { expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { main } from '../../../scripts/status.ts';
import { notification } from '../../queue/support.ts';
import { outputOf, runMain } from '../../support/command.ts';
import { queueEnv } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';

// What else is wrong, and how it is told, is in test/scripts/status-wrong.test.ts.

interface Shown {
  readonly ok: boolean;
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

const said = (prefix: string) => outputOf(runMain(main, [], queueEnv(prefix)));

test('a breaker that is open is wrong', async () => {
  const bench = await openReplicaBench();
  const replica = await bench.startHere({ LIMIT_MIN_GAP: '0', LIMIT_RULES: '100/1m' });
  bench.sandbox.setAnswers([{ platform: 'apns', reason: 'InvalidProviderToken' }]);
  await bench.producer.enqueue(notification({ id: 'a' }));
  const breaker = { platform: 'apns', trouble: 'auth', code: 'InvalidProviderToken', workers: 1 };
  expect(await untilWrong(bench.prefix, ['breaker'])).toMatchObject({ breakers: [breaker] });
  expect(await said(bench.prefix)).toMatch(
    /\nWRONG {2}nothing is sent to apns: auth, InvalidProviderToken, for .*\(1 of 1 workers\)\n/,
  );
  await replica.stop();
});

test('a provider that cannot be reached is wrong, also without traffic', async () => {
  const bench = await openReplicaBench();
  const replica = await bench.startHere({ APNS_ENDPOINT: 'https://127.0.0.1:1' });
  const unreachable = { platform: 'apns', host: '127.0.0.1:1', workers: 1 };
  expect(await untilWrong(bench.prefix, ['unreachable'])).toMatchObject({ unreachable: [unreachable] });
  expect(await said(bench.prefix)).toMatch(
    /\nWRONG {2}nothing reaches apns: 127\.0\.0\.1:1, ECONNREFUSED, for .* \(1 of 1 workers\)\n/,
  );
  await replica.stop();
});

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
  expect(shown).toMatchObject({ ok: false, workers: [{ withoutSlot: { code } }] });
  const text = await said(bench.prefix);
  expect(text).toMatch(/\nWRONG {2}1 of 1 workers got no slot for [\d.]+s, so alerts wait: /);
  expect(text).toMatch(why);
  expect(bench.sandbox.journal.all).toEqual([]);

  await replica.stop();
  await bench.startHere();
  await untilWrong(bench.prefix, []);
  await bench.sandbox.journal.waitFor(1, { timeoutMs: 15_000 });
});
