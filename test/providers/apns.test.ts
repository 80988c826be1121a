import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { readApnsAnswer } from '../../src/providers/apns/answers.ts';
import { createApnsCredential, createApnsProvider } from '../../src/providers/apns/apns.ts';
import { apnsOptions, openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush, type PushFields } from '../support/push.ts';
import { authority, openServer } from './h2-server.ts';

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

  test('is renewed ahead of its hour, however long the provider runs', async () => {
    const { clock, sandbox, provider } = await openOnClock();
    for (let sent = 0; sent < 30; sent += 1) {
      expect((await sendPush(provider, makePush())).meaning).toBe('accepted');
      clock.ms += 11 * MINUTE_MS;
    }
    expect(sandbox.journal.accepted).toHaveLength(30);
    expect(sandbox.journal.all).toHaveLength(30);
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

const readAnswer = (status: number, body: string, fields: PushFields = {}) =>
  readApnsAnswer({ kind: 'answered', headers: {}, status, body }, makePush(fields), 0);

test('a 200 with a body, or a 204, is somebody else’s answer', () => {
  for (const answer of [readAnswer(200, '{}'), readAnswer(204, '')]) {
    expect(answer).toMatchObject({ code: 'unreadable', alerted: 'maybe' });
  }
});

test('a topic of its own that Apple refuses says nothing about the configuration', () => {
  const own = { apns: { topic: 'com.example.other' } };
  const read = (reason: string) => readAnswer(400, JSON.stringify({ reason }), own);
  for (const code of ['TopicDisallowed', 'TopicMismatch']) {
    expect(read(code)).toEqual({ meaning: 'rejected', alerted: 'no', code });
  }
  const code = 'DeviceTokenNotForTopic';
  expect(read(code)).toEqual({ meaning: 'bad-token', alerted: 'no', code });
});

const makeKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
const pemOf = (key: ReturnType<typeof makeKey>, type: 'pkcs8' | 'sec1' = 'pkcs8') =>
  key.export({ type, format: 'pem' }).toString();
const IDS = { keyId: 'ABC123DEFG', teamId: 'DEF123GHIJ' };

test('apps with one key send with one token, whatever their topics', async () => {
  const seen: { topic: unknown; authorization: unknown }[] = [];
  const { url } = await openServer((stream, headers) => {
    seen.push({ topic: headers['apns-topic'], authorization: headers.authorization });
    stream.respond({ ':status': 200 }, { endStream: true });
  });
  const sandbox = await openSandbox();
  const topics = ['com.example.a', 'com.example.b', 'com.example.a'];
  for (const topic of topics) {
    const provider = await openApns(sandbox, { topic, endpoint: url, ca: authority.cert });
    expect(await sendPush(provider, makePush())).toMatchObject({ meaning: 'accepted' });
  }
  expect(seen.map(({ topic }) => topic)).toEqual(topics);
  expect(new Set(seen.map(({ authorization }) => authorization)).size).toBe(1);
});

/** A clock of our own, so that nothing is shared with other tests. */
function openClock() {
  const clock = { ms: Date.parse('2026-11-21T18:00:00Z') };
  return { clock, now: () => clock.ms };
}

test('the key counts, not how its file is written; another key, key id or team has its own token', async () => {
  const { now } = openClock();
  const key = makeKey();
  const tokenOf = (fields: object) => createApnsCredential({ key: pemOf(key), ...IDS, ...fields }, now).obtain();
  const first = await tokenOf({});
  expect(await tokenOf({})).toBe(first);
  expect(await tokenOf({ key: `\n${pemOf(key, 'sec1')}\n` })).toBe(first);
  const others = [{ key: pemOf(makeKey()) }, { keyId: 'OTHERKEY01' }, { teamId: 'OTHERTEAM1' }];
  const all = await Promise.all([{}, ...others].map(tokenOf));
  expect(new Set(all).size).toBe(4);
});

test('it is renewed for all at once, and not more often than every 20 minutes', async () => {
  const { clock, now } = openClock();
  const key = pemOf(makeKey());
  const [one, two] = [createApnsCredential({ key, ...IDS }, now), createApnsCredential({ key, ...IDS }, now)];
  const first = await one.obtain();
  clock.ms += 19 * MINUTE_MS;
  expect(await two.replace(typeof first === 'string' ? first : '')).toBe(false);
  expect(two.current()).toBe(first);
  clock.ms += 22 * MINUTE_MS;
  two.current(); // begins the renewal
  await expect.poll(() => one.current()).not.toBe(first);
  expect(two.current()).toBe(one.current());
});

test('one that nobody has used for an hour is forgotten, and is one again for all who come back', async () => {
  const { clock, now } = openClock();
  const key = pemOf(makeKey());
  const [one, two] = [createApnsCredential({ key, ...IDS }, now), createApnsCredential({ key, ...IDS }, now)];
  const first = await one.obtain();
  clock.ms += 60 * MINUTE_MS;
  await createApnsCredential({ key, ...IDS, keyId: 'OTHERKEY01' }, now).obtain();
  const again = await two.obtain();
  expect(again).not.toBe(first);
  expect(await one.obtain()).toBe(again);
});
