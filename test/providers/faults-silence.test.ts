import { describe, expect, test } from 'vitest';
import type { Provider, Reply } from '../../src/providers/provider.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';

const open = { apns: openApns, fcm: openFcm } as const;

function sendMany(provider: Provider, platform: 'apns' | 'fcm', count: number): Promise<Reply[]> {
  return Promise.all(Array.from({ length: count }, () => sendPush(provider, makePush({ platform }))));
}

describe.each(['apns', 'fcm'] as const)('%s: connections that go silent without a close', (platform) => {
  test('a send on one is answered in time, and later ones go through without waiting', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox, { connections: 2, requestTimeoutMs: 1_000, keepWarmMs: 60_000 });
    await provider.warm();
    await sendMany(provider, platform, 2);
    sandbox[platform].freeze();
    const startedAt = performance.now();
    const [first, second] = await sendMany(provider, platform, 2);
    expect(performance.now() - startedAt).toBeLessThan(2_500);
    for (const reply of [first, second]) {
      expect(reply).toMatchObject({ code: 'timeout', alerted: 'maybe', ambiguous: true, trouble: 'outage' });
    }
    await waitFor(async () => {
      const [next] = await sendMany(provider, platform, 1);
      expect(next?.meaning).toBe('accepted');
    });
    const replies = await sendMany(provider, platform, 20);
    expect(replies.every(({ meaning }) => meaning === 'accepted')).toBe(true);
  });
});

test('APNs: once one of two connections is in doubt, sends take the other', async () => {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox, { connections: 2, requestTimeoutMs: 1_000, keepWarmMs: 60_000 });
  await provider.warm();
  sandbox.apns.freeze();
  await sendMany(provider, 'apns', 1); // times out, and puts the first connection in doubt
  await sendMany(provider, 'apns', 1); // the second one
  sandbox.apns.thaw(); // and both answer their pings
  await waitFor(async () => expect((await sendMany(provider, 'apns', 1))[0]?.meaning).toBe('accepted'));
  const replies = await sendMany(provider, 'apns', 10);
  expect(replies.every(({ meaning }) => meaning === 'accepted')).toBe(true);
  expect(sandbox.apns.counts.connections).toBe(2); // neither was given up
});

test('APNs: one that is silent for two seconds is found out before a send on it has timed out', async () => {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox, { connections: 2, requestTimeoutMs: 30_000, keepWarmMs: 60_000 });
  await provider.warm();
  sandbox.apns.freeze();
  const replies: Reply[] = [];
  let sent = 0;
  await waitFor(async () => {
    void sendPush(provider, makePush()).then((reply) => replies.push(reply));
    sent += 1;
    expect(replies.some(({ meaning }) => meaning === 'accepted')).toBe(true);
    await Promise.resolve();
  });
  await waitFor(() => expect(replies).toHaveLength(sent));
  for (const { code } of replies) expect(['200', 'reset']).toContain(code);
});

test('FCM: of many silent connections one costs a timeout, and the idle others are replaced', async () => {
  const sandbox = await openSandbox();
  const provider = await openFcm(sandbox, { connections: 10, requestTimeoutMs: 500, keepWarmMs: 60_000 });
  await provider.warm();
  sandbox.fcm.freeze();
  const [lost] = await sendMany(provider, 'fcm', 1);
  expect(lost?.code).toBe('timeout');
  const replies = await sendMany(provider, 'fcm', 10);
  expect(replies.map(({ code }) => code)).toEqual(replies.map(() => '200'));
});

test.each(['apns', 'fcm'] as const)('%s: a handshake that is never answered is given up', async (platform) => {
  const sandbox = await openSandbox();
  const provider = await open[platform](sandbox, { connections: 1, requestTimeoutMs: 300 });
  sandbox[platform].slowHandshakes(2 ** 30);
  const [stuck] = await sendMany(provider, platform, 1);
  expect(stuck).toMatchObject({ code: 'connect-timeout', alerted: 'no', unreached: true });
  sandbox[platform].slowHandshakes(0);
  await waitFor(async () => {
    const [next] = await sendMany(provider, platform, 1);
    expect(next?.meaning).toBe('accepted');
  });
});
