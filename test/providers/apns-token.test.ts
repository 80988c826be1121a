import { generateKeyPairSync } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { createApnsCredential } from '../../src/providers/apns/apns.ts';
import { createAccounts } from '../../workers/accounts.ts';
import { sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { authority, openServer } from './h2-server.ts';

const MINUTE_MS = 60_000;
const makeKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
const pemOf = (key: ReturnType<typeof makeKey>, type: 'pkcs8' | 'sec1' = 'pkcs8') =>
  key.export({ type, format: 'pem' }).toString();
const IDS = { keyId: 'ABC123DEFG', teamId: 'DEF123GHIJ' };

test('an app whose topic changes three times sends with one token', async () => {
  const seen: { topic: unknown; authorization: unknown }[] = [];
  const { url } = await openServer((stream, headers) => {
    seen.push({ topic: headers['apns-topic'], authorization: headers.authorization });
    stream.respond({ ':status': 200 }, { endStream: true });
  });
  const accounts = createAccounts({
    redis: connectRedis(),
    prefix: testPrefix(),
    timeoutMs: 2_000,
    isWaiting: () => false,
  });
  onTestFinished(() => accounts.close());
  const key = pemOf(makeKey());
  const topics = ['com.example.a', 'com.example.b', 'com.example.c', 'com.example.a'];
  for (const topic of topics) {
    const apns = { key, ...IDS, topic, endpoint: url, ca: authority.cert };
    const own = { providers: { apns }, quotas: {} };
    expect(accounts.apply({ ...own, apps: new Map([['teacher', own]]) }).faults).toEqual([]);
    for (const account of ['apns', 'apns~teacher'] as const) {
      const provider = accounts.providers.get(account);
      expect(provider && (await sendPush(provider, makePush()))).toMatchObject({ meaning: 'accepted' });
    }
  }
  expect(seen.map(({ topic }) => topic)).toEqual(topics.flatMap((topic) => [topic, topic]));
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
