import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FCM_ANSWERS } from '../../src/providers/fcm/answers.ts';
import { createFcmProvider, createGoogleCredential, signInReply } from '../../src/providers/fcm/fcm.ts';
import type { Refuse } from '../../sandbox/loopback/answers.ts';
import { openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

const push = () => makePush({ platform: 'fcm' });

async function serviceAccount(tokenUri?: string): Promise<Record<string, unknown>> {
  const sandbox = await openSandbox();
  const file = sandbox.env()['GOOGLE_APPLICATION_CREDENTIALS'] ?? '';
  const account = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
  return tokenUri === undefined ? account : { ...account, token_uri: tokenUri };
}

describe('credentials', () => {
  test('that are refused are not the fault of a notification', async () => {
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox);
    sandbox.fcm.revokeKey();
    expect(await sendPush(provider, push())).toMatchObject({ meaning: 'later', trouble: 'auth', alerted: 'no' });
    expect(sandbox.fcm.counts.requests).toBe(1);
  });

  test('a real service account fits, and is not shown to another host', async () => {
    const credentials = await serviceAccount();
    const sandbox = await openSandbox();
    const provider = await openFcm(sandbox, { credentials });
    expect((await sendPush(provider, push())).meaning).toBe('accepted'); // the server takes the static token only
    const google = createFcmProvider({ projectId: 'any', endpoint: 'https://fcm.googleapis.com', credentials });
    await google.close();
  });

  test.each([
    ['service-account.json', /fcm\.credentials: .* found a string$/],
    [{ project_id: 'p' }, /fcm\.credentials: .* must contain a string "private_key" property/],
    [{ project_id: 'p', private_key: 'secret', client_email: 'a@b' }, /^(?!.*"secret).*Failed to parse private key/],
  ])('unusable ones stop the start (%#)', (credentials, message) => {
    expect(() => createFcmProvider({ projectId: 'any', endpoint: 'https://fcm.googleapis.com', credentials })).toThrow(
      message,
    );
  });

  test.each([
    ['sign-in-refused', { response: { status: 400 } }],
    ['sign-in-refused', {}],
    ['sign-in-unreachable', { response: { status: 503 } }],
    ['sign-in-unreachable', { response: { status: 429 } }],
    ['sign-in-unreachable', { code: 'ENOTFOUND' }],
    ['sign-in-unreachable', { code: 'ECONNRESET' }],
    ['sign-in-unreachable', { code: 'ETIMEDOUT' }],
    ['sign-in-unreachable', { code: 'SELF_SIGNED_CERT_IN_CHAIN' }],
    ['sign-in-refused', { code: 'ERR_OSSL_UNSUPPORTED' }],
  ] as const)('%s, by %o somewhere in the error', (code, fields) => {
    const cause = Object.assign(new Error('no token for worker@example.iam'), fields);
    const error = Object.assign(new Error('Credential implementation failed', { cause }), {
      code: 'app/invalid-credential',
    });
    expect(signInReply(error)).toMatchObject({ ...FCM_ANSWERS.signIn[code], code });
  });

  test.each([undefined, null, 'text', 7, { code: 7, cause: { code: {} } }])(
    '%o as an error is a reply too',
    (thrown) => {
      expect(signInReply(thrown)).toMatchObject({ code: 'sign-in-refused', unsent: true });
    },
  );

  test('a sign-in that Google refuses tells neither the key nor the assertion', async () => {
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        response.statusCode = 400;
        response.end(JSON.stringify({ error: 'invalid_grant', error_description: `Invalid JWT: ${body}` }));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const account = await serviceAccount(`http://127.0.0.1:${(server.address() as AddressInfo).port}/token`);
    const reply = await createGoogleCredential(account, Date.now).obtain();
    const text = JSON.stringify(reply);
    expect(reply).toMatchObject({ unsent: true });
    expect(text).not.toContain('PRIVATE KEY');
    expect(text).not.toMatch(/eyJ[\w-]{8}/);
  });
});

const refuse = (status: number, reason: string | undefined, more: Partial<Refuse>): Refuse => ({
  kind: 'refuse',
  status,
  ...(reason === undefined ? {} : { reason }),
  ...more,
});

test.each([
  [
    'a token that only the message names is a bad token as well',
    refuse(400, 'INVALID_ARGUMENT', { message: 'The registration token is not a valid FCM registration token' }),
    { meaning: 'bad-token', code: 'INVALID_ARGUMENT', suspect: 'configuration' },
  ],
  [
    "a quota that Google's front door names as the project's is the project's",
    refuse(429, undefined, { quota: 'project' }),
    { meaning: 'later', code: 'RESOURCE_EXHAUSTED', trouble: 'quota' },
  ],
  [
    'a missing APNs key at Google concerns that device alone, and renews no credentials',
    refuse(401, 'THIRD_PARTY_AUTH_ERROR', {}),
    { meaning: 'rejected', code: 'THIRD_PARTY_AUTH_ERROR' },
  ],
] as const)('%s', async (_name, answer, expected) => {
  const sandbox = await openSandbox();
  const one = push();
  sandbox.fcm.script(one.device.token, [answer]);
  const { meaning, code, suspect, trouble, alerted, detail } = await sendPush(await openFcm(sandbox), one);
  expect({ meaning, code, suspect, trouble }).toEqual({ suspect: undefined, trouble: undefined, ...expected });
  expect([alerted, typeof detail, sandbox.fcm.counts.requests]).toEqual(['no', 'string', 1]);
});

test('a missing APNs key at Google, for 20 different recipients within an hour, is the fault of the set-up', async () => {
  const sandbox = await openSandbox();
  let nowMs = Date.parse('2026-11-21T18:00:00Z');
  const provider = await openFcm(sandbox, { now: () => nowMs });
  const replyFor = async (recipientId: string) => {
    const one = makePush({ platform: 'fcm', recipientId });
    sandbox.fcm.script(one.device.token, [refuse(401, 'THIRD_PARTY_AUTH_ERROR', {})]);
    const { meaning, setUp, retryAfterMs, trouble, suspect } = await sendPush(provider, one);
    return { meaning, setUp, retryAfterMs, trouble, suspect };
  };
  const about = { trouble: undefined, suspect: undefined };
  const rejected = { meaning: 'rejected', setUp: undefined, retryAfterMs: undefined, ...about };
  const kept = { meaning: 'later', setUp: true, retryAfterMs: 600_000, ...about };
  for (let n = 0; n < 40; n++) expect(await replyFor(`person-${n % 19}`)).toEqual(rejected);
  expect(await replyFor('person-19')).toEqual(kept);
  expect(await replyFor('person-0')).toEqual(kept);
  nowMs += 3_600_000;
  expect(await replyFor('person-20')).toEqual(rejected);
});

test('what FCM says is told without the token and the words of the alert', async () => {
  const sandbox = await openSandbox();
  const one = makePush({ platform: 'fcm', data: { note: 'allergic to nuts' } });
  const { token } = one.device;
  const message = `Invalid value at message.data, "allergic to nuts", ${token}, "Field trip forms are due"`;
  sandbox.fcm.script(token, [refuse(400, 'INVALID_ARGUMENT', { message })]);
  const { detail } = await sendPush(await openFcm(sandbox), one);
  expect(detail).toBe('Invalid value at message.data, "[redacted]", [redacted], "[redacted]"');
});
