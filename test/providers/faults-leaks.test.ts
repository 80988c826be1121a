import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Provider, Reply } from '../../src/providers/provider.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';

type Platform = 'apns' | 'fcm';
const open = { apns: openApns, fcm: openFcm } as const;
const COUNT = 1_000;
/** Each of these costs a handshake. */
const RESET_COUNT = 300;

const warnings: string[] = [];
const onWarning = (warning: Error): void => void warnings.push(`${warning.name}: ${warning.message}`);

beforeEach(() => {
  warnings.length = 0;
  process.on('warning', onWarning);
});
afterEach(() => {
  process.off('warning', onWarning);
  expect(warnings).toEqual([]); // such as MaxListenersExceededWarning
});

const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

/** Sends so many, a hundred at a time, all with one signal. */
async function sendMany(
  provider: Provider,
  platform: Platform,
  signal: AbortSignal,
  { count = COUNT, leaveInMs }: { readonly count?: number; readonly leaveInMs?: number } = {},
) {
  const replies: Reply[] = [];
  while (replies.length < count) {
    const some = Array.from({ length: 100 }, () => {
      const prepared = provider.prepare(makePush({ platform }));
      if (prepared.kind === 'refused') throw new Error('refused');
      const leaveBy = leaveInMs === undefined ? undefined : performance.now() + leaveInMs;
      return prepared.send({ signal, leaveBy });
    });
    replies.push(...(await Promise.all(some)));
  }
  return replies;
}

describe.each(['apns', 'fcm'] as const)('%s: after a thousand sends that failed', (platform) => {
  test('because nobody listened', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox, { connections: 4 });
    const { signal } = new AbortController();
    await provider.warm();
    const before = timers();
    await sandbox[platform].down();
    const replies = await sendMany(provider, platform, signal);
    expect(replies.filter(({ code }) => code === 'connection-refused').length).toBeGreaterThan(COUNT - 200);
    await sandbox[platform].up();
    await waitFor(async () => expect((await sendPush(provider, makePush({ platform }))).meaning).toBe('accepted'));
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    expect(sandbox.journal.accepted).toHaveLength(1);
    await waitFor(() => expect(timers()).toBeLessThanOrEqual(before + 8));
    await waitFor(() => expect(sandbox[platform].openConnections).toBeLessThanOrEqual(4));
  });

  test('because no connection was ready in time', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox, { connections: 4 });
    const { signal } = new AbortController();
    sandbox[platform].slowHandshakes(4_000);
    const replies = await sendMany(provider, platform, signal, { leaveInMs: 20 });
    expect(replies).toHaveLength(COUNT);
    // The second one where this process itself was held up.
    for (const { code } of replies) expect(['not-in-time', 'too-late']).toContain(code);
    expect((await sendPush(provider, makePush({ platform }))).meaning).toBe('accepted');
    expect(sandbox.journal.all).toHaveLength(1);
    expect(sandbox[platform].counts.connections).toBeLessThanOrEqual(4);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  test('because connections were reset under them', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox, { connections: 4 });
    const { signal } = new AbortController();
    await provider.warm();
    sandbox[platform].setDefault({ kind: 'reset', delayMs: 1 });
    const replies = await sendMany(provider, platform, signal, { count: RESET_COUNT });
    expect(replies.some(({ meaning }) => meaning === 'accepted')).toBe(false);
    const arrived = sandbox.journal.all.length;
    sandbox[platform].setDefault(undefined);
    await waitFor(async () => expect((await sendPush(provider, makePush({ platform }))).meaning).toBe('accepted'));
    // One request a send at the most: no client repeated one by itself.
    expect(arrived).toBeLessThanOrEqual(RESET_COUNT + 10);
    expect(sandbox.journal.accepted).toHaveLength(1);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    await waitFor(() => expect(sandbox[platform].openConnections).toBeLessThanOrEqual(4));
  });

  test('close ends once everything has, and may be called again', async () => {
    const sandbox = await openSandbox();
    const provider = await open[platform](sandbox, { connections: 4, requestTimeoutMs: 1_000 });
    await provider.warm();
    sandbox[platform].freeze();
    const lost = sendPush(provider, makePush({ platform }));
    const closed = provider.close();
    expect((await lost).alerted).toBe('maybe');
    await closed;
    await provider.close();
    expect(await sendPush(provider, makePush({ platform }))).toMatchObject({ code: 'closed', unreached: true });
  });
});
