import { expect, it, onTestFinished } from 'vitest';
import type { OpenBreaker } from '../../src/breaker/breaker.ts';
import { createLog } from '../../src/observe/log.ts';
import { createMetrics } from '../../src/observe/metrics.ts';
import { createBreakerListener, openMs, startBreakers } from '../../workers/breakers.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

const since = Date.now() - 5_000;
const refused: OpenBreaker = { service: 'apns', trouble: 'auth', code: 'Forbidden', since, until: since + 65_000 };
const limited: OpenBreaker = { ...refused, trouble: 'quota', code: 'QUOTA_EXCEEDED' };
const misconfigured: OpenBreaker = {
  ...refused,
  service: 'fcm',
  trouble: 'configuration',
  code: 'SENDER_ID_MISMATCH',
};

function listen() {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const state: { open?: OpenBreaker } = {};
  const metrics = createMetrics({
    lateAfterMs: 0,
    breakersOpenMs: () => [
      ['apns', openMs(state.open)],
      ['fcm', undefined],
    ],
    unreachableMs: () => [],
  });
  const logged = () => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { listener: createBreakerListener({ metrics, log }), metrics, log, logged, state };
}

it('what an operator has to act on is an error, other trouble a warning, and the end says how long it took', () => {
  const { listener, logged } = listen();
  listener({ service: 'apns', open: limited, before: undefined });
  listener({ service: 'apns', open: refused, before: limited });
  listener({ service: 'apns', open: { ...refused, until: since + 125_000 }, before: refused });
  listener({ service: 'apns', open: undefined, before: refused });
  listener({ service: 'fcm', open: misconfigured, before: undefined });
  expect(logged().map(({ level, trouble }) => [level, trouble])).toEqual([
    ['warn', 'quota'],
    ['error', 'auth'],
    ['error', 'auth'],
    ['info', 'auth'],
    ['error', 'configuration'],
  ]);
  const [, opened, longer, closed] = logged();
  expect(opened).toMatchObject({ platform: 'apns', code: 'Forbidden' });
  expect(opened?.['msg']).toContain('circuit breaker open: the provider refuses the credentials');
  expect(opened?.['forMs']).toBeGreaterThan(50_000);
  expect(longer?.['msg']).toContain('stays open: the provider still refuses the credentials');
  expect(closed?.['openMs']).toBeGreaterThanOrEqual(5_000);
});

it('says that a trial was accepted only where this worker made it', () => {
  const { listener, logged } = listen();
  listener({ service: 'apns', open: undefined, before: refused, byTrial: true });
  listener({ service: 'apns', open: undefined, before: refused });
  expect(logged().map(({ msg }) => String(msg))).toEqual([
    expect.stringContaining('the provider accepted a trial'),
    expect.stringMatching(/^circuit breaker not open any more: (?!.*a trial$)/),
  ]);
});

it('an opening is counted once, and shown for as long as it lasts', async () => {
  const { listener, metrics, state } = listen();
  state.open = refused;
  listener({ service: 'apns', open: refused, before: undefined });
  listener({ service: 'apns', open: { ...refused, until: since + 125_000 }, before: refused });
  metrics.breakerTrial('apns', 'failure');
  const page = await metrics.registry.metrics();
  expect(page.match(/^pushpacer_breaker_opened_total.*$/gm)).toEqual([
    'pushpacer_breaker_opened_total{platform="apns",trouble="auth"} 1',
  ]);
  expect(page).toContain('pushpacer_breaker_trials_total{platform="apns",result="failure"} 1');
  expect(page).toContain('pushpacer_breaker_open_seconds{platform="fcm"} 0');
  const shown = Number(/^pushpacer_breaker_open_seconds\{platform="apns"\} (.*)$/m.exec(page)?.[1]);
  expect(shown).toBeGreaterThan(50);
  const states = async (): Promise<unknown> =>
    (await metrics.registry.metrics()).match(/^pushpacer_breaker_state\{.* 1$/gm);
  const closed = 'pushpacer_breaker_state{platform="fcm",state="closed"} 1';
  expect(await states()).toEqual(['pushpacer_breaker_state{platform="apns",state="open"} 1', closed]);
  state.open = { ...refused, until: Date.now() - 1 };
  expect(await metrics.registry.metrics()).toContain('pushpacer_breaker_open_seconds{platform="apns"} 0');
  expect(await states()).toEqual(['pushpacer_breaker_state{platform="apns",state="half-open"} 1', closed]);
});

it('a replica has them under the prefix of its queue, with the times of its configuration', async () => {
  const prefix = testPrefix();
  const redis = connectRedis();
  const { metrics, log, logged } = listen();
  const config = {
    providerPause: { baseMs: 60_000, maxMs: 120_000 },
    queue: { prefix },
  } as Parameters<typeof startBreakers>[0];
  const breakers = startBreakers(config, { redis, metrics, log });
  onTestFinished(() => breakers.close());
  const evidence = { service: 'apns', recipientId: 'person', code: 'Forbidden' } as const;
  breakers.report({ ...evidence, trouble: 'auth' });
  expect(openMs(breakers.current('apns'))).toBeGreaterThan(50_000);
  expect(logged()).toHaveLength(1);
  await waitFor(async () => expect(await redis.get(`${prefix}:breaker:apns`)).toContain('Forbidden'));
});
