import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { invalidTokensKey, reportInvalidToken, type InvalidToken } from '../../src/queue/outcomes.ts';
import { ownRedis } from '../support/own-redis.ts';
import { startProcess, type TestProcess } from '../support/process.ts';
import { liveActivity, makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, redisEnv, testPrefix } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';
import { waitFor } from '../support/wait.ts';
import { goneToken } from './streams.ts';

const GROUP = 'token-cleaners';

function startConsumer(prefix: string, env: Readonly<Record<string, string>> = {}): TestProcess {
  const own = { ...redisEnv(), QUEUE_PREFIX: prefix, TAKE_OVER_AFTER_MS: '300', ...env };
  return startProcess({ args: ['examples/invalid-tokens.ts'], env: own });
}

async function printedBy(consumer: TestProcess): Promise<InvalidToken[]> {
  consumer.kill('SIGINT');
  const { code, stdout, stderr } = await consumer.waitForExit();
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as InvalidToken);
}

/** Entries that nobody has acknowledged. */
const pendingOf = async (redis: Redis, prefix: string) => {
  const [count] = (await redis.xpending(invalidTokensKey(prefix), GROUP)) as [number];
  return count;
};

it('a token that APNs calls gone reaches a consumer, with its recipient, platform, reason and time', async () => {
  const { queue, prefix, sandbox, startHere } = await openReplicaBench();
  const consumer = startConsumer(prefix);
  await startHere();
  const device = makeDevice();
  const timestamp = 1_700_000_000_000;
  sandbox.apns.script(device.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered', timestamp }]);
  await queue.add('push', makeNotification({ devices: [device] }), { priority: 10 });
  await consumer.waitForLine(new RegExp(device.token));
  await waitFor(async () => expect(await pendingOf(connectRedis(), prefix)).toBe(0));
  expect(await printedBy(consumer)).toEqual([goneToken(device.token)]);
});

it('on FCM an installation id and the token of a Live Activity are reported as gone, and a registration token as wrong', async () => {
  const { queue, prefix, sandbox, startHere } = await openReplicaBench();
  await startHere();
  const device = { ...makeDevice('fcm'), liveActivityToken: 'a1b2c3d4' };
  const fid = 'cQx3v8fZTn6tE1mKp0aB9d';
  sandbox.setAnswers([
    { token: device.token, reason: 'UNREGISTERED', times: 1 },
    { token: device.token, reason: 'SENDER_ID_MISMATCH', times: 1 },
    { token: fid, reason: 'UNREGISTERED' },
  ]);
  const entries = () => connectRedis().xrange(invalidTokensKey(prefix), '-', '+');
  const update = { ...liveActivity(1), devices: [device] };
  for (const [index, fields] of [update, update, { devices: [{ platform: 'fcm' as const, fid }] }].entries()) {
    const count = index + 1;
    const notification = makeNotification({ recipientId: `teacher-${count}`, ...fields });
    await queue.add('push', notification, { jobId: notification.id, priority: 10 });
    await waitFor(async () => expect(await entries()).toHaveLength(count));
  }
  expect((await entries()).map(([, fields]) => fields.slice(4, -2))).toEqual([
    ['token', 'a1b2c3d4', 'kind', 'liveActivityToken', 'meaning', 'gone', 'reason', 'UNREGISTERED'],
    ['token', device.token, 'meaning', 'bad-token', 'reason', 'SENDER_ID_MISMATCH'],
    ['token', fid, 'kind', 'fid', 'meaning', 'gone', 'reason', 'UNREGISTERED'],
  ]);
});

it('a token that was never valid is reported as such, and not while all tokens look wrong', async () => {
  const { queue, prefix, sandbox, startHere } = await openReplicaBench();
  await startHere();
  const devices = Array.from({ length: 25 }, () => makeDevice());
  for (const { token } of devices)
    sandbox.apns.script(token, [{ kind: 'refuse', status: 400, reason: 'BadDeviceToken' }]);
  for (const [n, device] of devices.entries()) {
    const notification = makeNotification({ recipientId: `teacher-${n}`, devices: [device] });
    await queue.add('push', notification, { jobId: notification.id, priority: 10 });
  }
  await waitFor(() => expect(sandbox.apns.counts.requests).toBeGreaterThanOrEqual(20));
  await sleep(500);
  const entries = await connectRedis().xrange(invalidTokensKey(prefix), '-', '+');
  const reported = entries.map(([, fields]) => fields.slice(6, 10));
  expect(reported).toContainEqual(['meaning', 'bad-token', 'reason', 'BadDeviceToken']);
  expect(reported.length).toBeLessThanOrEqual(20);
});

it('what a consumer took and did not live to acknowledge is handled by another', async () => {
  const [redis, prefix] = [connectRedis(), testPrefix()];
  const key = invalidTokensKey(prefix);
  await reportInvalidToken(redis, prefix, goneToken('left-behind'));
  await redis.xgroup('CREATE', key, GROUP, '0');
  await redis.xreadgroup('GROUP', GROUP, 'dead-consumer', 'COUNT', 10, 'STREAMS', key, '>');
  expect(await pendingOf(redis, prefix)).toBe(1);
  const consumer = startConsumer(prefix);
  await consumer.waitForLine(/left-behind/);
  await waitFor(async () => expect(await pendingOf(redis, prefix)).toBe(0));
  expect(await printedBy(consumer)).toEqual([goneToken('left-behind')]);
});

it('a consumer outlives a restart of Redis, also one that lost its data', { timeout: 40_000 }, async () => {
  const prefix = testPrefix();
  const first = await ownRedis();
  const consumer = startConsumer(prefix, { REDIS_URL: first.url });
  const before = connectRedis(first.url).on('error', () => undefined);
  await reportInvalidToken(before, prefix, goneToken('before'));
  await consumer.waitForLine(/before/);
  await first.close();
  await consumer.waitForLine(/ECONNREFUSED|ECONNRESET/);
  const second = await ownRedis({ port: first.port });
  await reportInvalidToken(connectRedis(second.url), prefix, goneToken('after'));
  await consumer.waitForLine(/after/, 20_000);
  consumer.kill('SIGTERM');
  expect((await consumer.waitForExit()).code).toBe(0);
});
