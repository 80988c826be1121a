import { expect, test } from 'vitest';
import {
  FCM_REPLIES,
  FCM_STATUS_REPLIES,
  FCM_UNKNOWN,
  SIGN_IN_REPLIES,
  fcmReply,
} from '../../src/providers/fcm-replies.ts';
import type { Reply } from '../../src/providers/provider.ts';
import type { Answer, Refuse } from '../../src/sandbox/answers.ts';
import { openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

/** What FCM's answers come out as, through the real client and a real server. Each costs one request. */
async function repliesTo(answers: readonly Answer[], now?: () => number): Promise<Reply[]> {
  const sandbox = await openSandbox();
  const provider = await openFcm(sandbox, { connections: 2, now });
  const replies: Reply[] = [];
  for (const answer of answers) {
    const push = makePush({ platform: 'fcm' });
    sandbox.fcm.script(push.device.token, [answer]);
    replies.push(await sendPush(provider, push));
  }
  expect(sandbox.fcm.counts.requests).toBe(answers.length);
  return replies;
}

/** As FCM gives its own words, and as Google's front end gives those that have no FcmError. */
const FCM_WORDS: Readonly<Record<string, Refuse>> = {
  UNREGISTERED: { kind: 'refuse', status: 404, reason: 'UNREGISTERED' },
  SENDER_ID_MISMATCH: { kind: 'refuse', status: 403, reason: 'SENDER_ID_MISMATCH' },
  'INVALID_ARGUMENT (message.token)': {
    kind: 'refuse',
    status: 400,
    reason: 'INVALID_ARGUMENT',
    message: 'The registration token is not a valid FCM registration token',
    violations: [{ field: 'message.token', description: 'Invalid registration token' }],
  },
  INVALID_ARGUMENT: {
    kind: 'refuse',
    status: 400,
    reason: 'INVALID_ARGUMENT',
    violations: [{ field: 'message.android.ttl', description: 'Invalid ttl' }],
  },
  NOT_FOUND: { kind: 'refuse', status: 404 },
  THIRD_PARTY_AUTH_ERROR: { kind: 'refuse', status: 401, reason: 'THIRD_PARTY_AUTH_ERROR' },
  UNAUTHENTICATED: { kind: 'refuse', status: 401 },
  PERMISSION_DENIED: { kind: 'refuse', status: 403 },
  QUOTA_EXCEEDED: { kind: 'refuse', status: 429, reason: 'QUOTA_EXCEEDED' },
  RESOURCE_EXHAUSTED: { kind: 'refuse', status: 429 },
  INTERNAL: { kind: 'refuse', status: 500, reason: 'INTERNAL' },
  UNAVAILABLE: { kind: 'refuse', status: 503, reason: 'UNAVAILABLE' },
  DEADLINE_EXCEEDED: { kind: 'refuse', status: 504, reason: 'DEADLINE_EXCEEDED' },
  UNSPECIFIED_ERROR: { kind: 'refuse', status: 500, reason: 'UNSPECIFIED_ERROR' },
};

test('every word comes out as its row', async () => {
  expect(Object.keys(FCM_WORDS).sort()).toEqual(Object.keys(FCM_REPLIES).sort());
  const words = Object.keys(FCM_REPLIES);
  const replies = await repliesTo(Object.values(FCM_WORDS));
  expect(replies).toEqual(
    Object.keys(FCM_WORDS).map((word) => ({
      ...FCM_REPLIES[word],
      code: word.split(' ')[0],
      detail: expect.any(String) as string,
    })),
  );
  expect(words.length).toBe(replies.length);
});

test.each([
  ['UNREGISTERED', 'gone', 'no'],
  ['SENDER_ID_MISMATCH', 'bad-token', 'no'],
  ['INVALID_ARGUMENT (message.token)', 'bad-token', 'no'],
  ['INVALID_ARGUMENT', 'rejected', 'no'],
  ['THIRD_PARTY_AUTH_ERROR', 'auth', 'no'],
  ['QUOTA_EXCEEDED', 'later', 'no'],
  ['UNAVAILABLE', 'later', 'maybe'],
  ['INTERNAL', 'later', 'maybe'],
])('%s means %s', (word, meaning, alerted) => {
  expect(FCM_REPLIES[word]).toMatchObject({ meaning, alerted });
});

test('a new word is taken by its status, and so is an answer that is not FCM’s', async () => {
  const statuses = [...Object.keys(FCM_STATUS_REPLIES), '418'].map(Number);
  const rows = statuses.map((status) => FCM_STATUS_REPLIES[status] ?? FCM_UNKNOWN);
  const named = await repliesTo(statuses.map((status) => ({ kind: 'refuse', status, reason: 'SOMETHING_NEW' })));
  expect(named).toEqual(rows.map((row) => expect.objectContaining({ ...row, code: 'SOMETHING_NEW' }) as Reply));
  const empty = await repliesTo(statuses.map((status) => ({ kind: 'refuse', status, emptyBody: true })));
  expect(empty).toEqual(rows.map((row, index) => ({ ...row, code: `http-${String(statuses[index])}` })));
});

test('a token that only the message names is a bad token as well', async () => {
  const message = 'The registration token is not a valid FCM registration token';
  const [reply] = await repliesTo([{ kind: 'refuse', status: 400, reason: 'INVALID_ARGUMENT', message }]);
  expect(reply).toMatchObject({ meaning: 'bad-token', code: 'INVALID_ARGUMENT' });
});

test('Retry-After counts, in seconds or as a date, where waiting is what is asked for', async () => {
  const nowMs = Date.parse('2026-11-21T18:00:00Z');
  const quota = FCM_WORDS['QUOTA_EXCEEDED'] as Refuse;
  const replies = await repliesTo(
    [
      { ...quota, retryAfter: '7' },
      { ...quota, retryAfter: 'Sat, 21 Nov 2026 18:00:30 GMT' },
      { ...quota, retryAfter: 'Sat, 21 Nov 2026 17:00:00 GMT' },
      { ...(FCM_WORDS['UNAVAILABLE'] as Refuse), retryAfter: '120' },
      { ...(FCM_WORDS['UNREGISTERED'] as Refuse), retryAfter: '120' },
    ],
    () => nowMs,
  );
  expect(replies.map(({ retryAfterMs }) => retryAfterMs)).toEqual([7_000, 30_000, 60_000, 120_000, undefined]);
});

test('neither the token nor the words of the alert are repeated', async () => {
  const sandbox = await openSandbox();
  const provider = await openFcm(sandbox);
  const push = makePush({ platform: 'fcm', data: { note: 'allergic to nuts' } });
  const { token } = push.device;
  const message = `Invalid value at message.data, "allergic to nuts", ${token}, "Field trip forms are due"`;
  sandbox.fcm.script(token, [{ kind: 'refuse', status: 400, reason: 'INVALID_ARGUMENT', message }]);
  const { detail } = await sendPush(provider, push);
  expect(detail).toBe('Invalid value at message.data, "[redacted]", [redacted], "[redacted]"');
});

test('firebase-admin refuses what it holds to be malformed', () => {
  const error = Object.assign(new Error('Malformed'), { code: 'messaging/invalid-payload' });
  const context = { push: makePush({ platform: 'fcm' }), mayHaveArrived: false, nowMs: 0 };
  expect(fcmReply(error, context)).toMatchObject({ meaning: 'rejected', code: 'messaging/invalid-payload' });
});

test.each([
  ['sign-in-refused', { response: { status: 400 } }],
  ['sign-in-refused', {}],
  ['sign-in-unreachable', { response: { status: 503 } }],
  ['sign-in-unreachable', { code: 'ENOTFOUND' }],
  ['sign-in-unreachable', { code: 'ECONNRESET' }],
] as const)('%s', (code, fields) => {
  const cause = Object.assign(new Error('no token for worker@example.iam'), fields);
  const error = Object.assign(new Error('Credential implementation failed', { cause }), {
    code: 'app/invalid-credential',
  });
  const context = { push: makePush({ platform: 'fcm' }), mayHaveArrived: false, nowMs: 0 };
  expect(fcmReply(error, context)).toMatchObject({ ...SIGN_IN_REPLIES[code], code });
});
