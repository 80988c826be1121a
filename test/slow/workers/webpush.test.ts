import { dirname } from 'node:path';
import { expect, it, vi } from 'vitest';
import { invalidTokensKey } from '../../../src/queue/outcomes.ts';
import { entriesIn } from '../../support/outcomes.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { connectRedis } from '../../support/redis.ts';
import { openSandbox } from '../../support/sandbox.ts';
import { waitFor } from '../../support/wait.ts';
import { DEFAULT_LATENCY } from '../../../sandbox/loopback/timing.ts';
import { openReplicaBench } from '../../support/replica.ts';

const WAIT = { timeout: 15_000 };
const FAST = { BACKOFF_BASE: '50ms', BACKOFF_MAX: '100ms', PROVIDER_PAUSE_BASE: '100ms', PROVIDER_PAUSE_MAX: '200ms' };

async function open(env: Readonly<Record<string, string>> = {}) {
  const bench = await openReplicaBench({ latency: DEFAULT_LATENCY });
  const { url } = await bench.startHere({ ...FAST, LIMIT_MIN_GAP: '100ms', METRICS_PORT: '0', ...env });
  const metrics = async () => (await fetch(`${url}/metrics`)).text();
  const device = () => makeDevice('webpush', bench.sandbox.webpush.url);
  return { ...bench, metrics, device };
}

it('an alert reaches the browser; the next one silently', async () => {
  const { queue, sandbox, line, metrics, device } = await open({ LIMIT_MIN_GAP: '1m' });
  const ana = device();
  const notification = makeNotification({ devices: [ana], priority: 'high' });
  await queue.add('push', notification);
  await line(/"outcome":"delivered"/);
  expect(sandbox.journal.accepted).toMatchObject([
    { token: ana.endpoint, priority: 'high', payload: { id: notification.id, silent: false } },
  ]);
  await queue.add('push', makeNotification({ devices: [ana], onThrottle: 'silence' }));
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(2), WAIT);
  expect(sandbox.journal.accepted[1]).toMatchObject({ priority: 'low', payload: { silent: true } });
  expect(await metrics()).toMatch(/pushpacer_provider_seconds_count\{platform="webpush",meaning="accepted"\} \d/);
});

it('a subscription that is gone is a dead letter, and its endpoint is in the stream of invalid tokens', async () => {
  const { queue, deadQueue, sandbox, prefix, lines, device } = await open();
  const [gone, unknown] = [device(), device()];
  sandbox.webpush.script(gone.endpoint, [{ kind: 'refuse', status: 410, reason: 'ExpiredSubscription' }]);
  sandbox.webpush.script(unknown.endpoint, [{ kind: 'refuse', status: 404, reason: 'UnknownSubscription' }]);
  const notification = makeNotification({ devices: [gone, unknown] });
  await queue.add('push', notification, { jobId: notification.id });
  await vi.waitFor(async () => expect(await deadQueue.getWaitingCount()).toBe(1), WAIT);
  const [letter] = await deadQueue.getWaiting();
  expect(letter?.data).toMatchObject({ reason: 'unregistered', notification: { devices: [gone, unknown] } });
  const reported = await entriesIn(connectRedis(), invalidTokensKey(prefix));
  const about = { recipientId: 'teacher-42', platform: 'webpush', meaning: 'gone' };
  const expected = [
    { ...about, token: gone.endpoint, reason: 'ExpiredSubscription' },
    { ...about, token: unknown.endpoint, reason: 'UnknownSubscription' },
  ];
  expect(reported).toHaveLength(2);
  expect(reported).toEqual(expect.arrayContaining(expected.map((entry) => expect.objectContaining(entry) as unknown)));
  const { attempts } = letter?.data as { readonly attempts: readonly unknown[] };
  for (const secret of [gone.endpoint, gone.keys.auth, gone.keys.p256dh]) {
    expect(lines.join('')).not.toContain(secret);
    expect(JSON.stringify(attempts)).not.toContain(secret);
  }
});

it('a VAPID key that is refused for 20 recipients opens the breaker; none is lost, and all arrive when it is right', async () => {
  const { queue, deadQueue, sandbox, line, device } = await open();
  sandbox.webpush.setDefault({ kind: 'refuse', status: 403, reason: 'BadJwtToken', retryAfter: '1' });
  const all = Array.from({ length: 25 }, (_, n) => makeNotification({ recipientId: `r${n}`, devices: [device()] }));
  await queue.addBulk(all.map((data) => ({ name: 'push', data })));
  await line(/"trouble":"configuration"/);
  sandbox.webpush.setDefault(undefined);
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(25), WAIT);
  expect(new Set(sandbox.journal.accepted.map(({ token }) => token)).size).toBe(25);
  expect(await deadQueue.getWaitingCount()).toBe(0);
});

it('a push service that limits the website for a while gets all in the end: no attempt is spent, and nothing is dead', async () => {
  const { queue, deadQueue, sandbox, line, metrics, device } = await open({ ATTEMPTS: '2', HISTORY_MAX: '100' });
  sandbox.webpush.limitSite({ max: 30, perMs: 3_000 });
  const all = Array.from({ length: 90 }, (_, n) => makeNotification({ recipientId: `r${n}`, devices: [device()] }));
  await queue.addBulk(all.map((data) => ({ name: 'push', data })));
  await line(/"trouble":"quota"/);
  await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(90));
  expect(new Set(sandbox.journal.accepted.map(({ token }) => token)).size).toBe(90);
  expect(await deadQueue.getWaitingCount()).toBe(0);
  const page = await metrics();
  expect(page).toMatch(/pushpacer_provider_limits_total\{platform="webpush",server="127\.0\.0\.1:\d+"\} \d/);
  expect(page).toMatch(/pushpacer_retries_total\{kind="retried"\} 0/);
}, 90_000);

it('what is too large, or for a push service that is not allowed, is a dead letter and no request', async () => {
  const { queue, deadQueue, sandbox, lines, device } = await open();
  await queue.add(
    'push',
    makeNotification({ recipientId: 'r1', devices: [device()], alert: { body: 'x'.repeat(4_000) } }),
  );
  const inside = makeDevice('webpush', 'https://10.0.0.8:6379');
  await queue.add('push', makeNotification({ recipientId: 'r2', devices: [inside] }));
  await vi.waitFor(async () => expect(await deadQueue.getWaitingCount()).toBe(2), WAIT);
  const letters = (await deadQueue.getWaiting()).map(({ data }) => data as { reason: string; message: string });
  expect(letters.map(({ reason, message }) => `${reason}: ${message}`).sort()).toEqual([
    'bad-token: origin-not-allowed: https://10.0.0.8:6379 is no known push service; WEBPUSH_ORIGINS can allow it',
    expect.stringMatching(/^rejected: payload-too-large: payload: expected at most 3993 bytes, found 4\d\d\d$/),
  ]);
  expect(sandbox.webpush.counts).toMatchObject({ requests: 0, connections: 0 });
  expect(lines.join('')).not.toContain(inside.endpoint);
});

it('one notification to two push services of which one is down reaches the other at once', async () => {
  const other = await openSandbox();
  await other.webpush.down();
  const { sandbox } = await openReplicaBench();
  const bench = await openReplicaBench({ latency: DEFAULT_LATENCY, dir: dirname(sandbox.caFile) });
  const origins = `${bench.sandbox.webpush.url},${other.webpush.url}`;
  await bench.startHere({ ...FAST, WEBPUSH_ORIGINS: origins });
  const devices = [other, bench.sandbox].map(({ webpush }) => makeDevice('webpush', webpush.url));
  await bench.queue.add('push', makeNotification({ devices, expiresAt: Date.now() + 8_000 }));
  await vi.waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(1), WAIT);
  await bench.line(/connection-refused/);
  expect(bench.sandbox.journal.accepted[0]?.token).toBe(devices[1]?.endpoint);
});
