import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readApnsAnswer } from '../../src/providers/apns/answers.ts';
import { createApnsCredential, createApnsProvider } from '../../src/providers/apns/apns.ts';
import { createAccounts } from '../../workers/accounts.ts';
import { apnsOptions, openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush, type PushFields } from '../support/push.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { authority, openServer } from './h2-server.ts';

const MINUTE_MS = 60_000;

/** What APNs received of a push. */
async function received(fields: PushFields) {
  const sandbox = await openSandbox();
  const push = makePush(fields);
  const reply = await sendPush(await openApns(sandbox), push);
  return { push, reply, entry: sandbox.journal.all[0] };
}

test('an alert carries its words, its data at the root, and the push id', async () => {
  const data = { threadId: '77', screen: 'thread' };
  const { push, reply, entry } = await received({ data, sound: 'default', badge: 3, category: 'messages' });
  expect(reply).toEqual({ meaning: 'accepted', code: '200', alerted: 'yes' });
  expect(entry).toMatchObject({
    apnsId: push.pushId,
    pushType: 'alert',
    collapseId: push.pushId,
    expiration: undefined,
  });
  expect(entry?.payload).toEqual({ ...data, aps: { alert: push.notification.alert, sound: 'default', badge: 3 } });
});

test.each<[PushFields, string]>([
  [{ priority: 'high' }, '10'],
  [{ priority: 'normal' }, '10'],
  [{ priority: 'high', silent: true }, '5'],
  [{ apns: { priority: 1 } }, '1'],
  [{ apns: { priority: 1 }, silent: true }, '1'],
  [{ apns: { priority: 5 }, silent: true }, '5'],
  [{ apns: { priority: 10 }, silent: true }, '5'],
])('%j is apns-priority %s', async (fields, expected) => {
  const { entry, reply } = await received(fields);
  expect(reply.meaning).toBe('accepted');
  expect(entry?.priority).toBe(expected);
});

test.each([
  [1_800_000_000_999, 1_800_000_000],
  ['1970-01-01T00:00:00Z', 1], // 0 would mean "once, now, and do not keep"
])('expiresAt %s becomes %d', async (expiresAt, expected) => {
  const { entry } = await received({ expiresAt });
  expect(entry?.expiration).toBe(expected);
});

test('a collapse id goes as it is, or as a hash where a header cannot carry it', async () => {
  expect((await received({ collapseId: 'thread-77' })).entry?.collapseId).toBe('thread-77');
  const [first, again, other] = [
    await received({ collapseId: 'Elternabend: Grüße 🎒' }),
    await received({ collapseId: 'Elternabend: Grüße 🎒' }),
    await received({ collapseId: 'Elternabend: Grüße' }),
  ];
  expect(first.reply.meaning).toBe('accepted');
  expect(first.entry?.collapseId).toMatch(/^[\x21-\x7e]{1,64}$/);
  expect(again.entry?.collapseId).toBe(first.entry?.collapseId);
  expect(other.entry?.collapseId).not.toBe(first.entry?.collapseId);
});

const UPDATE = { event: 'update', contentState: { score: '2 : 1' } } as const;
const START = {
  event: 'start',
  contentState: { score: '0 : 0' },
  attributesType: 'MatchAttributes',
  attributes: { home: '7b', away: '7c' },
} as const;
const GOAL = { title: 'Goal', body: '2 : 1' };

/** The same of a push for a Live Activity, which is accepted, and of which nothing is ignored. */
async function receivedActivity(fields: PushFields = {}) {
  const activity = { pushType: 'liveactivity', alert: undefined, liveActivity: UPDATE } as const;
  const { reply, entry } = await received({ ...activity, ...fields });
  expect(reply).toMatchObject({ meaning: 'accepted' });
  expect(entry?.ignored).toBeUndefined();
  return entry;
}

/** Its `aps`. */
async function aps(fields: PushFields = {}): Promise<unknown> {
  return ((await receivedActivity(fields))?.payload as { aps?: unknown } | undefined)?.aps;
}

test('an update has its push type, its topic and its state, and the time of the send', async () => {
  const before = Math.floor(Date.now() / 1_000);
  const entry = await receivedActivity({ collapseId: 'match-12' });
  const after = Math.floor(Date.now() / 1_000);
  expect(entry).toMatchObject({
    pushType: 'liveactivity',
    topic: 'dev.pushpacer.sandbox.push-type.liveactivity',
    priority: '5',
    collapseId: 'match-12',
  });
  const timestamp = expect.any(Number) as number;
  expect(entry?.payload).toEqual({ aps: { timestamp, event: 'update', 'content-state': { score: '2 : 1' } } });
  const sentAt = (entry?.payload as { aps: { timestamp: number } }).aps.timestamp;
  expect(sentAt).toBeGreaterThanOrEqual(before);
  expect(sentAt).toBeLessThanOrEqual(after);
});

test('every field is where Apple wants it, and instants are whole seconds', async () => {
  const liveActivity = {
    ...START,
    timestamp: '2026-11-21T17:00:00.900Z',
    staleDate: 1_795_281_300_999,
    dismissalDate: '2026-11-21T20:00:00+01:00',
    relevanceScore: 75,
  };
  expect(await aps({ liveActivity, alert: { title: 'Match' } })).toEqual({
    timestamp: 1_795_280_400,
    event: 'start',
    'content-state': { score: '0 : 0' },
    'stale-date': 1_795_281_300,
    'dismissal-date': 1_795_287_600,
    'relevance-score': 75,
    'attributes-type': 'MatchAttributes',
    attributes: { home: '7b', away: '7c' },
    alert: { title: 'Match' },
  });
});

test('in its alert a key lies in the place of the text, and the sound beside it', async () => {
  const alert = { title: 'Goal', titleLocKey: 'GOAL', titleLocArgs: ['7b'], bodyLocKey: 'SCORE', body: '2 : 1' };
  expect(await aps({ alert, sound: 'goal.caf' })).toMatchObject({
    alert: { title: { 'loc-key': 'GOAL', 'loc-args': ['7b'] }, body: { 'loc-key': 'SCORE' }, sound: 'goal.caf' },
  });
});

describe('the priority', () => {
  test.each<[string, PushFields, string]>([
    ['without an alert', {}, '5'],
    ['priority high', { priority: 'high' }, '10'],
    ['with an alert', { alert: GOAL }, '10'],
    ['apns.priority 10', { apns: { priority: 10 } }, '10'],
    ['apns.priority 5', { alert: GOAL, priority: 'high', apns: { priority: 5 } }, '5'],
    ['silent', { alert: GOAL, priority: 'high', silent: true }, '5'],
  ])('%s', async (_what, fields, expected) => {
    expect((await receivedActivity(fields))?.priority).toBe(expected);
  });
});

test('a silent one is the state without the alert, whatever was merged', async () => {
  const apns = { payload: { aps: { 'relevance-score': 3 } } };
  const shown = await aps({ alert: GOAL, sound: 'goal.caf', silent: true, apns });
  expect(shown).toMatchObject({ 'content-state': { score: '2 : 1' }, 'relevance-score': 3 });
  expect(shown).not.toHaveProperty('alert');
  expect(shown).not.toHaveProperty('interruption-level');
});

test.each([
  ['dev.pushpacer.sandbox.clip', 'dev.pushpacer.sandbox.clip.push-type.liveactivity'],
  ['dev.pushpacer.sandbox.push-type.liveactivity', 'dev.pushpacer.sandbox.push-type.liveactivity'],
])('the topic %s becomes %s', async (topic, expected) => {
  expect((await receivedActivity({ apns: { topic } }))?.topic).toBe(expected);
});

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
