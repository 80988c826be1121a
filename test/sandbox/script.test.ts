import { readFile } from 'node:fs/promises';
import { expect, it, test } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { APNS_REASONS, type ApnsReason } from '../../sandbox/apns/reasons.ts';
import { parseScript, parseScriptText, type ScriptedAnswer } from '../../sandbox/answers.ts';
import { FCM_REASONS, type FcmReason } from '../../sandbox/fcm/reasons.ts';
import { startSandbox, type Sandbox } from '../../sandbox/sandbox.ts';
import { openApns, openFcm, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns, verdict } from './apns-client.ts';
import { connectFcm, connectFcmHttp2, rpcError, verdict as fcmVerdict } from './fcm-client.ts';
import { waitFor } from '../support/wait.ts';

/** Sends one alert to each token in turn, and gives the statuses. */
async function statusesOf(sandbox: Sandbox, platform: 'apns' | 'fcm', tokens: readonly string[]): Promise<number[]> {
  const apns = await connectApns(sandbox);
  const fcm = await connectFcm(sandbox);
  const all: number[] = [];
  for (const token of tokens) {
    all.push((platform === 'apns' ? await apns.post({ token }) : await fcm.send({ token })).status);
  }
  return all;
}

it.each(Object.entries(APNS_REASONS))('the reason %s of APNs is answered with %i', async (reason, status) => {
  const sandbox = await openSandbox({ answers: [{ reason: reason as ApnsReason }] });
  expect(verdict(await (await connectApns(sandbox)).post())).toEqual({ status, reason });
  expect(await statusesOf(sandbox, 'fcm', ['ab'])).toEqual([200]); // the word is not FCM's
});

it.each(Object.entries(FCM_REASONS))('the reason %s of FCM is answered with %i', async (reason, status) => {
  const sandbox = await openSandbox({ answers: [{ reason: reason as FcmReason }] });
  const reply = await (await connectFcm(sandbox)).send({ token: 'ab' });
  const { http, status: word, errorCode } = fcmVerdict(reply);
  expect([http, errorCode ?? word]).toEqual([status, reason]);
  expect(sandbox.journal.all).toMatchObject([{ accepted: false, status, reason }]);
  expect(await statusesOf(sandbox, 'apns', ['ab'])).toEqual([200]);
});

test.each([
  ['apns', 400, 'BadDeviceToken'],
  ['apns', 410, 'Unregistered'],
  ['apns', 429, 'TooManyRequests'],
  ['apns', 503, 'ServiceUnavailable'],
  ['apns', 502, 'http-502'],
  ['fcm', 404, 'UNREGISTERED'],
  ['fcm', 429, 'QUOTA_EXCEEDED'],
  ['fcm', 503, 'UNAVAILABLE'],
  ['fcm', 504, 'http-504'],
] as const)('%s with the status %i alone is read as %s by a worker', async (platform, status, code) => {
  const sandbox = await openSandbox({ answers: [{ status, platform }] });
  const provider = platform === 'apns' ? await openApns(sandbox) : await openFcm(sandbox);
  expect(await sendPush(provider, makePush({ platform }))).toMatchObject({ code });
});

test('a token that FCM calls invalid is a bad token, another field a rejected payload', async () => {
  const sandbox = await openSandbox({ answers: [{ reason: 'INVALID_ARGUMENT', field: 'message.token', times: 1 }] });
  const provider = await openFcm(sandbox);
  expect(await sendPush(provider, makePush({ platform: 'fcm' }))).toMatchObject({ meaning: 'bad-token' });
  sandbox.setAnswers([{ reason: 'INVALID_ARGUMENT' }]);
  expect(await sendPush(provider, makePush({ platform: 'fcm' }))).toMatchObject({ meaning: 'rejected' });
});

test.each([
  ['Unregistered', 'gone'],
  ['ExpiredToken', 'gone'],
  ['BadDeviceToken', 'bad-token'],
  ['DeviceTokenNotForTopic', 'bad-token'],
] as const)('a token that APNs refuses with %s is answered as FCM passes that on, and is %s', async (apns, meaning) => {
  const sandbox = await openSandbox({ answers: [{ reason: 'INVALID_ARGUMENT', apns }] });
  const { body } = await (await connectFcm(sandbox)).send({ token: 'ab' });
  expect(body).toContain('"@type": "type.googleapis.com/google.firebase.fcm.v1.ApnsError"');
  expect(body.includes('APNs device token is disabled.')).toBe(meaning === 'gone');
  expect(await sendPush(await openFcm(sandbox), makePush({ platform: 'fcm' }))).toMatchObject({ meaning });
});

test('a 410 says since when: that is now', async () => {
  const sandbox = await openSandbox({ answers: [{ reason: 'Unregistered' }] });
  const before = Date.now();
  const reply = await sendPush(await openApns(sandbox), makePush({ platform: 'apns' }));
  expect(reply.goneSince).toBeGreaterThanOrEqual(before);
  expect(reply.goneSince).toBeLessThanOrEqual(Date.now());
});

test('the first entry that fits and is not used up decides', async () => {
  const sandbox = await openSandbox();
  sandbox.setAnswers([
    { platform: 'apns', token: 'AB', status: 503, times: 2 },
    { token: 'ab', status: 500, times: 1 },
    { platform: 'apns', token: 'cd', reason: 'Unregistered' },
    { status: 429, times: 1 },
  ]);
  expect(await statusesOf(sandbox, 'apns', ['ab', 'cd', 'ab', 'ab', 'ef', 'ab', 'cd'])).toEqual([
    ...[503, 410, 503, 500, 429, 200, 410],
  ]);
  expect(await statusesOf(sandbox, 'fcm', ['ab', 'cd'])).toEqual([200, 200]); // "times" counts for both platforms together
});

test('what is left of the script is a script again', async () => {
  const sandbox = await openSandbox();
  const forever = { token: 'cd', reason: 'UNREGISTERED' } as const;
  sandbox.setAnswers([{ status: 503, times: 1 }, { token: 'ab', status: 500, times: 3 }, forever]);
  await statusesOf(sandbox, 'fcm', ['cd', 'ab', 'ab']);
  expect(sandbox.answers()).toEqual([{ token: 'ab', status: 500, times: 1 }, forever]);
  sandbox.setAnswers(sandbox.answers());
  expect(await statusesOf(sandbox, 'fcm', ['ab', 'ab', 'cd'])).toEqual([500, 200, 404]);
  sandbox.setAnswers([]);
  expect(await statusesOf(sandbox, 'fcm', ['cd'])).toEqual([200]);
});

test('a request that is wrong by itself uses up no entry', async () => {
  const sandbox = await openSandbox({ answers: [{ status: 503, times: 1 }] });
  expect((await (await connectFcm(sandbox)).send({})).status).toBe(400);
  expect(sandbox.answers()).toHaveLength(1);
});

test('a share is answered so, the rest as if the entry were not there; the same for the same seed', async () => {
  const run = async (seed: number) => {
    const answers = [
      { share: 0.25, status: 503 },
      { token: 'ab', status: 500, times: 1_000 },
    ];
    return statusesOf(
      await openSandbox({ seed, answers }),
      'fcm',
      Array.from({ length: 200 }, () => 'ab'),
    );
  };
  const first = await run(7);
  expect(await run(7)).toEqual(first);
  expect(new Set(first)).toEqual(new Set([503, 500]));
  expect(Math.abs(first.filter((status) => status === 503).length - 50)).toBeLessThan(25);
});

test('answers may come late, and name a time to wait', async () => {
  const sandbox = await openSandbox({ answers: [{ status: 503, delay: '60ms', retryAfter: '2m' }] });
  const reply = await (await connectFcm(sandbox)).send({ token: 'ab' });
  const answeredAt = performance.timeOrigin + performance.now();
  expect(reply.headers['retry-after']).toBe('120');
  expect(rpcError(reply).status).toBe('UNAVAILABLE');
  expect(answeredAt - (sandbox.journal.all[0]?.at ?? NaN)).toBeGreaterThanOrEqual(59);
});

test('a connection or only a stream is reset, with the alert or without; or no answer comes', async () => {
  const sandbox = await openSandbox();
  sandbox.setAnswers([
    { answer: 'refused-stream', times: 1 },
    { answer: 'reset-stream', alerted: true, times: 1 },
    { answer: 'accept', times: 1 },
    { answer: 'reset', times: 1 },
    { answer: 'hang' },
  ]);
  const client = await connectFcmHttp2(sandbox);
  await expect(client.send({ token: 'ab' })).rejects.toThrow('NGHTTP2_REFUSED_STREAM');
  await expect(client.send({ token: 'ab' })).rejects.toThrow('NGHTTP2_INTERNAL_ERROR');
  expect((await client.send({ token: 'ab' })).status).toBe(200);
  expect(sandbox.fcm.counts.connections).toBe(1);
  await expect(client.send({ token: 'ab' })).rejects.toThrow('ECONNRESET');
  const hanging = (await connectFcmHttp2(sandbox)).send({ token: 'ab' }).catch(() => 'no answer');
  await waitFor(() => expect(sandbox.journal.all).toHaveLength(5));
  expect(sandbox.journal.all.map(({ accepted, reason }) => [accepted, reason])).toEqual([
    ...[
      [false, 'reset'],
      [true, 'reset'],
      [true, undefined],
      [false, 'reset'],
      [false, 'hang'],
    ],
  ]);
  await sandbox.close();
  expect(await hanging).toBe('no answer');
});

test.each([
  ['nothing', undefined, 'expected an object, found nothing'],
  ['a list', [], 'expected an object, found an array of 0'],
  ['no answers', {}, 'answers: expected an array, found nothing'],
  ['another field', { answers: [], rules: [] }, 'rules: expected no such field, found one'],
  ['an empty entry', { answers: [{}] }, 'answers[0]: expected a reason, a status or an answer, found an object'],
])('a script with %s is refused', (_what, script, fault) => {
  expect(() => parseScript(script)).toThrow(InputError);
  expect(() => parseScript(script)).toThrow(fault);
});

test.each<[entry: object, fault: string]>([
  [{ platform: 'sms', status: 503 }, 'platform: expected "apns" or "fcm" or "webpush", found "sms"'],
  [
    { platform: 'fcm', status: 410 },
    'status: expected a status that FCM answers: 400, 401, 403, 404, 429, 500, 502, 503, 504, found 410',
  ],
  [{ status: 410 }, 'status: expected a status that FCM answers'],
  [{ platform: 'apns', reason: 'Gone' }, 'reason: expected a reason of APNs (BadChannelId, '],
  [{ platform: 'apns', reason: 'UNREGISTERED' }, 'reason: expected a reason of APNs ('],
  [{ reason: 'Unregistered', status: 404 }, 'status: expected 410, the status of Unregistered, found 404'],
  [{ status: 503, answer: 'hang' }, 'answer: expected none beside a reason or a status, found "hang"'],
  [{ answer: 'hang', delay: '1s' }, 'delay: expected none for "hang", which never ends, found "1s"'],
  [{ answer: 'reset', retryAfter: '1s' }, 'retryAfter: expected none without a reason or a status, found "1s"'],
  [
    { status: 503, retryAfter: '500ms' },
    'retryAfter: expected a duration in whole seconds, such as 30s or 2m, found "500ms"',
  ],
  [{ answer: 'accept', delay: 'long' }, 'delay: expected a duration such as 250ms, 3s or 1m, at most 1h, found "long"'],
  [{ answer: 'accept', delay: '2h' }, 'delay: expected a duration such as 250ms, 3s or 1m, at most 1h, found "2h"'],
  [{ status: 503, times: 0 }, 'times: expected at least 1, found 0'],
  [{ status: 503, share: 0 }, 'share: expected a share above 0 and at most 1, found 0'],
  [{ reason: 'UNREGISTERED', field: 'x' }, 'field: expected none without the reason INVALID_ARGUMENT, found "x"'],
  [
    { reason: 'UNREGISTERED', apns: 'Unregistered' },
    'apns: expected none without the reason INVALID_ARGUMENT, found "Unregistered"',
  ],
  [
    { reason: 'INVALID_ARGUMENT', field: 'message.token', apns: 'ExpiredToken' },
    'apns: expected none beside a field, found "ExpiredToken"',
  ],
  [{ answer: 'accept', alerted: false }, 'alerted: expected none for "accept", which always alerts, found false'],
])('the entry %j is refused', (entry, fault) => {
  expect(() => parseScript({ answers: [entry] })).toThrow(InputError);
  expect(() => parseScript({ answers: [entry] })).toThrow(`answers[0].${fault}`);
});

test('a script names every fault at once, no token, and where it is no JSON', () => {
  const answers = [{ status: 503 }, { status: 1 }, { token: ['secret-token'], times: 'often', answer: 'hang' }];
  const fault = (() => {
    try {
      return parseScriptText(JSON.stringify({ answers }), 'the file');
    } catch (error) {
      return error as InputError;
    }
  })();
  expect((fault as InputError).faults.map(({ path }) => path).sort()).toEqual([
    ...['answers[1].status', 'answers[2].times', 'answers[2].token'],
  ]);
  expect((fault as InputError).message).not.toContain('secret');
  expect(() => parseScriptText('{"answers":', 'the file')).toThrow(
    'the file: expected JSON: { "answers": [ … ] }, found text that is not JSON',
  );
});

test('a script with a fault changes nothing, and starts no sandbox', async () => {
  const sandbox = await openSandbox({ answers: [{ status: 503 }] });
  expect(() => sandbox.setAnswers([{ status: 410 }])).toThrow('answers[0].status');
  expect(sandbox.answers()).toEqual([{ status: 503 }]);
  await expect(startSandbox({ answers: [{}] })).rejects.toThrow('answers[0]: expected a reason');
});

test('a script may have every field of its type', () => {
  const examples: Readonly<Record<keyof ScriptedAnswer, ScriptedAnswer>> = {
    platform: { platform: 'apns', status: 410 },
    token: { token: 'ab', status: 503 },
    reason: { reason: 'UNREGISTERED' },
    status: { status: 503 },
    answer: { answer: 'hang' },
    times: { status: 503, times: 1 },
    share: { status: 503, share: 1 },
    delay: { answer: 'accept', delay: '1h' },
    retryAfter: { status: 429, retryAfter: '1m' },
    field: { reason: 'INVALID_ARGUMENT', field: 'message.token' },
    apns: { reason: 'INVALID_ARGUMENT', apns: 'Unregistered' },
    alerted: { answer: 'reset', alerted: true },
  };
  expect(parseScript({ answers: Object.values(examples) })).toEqual(Object.values(examples));
});

test("the example's script is one", async () => {
  const answers = parseScriptText(await readFile('examples/school-morning.sandbox.json', 'utf8'));
  expect(answers.length).toBeGreaterThan(5);
});
