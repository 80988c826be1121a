import { readFile } from 'node:fs/promises';
import { Agent, type AgentOptions, createServer } from 'node:https';
import type { Duplex } from 'node:stream';
import { decodeJwt } from 'jose';
import { describe, expect, test } from 'vitest';
import { FCM_ANSWERS } from '../../src/providers/fcm/answers.ts';
import { invalidOf } from '../../src/notification/device.ts';
import { createFcmProvider, createGoogleCredential, signInReply } from '../../src/providers/fcm/fcm.ts';
import type { Refuse } from '../../sandbox/loopback/answers.ts';
import { signCertificate } from '../../sandbox/loopback/certificates.ts';
import { portOf } from '../support/listen.ts';
import { openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { authority } from './h2-server.ts';

const push = () => makePush({ platform: 'fcm' });

async function serviceAccount(): Promise<Record<string, unknown>> {
  const sandbox = await openSandbox();
  const file = sandbox.env()['GOOGLE_APPLICATION_CREDENTIALS'] ?? '';
  return JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
}

describe('credentials', () => {
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

  test('whatever is thrown is a reply', () => {
    for (const thrown of [undefined, null, 'text', 7, { code: 7, cause: { code: {} } }]) {
      expect(signInReply(thrown)).toMatchObject({ code: 'sign-in-refused', unsent: true });
    }
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
    'a token that APNs calls expired, as FCM passes it on, is gone',
    refuse(400, 'INVALID_ARGUMENT', { apns: { statusCode: 410, reason: 'ExpiredToken' } }),
    { meaning: 'gone', code: 'INVALID_ARGUMENT' },
  ],
  [
    'with the status 410 also for a word that is new',
    refuse(400, 'INVALID_ARGUMENT', { apns: { statusCode: 410, reason: 'NewWord' } }),
    { meaning: 'gone', code: 'INVALID_ARGUMENT' },
  ],
  [
    'a token that only the message calls disabled at APNs is gone as well',
    refuse(400, 'INVALID_ARGUMENT', { message: 'APNs device token is disabled.' }),
    { meaning: 'gone', code: 'INVALID_ARGUMENT' },
  ],
  [
    'a token of another app, as APNs says, is a bad token',
    refuse(400, 'INVALID_ARGUMENT', { apns: { statusCode: 400, reason: 'DeviceTokenNotForTopic' } }),
    { meaning: 'bad-token', code: 'INVALID_ARGUMENT', suspect: 'configuration' },
  ],
  [
    'an installation id that only the message names is a bad token as well',
    refuse(400, 'INVALID_ARGUMENT', { message: 'The installation ID is not valid' }),
    { meaning: 'bad-token', code: 'INVALID_ARGUMENT', suspect: 'configuration' },
  ],
  [
    'another field is rejected, whatever the message says',
    refuse(400, 'INVALID_ARGUMENT', { message: 'installation id', violations: [{ field: 'a', description: 'b' }] }),
    { meaning: 'rejected', code: 'INVALID_ARGUMENT' },
  ],
  [
    'a payload that APNs refuses is rejected',
    refuse(400, 'INVALID_ARGUMENT', { apns: { statusCode: 400, reason: 'BadCollapseId' } }),
    { meaning: 'rejected', code: 'INVALID_ARGUMENT' },
  ],
  [
    "a quota that Google's front door names as the project's is the project's",
    refuse(429, undefined, { quota: 'project' }),
    { meaning: 'later', code: 'RESOURCE_EXHAUSTED', trouble: 'quota' },
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

test.each(['Unregistered', 'BadDeviceToken'] as const)(
  'a Live Activity whose token APNs refuses with %s is gone, and its own token is the one that is reported',
  async (reason) => {
    const sandbox = await openSandbox({ answers: [{ reason: 'INVALID_ARGUMENT', apns: reason }] });
    const liveActivity = { event: 'update', contentState: {} } as const;
    const device = { platform: 'fcm', token: 'f1:APA91b', liveActivityToken: 'a1b2c3d4' } as const;
    const one = makePush({ devices: [device], pushType: 'liveactivity', alert: undefined, liveActivity });
    expect(await sendPush(await openFcm(sandbox), one)).toMatchObject({ meaning: 'gone' });
    expect(invalidOf(device, 'gone')).toEqual({ token: 'a1b2c3d4', kind: 'liveActivityToken' });
  },
);

test('what FCM says is repeated without the token and the words of the alert', async () => {
  const sandbox = await openSandbox();
  const one = makePush({ platform: 'fcm', data: { note: 'allergic to nuts' } });
  const { token } = one.device;
  const message = `Invalid value at message.data, "allergic to nuts", ${token}, "Field trip forms are due"`;
  sandbox.fcm.script(token, [refuse(400, 'INVALID_ARGUMENT', { message })]);
  const { detail } = await sendPush(await openFcm(sandbox), one);
  expect(detail).toBe('Invalid value at message.data, "[redacted]", [redacted], "[redacted]"');
});

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';
const ANSWER = JSON.stringify({ access_token: 'from-google', expires_in: 3_600, token_type: 'Bearer' });

/** Leads every connection to a server on the loopback, with the name that was asked for. */
class LoopbackAgent extends Agent {
  readonly #port: number;

  constructor(port: number, options: AgentOptions = {}) {
    super({ keepAlive: false, ...options });
    this.#port = port;
  }

  override createConnection(options: object, callback?: (error: Error | null, stream: Duplex) => void) {
    return super.createConnection({ ...options, host: '127.0.0.1', port: this.#port }, callback);
  }
}

/** Google's sign-in on the loopback, which answers to a body; and credentials for a service account. */
async function openGoogle(answerTo: (body: string) => [status: number, body: string]) {
  const asked: { host: string | undefined; body: string }[] = [];
  const certificate = await signCertificate(authority, ['oauth2.googleapis.com'], Date.now());
  const server = createServer(certificate, (request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      asked.push({ host: request.headers.host, body });
      const [status, answer] = answerTo(body);
      response.writeHead(status, { 'content-type': 'application/json' }).end(answer);
    });
  });
  const port = await portOf(server);
  const account = { ...(await serviceAccount()), client_email: 'sender@p.iam.gserviceaccount.com' };
  const open = (agent: AgentOptions, now = Date.now) =>
    createGoogleCredential(account, 'any', now, new LoopbackAgent(port, agent));
  return { account, open, asked };
}

test('a service account asks for the scope of messages alone, with a JWT signed by its key', async () => {
  const { account, open, asked } = await openGoogle(() => [200, ANSWER]);
  const credential = open({ ca: authority.cert });
  expect(await credential.obtain()).toBe('Bearer from-google');
  expect(credential.current()).toBe('Bearer from-google');
  expect(asked.map(({ host }) => host)).toEqual(['oauth2.googleapis.com']);
  const assertion = new URLSearchParams(asked[0]?.body).get('assertion') ?? '';
  expect(decodeJwt(assertion)).toMatchObject({ scope: SCOPE, iss: account.client_email });
});

test('a sign-in that Google refuses shows neither the key nor the assertion', async () => {
  const { open } = await openGoogle((body) => [
    400,
    JSON.stringify({ error: 'invalid_grant', error_description: `Invalid JWT: ${body}` }),
  ]);
  const reply = await open({ ca: authority.cert }).obtain();
  expect(reply).toMatchObject({ code: 'sign-in-refused', unsent: true });
  expect(JSON.stringify(reply)).not.toContain('PRIVATE KEY');
  expect(JSON.stringify(reply)).not.toMatch(/eyJ[\w-]{8}/);
});

test('a sign-in that cannot reach Google says where and why, and when it can', async () => {
  let status = 503;
  const { open } = await openGoogle(() => [status, status === 200 ? ANSWER : '{}']);
  const clock = { ms: Date.now() };
  const now = () => clock.ms;
  const google = { host: 'oauth2.googleapis.com', isSignIn: true };
  const untrusted = 'UNABLE_TO_VERIFY_LEAF_SIGNATURE';
  const stranger = open({}, now);
  expect(await stranger.obtain()).toMatchObject({ code: 'sign-in-unreachable', unsent: true });
  expect(stranger.reach?.()).toMatchObject({ ...google, failure: { cause: untrusted } });
  const credential = open({ ca: authority.cert }, now);
  expect(credential.reach?.()).toBeUndefined();
  expect(await credential.obtain()).toMatchObject({ code: 'sign-in-unreachable' });
  clock.ms += 5_000;
  expect(credential.reach?.()).toMatchObject({ ...google, failure: { cause: 'HTTP 503', forMs: 5_000 } });
  await credential.obtain();
  expect(credential.reach?.()).toMatchObject({ failure: { forMs: 5_000 } }); // since the first one
  status = 200;
  clock.ms += 120_000;
  expect(await credential.obtain()).toBe('Bearer from-google');
  expect(credential.reach?.()).toEqual(google);
}, 60_000);
