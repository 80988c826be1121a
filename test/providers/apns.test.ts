import { describe, expect, test } from 'vitest';
import { createApnsProvider, createApnsCredential } from '../../src/providers/apns/apns.ts';
import { readApnsAnswer } from '../../src/providers/apns/answers.ts';
import { apnsOptions, openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

const MINUTE_MS = 60_000;

/** The loopback server and the provider go by one clock, which the test moves on. */
async function openOnClock() {
  const clock = { ms: Date.now() };
  const now = (): number => clock.ms;
  const sandbox = await openSandbox({ now });
  return { clock, sandbox, provider: await openApns(sandbox, { now }) };
}

describe('the provider token', () => {
  test('that APNs calls expired is renewed, and the push is sent once more at once, with the same id', async () => {
    const { clock, sandbox, provider } = await openOnClock();
    expect((await sendPush(provider, makePush())).meaning).toBe('accepted');
    clock.ms += 21 * MINUTE_MS;
    await sandbox.apns.expireTokens();
    const push = makePush();
    expect((await sendPush(provider, push)).meaning).toBe('accepted');
    const tries = sandbox.journal.all.filter(({ token }) => token === push.device.token);
    expect(tries.map(({ status, apnsId }) => [status, apnsId])).toEqual([
      [403, push.pushId],
      [200, push.pushId],
    ]);
  });

  test('is renewed once for all sends that were under way', async () => {
    const { clock, sandbox, provider } = await openOnClock();
    await Promise.all(Array.from({ length: 20 }, () => sendPush(provider, makePush())));
    clock.ms += 21 * MINUTE_MS;
    await sandbox.apns.expireTokens();
    const replies = await Promise.all(Array.from({ length: 100 }, () => sendPush(provider, makePush())));
    // A second renewal within 20 minutes would be told TooManyProviderTokenUpdates.
    expect(replies.map(({ code }) => code)).toEqual(replies.map(() => '200'));
  });

  test('is not replaced within 20 minutes, as APNs demands: it is the clock that is wrong', async () => {
    const { clock, sandbox, provider } = await openOnClock();
    await sendPush(provider, makePush());
    clock.ms += 19 * MINUTE_MS;
    await sandbox.apns.expireTokens();
    expect(await sendPush(provider, makePush())).toMatchObject({ code: 'ExpiredProviderToken', trouble: 'auth' });
    expect(sandbox.apns.counts.requests).toBe(2);
  });

  test('is renewed ahead of its hour, however long the provider runs', async () => {
    const { clock, sandbox, provider } = await openOnClock();
    for (let sent = 0; sent < 30; sent += 1) {
      expect((await sendPush(provider, makePush())).meaning).toBe('accepted');
      clock.ms += 11 * MINUTE_MS;
    }
    expect(sandbox.journal.accepted).toHaveLength(30);
    expect(sandbox.journal.all).toHaveLength(30);
  });

  test('of a revoked key: nothing is wrong with the notification, and no request is repeated', async () => {
    const sandbox = await openSandbox();
    const provider = await openApns(sandbox);
    sandbox.apns.revokeKey();
    expect(await sendPush(provider, makePush())).toEqual({
      meaning: 'later',
      alerted: 'no',
      code: 'InvalidProviderToken',
      trouble: 'auth',
    });
    expect(sandbox.apns.counts.requests).toBe(1);
    sandbox.apns.restoreKey();
    expect((await sendPush(provider, makePush())).meaning).toBe('accepted');
  });

  test('is one JWT for all, without the key in it', async () => {
    const { key, keyId, teamId } = await apnsOptions(await openSandbox());
    const credential = createApnsCredential({ key, keyId, teamId }, Date.now);
    const [one, two] = await Promise.all([credential.obtain(), credential.obtain()]);
    expect(one).toBe(two);
    expect(one).toMatch(/^bearer eyJ[\w-]+\.[\w-]+\.[\w-]+$/);
  });
});

test.each([
  ['key', 'no key at all', /apns\.key: expected a private EC key on P-256, as PEM, found a string of 13 characters/],
  ['endpoint', 'http://127.0.0.1', /apns\.endpoint: expected an address such as https:/],
  ['endpoint', 'https://user:hunter2@127.0.0.1', /^(?!.*hunter2).*apns\.endpoint/],
  ['endpoint', 'https://127.0.0.1/3/device', /apns\.endpoint/],
])('%s %s stops the start', async (name, value, message) => {
  const options = await apnsOptions(await openSandbox());
  expect(() => createApnsProvider({ ...options, [name]: value })).toThrow(message);
});

test('a token that is gone comes with the instant since when', async () => {
  const sandbox = await openSandbox();
  const push = makePush();
  const timestamp = Date.parse('2026-10-01T06:00:00Z');
  sandbox.apns.script(push.device.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered', timestamp }]);
  expect(await sendPush(await openApns(sandbox), push)).toEqual({
    meaning: 'gone',
    alerted: 'no',
    code: 'Unregistered',
    goneSince: timestamp,
  });
});

test('a 200 with a body, or a 204, is somebody else’s answer', () => {
  for (const answer of [
    { status: 200, body: '{}' },
    { status: 204, body: '' },
  ]) {
    expect(readApnsAnswer({ kind: 'answered', headers: {}, ...answer }, makePush(), 0)).toMatchObject({
      code: 'unreadable',
      alerted: 'maybe',
    });
  }
});
