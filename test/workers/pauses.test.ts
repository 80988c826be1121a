import { expect, it, onTestFinished } from 'vitest';
import { createLog } from '../../src/observe/log.ts';
import { createMetrics } from '../../src/observe/metrics.ts';
import type { Pause } from '../../src/pause/pauses.ts';
import { serveReplica } from '../../workers/pages.ts';
import { createPauseListener, pausedMs } from '../../workers/pauses.ts';
import { connectRedis } from '../support/redis.ts';

const since = Date.now() - 5_000;
const refused: Pause = { platform: 'apns', trouble: 'auth', code: 'Forbidden', since, until: since + 65_000 };
const away: Pause = { ...refused, trouble: 'outage', code: 'connection-refused' };

function listen() {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const state: { pause?: Pause } = {};
  const metrics = createMetrics({
    queueDepth: () => Promise.resolve({}),
    pausedMs: (platform) => pausedMs(platform === 'apns' ? state.pause : undefined),
  });
  const told = () => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { listener: createPauseListener({ metrics, log }), metrics, log, told, state };
}

it('refused credentials are an alarm, other trouble is a warning, and the end tells how long it took', () => {
  const { listener, told } = listen();
  const apns = { platform: 'apns', by: 'us' } as const;
  listener({ ...apns, pause: away, before: undefined });
  listener({ ...apns, pause: refused, before: away });
  listener({ ...apns, pause: { ...refused, until: since + 125_000 }, before: refused });
  listener({ ...apns, pause: undefined, before: refused, by: 'others' });
  expect(told()).toMatchObject([
    { level: 'warn', platform: 'apns', trouble: 'outage', by: 'us', msg: 'the provider is away: it is paused' },
    {
      level: 'error',
      code: 'Forbidden',
      msg: 'the provider refuses our credentials: it is paused until it takes them',
    },
    { level: 'error', trouble: 'auth', msg: 'the provider still refuses our credentials' },
    { level: 'info', trouble: 'auth', by: 'others', msg: 'the provider is back' },
  ]);
  const [opened, , , ended] = told();
  expect(opened?.['forMs']).toBeGreaterThan(59_000);
  expect(ended?.['pausedMs']).toBeGreaterThanOrEqual(5_000);
});

it('a pause is counted once, by who opened it, and shown for as long as it lasts', async () => {
  const { listener, metrics, state } = listen();
  state.pause = refused;
  listener({ platform: 'apns', by: 'us', pause: refused, before: undefined });
  listener({ platform: 'apns', by: 'us', pause: { ...refused, until: since + 125_000 }, before: refused });
  listener({ platform: 'fcm', by: 'others', pause: { ...refused, platform: 'fcm' }, before: undefined });
  metrics.probed('apns', 'failed');
  const page = await metrics.registry.metrics();
  expect(page.match(/^pushpacer_provider_pauses_total.*$/gm)).toEqual([
    'pushpacer_provider_pauses_total{platform="apns",trouble="auth"} 1',
  ]);
  expect(page).toContain('pushpacer_provider_probes_total{platform="apns",result="failed"} 1');
  expect(page).toContain('pushpacer_provider_paused_seconds{platform="fcm"} 0');
  const shown = Number(/^pushpacer_provider_paused_seconds\{platform="apns"\} (.*)$/m.exec(page)?.[1]);
  expect(shown).toBeGreaterThan(59);
  state.pause = { ...refused, until: Date.now() - 1 };
  expect(await metrics.registry.metrics()).toContain('pushpacer_provider_paused_seconds{platform="apns"} 0');
});

it('a worker that waits for a provider is ready, and says what it waits for', async () => {
  const { metrics, log } = listen();
  const consumer = { isRunning: () => true } as unknown as Parameters<typeof serveReplica>[1]['consumers'][number];
  const pages = await serveReplica(
    { host: '127.0.0.1', port: 0 },
    {
      connections: [connectRedis()],
      consumers: [consumer],
      pauses: { current: (platform) => (platform === 'apns' ? refused : undefined) },
      metrics,
      log,
    },
  );
  onTestFinished(() => pages.close());
  const response = await fetch(`${pages.url}/readyz`);
  expect(response.status).toBe(200);
  const body = (await response.json()) as { providers: { apns: { forMs: number } } };
  const apns = { paused: true, trouble: 'auth', code: 'Forbidden', since: new Date(since).toISOString() };
  expect(body.providers).toMatchObject({ apns, fcm: { paused: false } });
  expect(body.providers.apns.forMs).toBeGreaterThan(50_000);
});
