import { readFile } from 'node:fs/promises';
import { getApps } from 'firebase-admin/app';
import type { Messaging } from 'firebase-admin/messaging';
import { describe, expect, test } from 'vitest';
import { switchOffRetry } from '../../src/providers/fcm-client.ts';
import { FCM_REPLIES } from '../../src/providers/fcm-replies.ts';
import { createFcmProvider } from '../../src/providers/fcm.ts';
import { TRANSPORT_REPLIES } from '../../src/providers/transport-replies.ts';
import { openGate } from '../support/gate.ts';
import { fcmOptions, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';

const push = () => makePush({ platform: 'fcm' });

describe('connections', () => {
  test('are kept: many sends, no more connections than allowed', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { connections: 5 });
    for (let round = 0; round < 10; round += 1) {
      const replies = await Promise.all(Array.from({ length: 20 }, () => sendPush(provider, push())));
      expect(replies.every(({ meaning }) => meaning === 'accepted')).toBe(true);
    }
    expect(sandbox.fcm.counts).toEqual({ requests: 200, accepted: 200, connections: 5 });
  });

  test('warm opens them all, has FCM look at one message that alerts nobody, and the sends use them', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { connections: 10 });
    await provider.warm();
    await provider.warm();
    expect(sandbox.fcm.counts).toEqual({ requests: 1, accepted: 0, connections: 10 });
    await Promise.all(Array.from({ length: 10 }, () => sendPush(provider, push())));
    expect(sandbox.fcm.counts).toEqual({ requests: 11, accepted: 10, connections: 10 });
  });

  test('those that are lost come back before they are needed', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { connections: 4, keepWarmMs: 50 });
    await provider.warm();
    await sendPush(provider, push()); // so that one of them has been used
    sandbox.fcm.dropConnections();
    await waitFor(() => expect(sandbox.fcm.counts.connections).toBe(8));
    await waitFor(() => expect(sandbox.fcm.openConnections).toBe(4));
    expect((await sendPush(provider, push())).meaning).toBe('accepted');
    expect(sandbox.fcm.counts.accepted).toBe(2);
  });

  test('warm never throws, also where nobody listens', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { connections: 2 });
    await sandbox.fcm.close();
    await expect(provider.warm()).resolves.toBeUndefined();
  });
});

describe('one request a send', () => {
  test.each([
    [
      '503',
      { kind: 'refuse', status: 503, reason: 'UNAVAILABLE' },
      { ...FCM_REPLIES['UNAVAILABLE'], code: 'UNAVAILABLE' },
    ],
    ['a lost connection', { kind: 'reset' }, { ...TRANSPORT_REPLIES.reset, code: 'reset' }],
    ['silence', { kind: 'hang' }, { ...TRANSPORT_REPLIES.timeout, code: 'timeout' }],
  ] as const)('%s', async (_name, answer, expected) => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { requestTimeoutMs: 300 });
    sandbox.fcm.setDefault(answer);
    expect(await sendPush(provider, push())).toMatchObject(expected);
    // A retry of firebase-admin comes at once, a second one after a second.
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(sandbox.fcm.counts.requests).toBe(1);
  });

  test('a firebase-admin whose retry cannot be switched off is refused', () => {
    expect(() => {
      switchOffRetry({ messagingRequestHandler: { httpClient: {} } } as unknown as Messaging);
    }).toThrow(/firebase-admin: expected messagingRequestHandler\.httpClient\.retry\.maxRetries .* found none/);
  });
});

describe('without an answer', () => {
  test('nobody listens: certainly not processed', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox);
    await sandbox.fcm.close();
    expect(await sendPush(provider, push())).toMatchObject({ code: 'connection-refused', alerted: 'no' });
  });

  test('a certificate that is not trusted: certainly not processed', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { ca: undefined });
    expect(await sendPush(provider, push())).toMatchObject({ code: 'tls-failed', alerted: 'no' });
  });

  test('a certificate for another name is not FCM', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { endpoint: sandbox.apns.url });
    expect(await sendPush(provider, push())).toMatchObject({ code: 'tls-failed', alerted: 'no' });
  });

  test('a connection that never gets through: not processed, and not sent when it does', async () => {
    const sandbox = await openSandbox();
    const gate = await openGate(sandbox.fcm.url);
    const provider = await openFcm(sandbox, { endpoint: gate.url, connections: 1, requestTimeoutMs: 500 });
    gate.hold();
    expect(await sendPush(provider, push())).toMatchObject({ code: 'connect-timeout', alerted: 'no' });
    gate.release();
    const next = push();
    expect((await sendPush(provider, next)).meaning).toBe('accepted');
    expect(sandbox.journal.all.map(({ token }) => token)).toEqual([next.device.token]);
  });

  test('what waits for a free connection is certainly not processed', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { connections: 1, requestTimeoutMs: 1_000 });
    sandbox.fcm.setDefault({ kind: 'hang' });
    const first = sendPush(provider, push());
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
    expect(await sendPush(provider, push(), AbortSignal.timeout(50))).toMatchObject({
      code: 'cancelled',
      alerted: 'no',
    });
    expect(await first).toMatchObject({ code: 'timeout', alerted: 'maybe' });
    expect(sandbox.journal.all).toHaveLength(1);
  });

  test('a signal ends the wait: before the send nothing leaves, after it nobody knows', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox);
    expect(await sendPush(provider, push(), AbortSignal.abort())).toMatchObject({ code: 'cancelled', alerted: 'no' });
    expect(sandbox.fcm.counts.requests).toBe(0);
    sandbox.fcm.setDefault({ kind: 'hang' });
    const abort = new AbortController();
    const reply = sendPush(provider, push(), abort.signal);
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
    abort.abort();
    expect(await reply).toMatchObject({ code: 'aborted', alerted: 'maybe', ambiguous: true });
    await waitFor(() => expect(sandbox.fcm.openConnections).toBe(0)); // the request was taken back
  });
});

describe('credentials', () => {
  test('refused ones are not the fault of a notification', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox);
    sandbox.fcm.revokeKey();
    expect(await sendPush(provider, push())).toMatchObject({ meaning: 'auth', trouble: 'auth', alerted: 'no' });
  });

  test('a real service account fits, and is not shown to another host', async () => {
    const sandbox = await openSandbox();
    const file = sandbox.env()['GOOGLE_APPLICATION_CREDENTIALS'] ?? '';
    const credentials: unknown = JSON.parse(await readFile(file, 'utf8'));
    const provider = await openFcm(sandbox, { credentials });
    expect((await sendPush(provider, push())).meaning).toBe('accepted'); // the server takes the static token only
    const google = createFcmProvider({ projectId: 'any', endpoint: 'https://fcm.googleapis.com', credentials });
    await google.close();
  });

  test.each([
    [undefined, /fcm\.credentials: expected a service account's JSON, found nothing/],
    ['service-account.json', /fcm\.credentials: .* found a string$/],
    [{ project_id: 'p' }, /fcm\.credentials: .* must contain a string "private_key" property/],
    [{ project_id: 'p', private_key: 'secret', client_email: 'a@b' }, /^(?!.*"secret).*Failed to parse private key/],
  ])('unusable ones stop the start (%#)', (credentials, message) => {
    expect(() => createFcmProvider({ projectId: 'any', endpoint: 'https://fcm.googleapis.com', credentials })).toThrow(
      message,
    );
  });
});

test('each provider has an app of its own, and takes it away on close', async () => {
  const sandbox = await openSandbox();
  const before = getApps().length;
  const [one, two] = [await openFcm(sandbox), createFcmProvider(await fcmOptions(sandbox))];
  expect(getApps()).toHaveLength(before + 2);
  await two.close();
  expect(getApps()).toHaveLength(before + 1);
  expect((await sendPush(one, push())).meaning).toBe('accepted');
});

test('close waits for what is under way, and takes no more', async () => {
  const sandbox = await openSandbox();
  const provider = createFcmProvider(await fcmOptions(sandbox));
  sandbox.fcm.setDefault({ kind: 'accept', delayMs: 200 });
  const reply = sendPush(provider, push());
  await waitFor(() => expect(sandbox.journal.all).toHaveLength(1));
  await provider.close();
  expect((await reply).meaning).toBe('accepted');
  expect(await sendPush(provider, push())).toMatchObject({ code: 'closed', alerted: 'no' });
  await waitFor(() => expect(sandbox.fcm.openConnections).toBe(0));
});
