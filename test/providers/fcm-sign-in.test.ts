import { generateKeyPairSync } from 'node:crypto';
import { createServer as createHttp } from 'node:http';
import { Agent, createServer, type AgentOptions } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { decodeJwt } from 'jose';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createGoogleCredential } from '../../src/providers/fcm/fcm.ts';
import { signCertificate } from '../../sandbox/loopback/certificates.ts';
import { authority } from './h2-server.ts';

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';
const ANSWER = JSON.stringify({ access_token: 'from-google', expires_in: 3_600, token_type: 'Bearer' });

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

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

test('a service account asks for the scope of messages alone, with a JWT signed by its key', async () => {
  const asked: { host: string | undefined; body: string }[] = [];
  const certificate = await signCertificate(authority, ['oauth2.googleapis.com'], Date.now());
  const server = createServer(certificate, (request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      asked.push({ host: request.headers.host, body });
      response.setHeader('content-type', 'application/json').end(ANSWER);
    });
  });
  const agent = new LoopbackAgent(await listen(server), { ca: authority.cert });
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const account = {
    project_id: 'p',
    client_email: 'sender@p.iam.gserviceaccount.com',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  };
  const credential = createGoogleCredential(account, Date.now, agent);
  expect(await credential.obtain()).toBe('Bearer from-google');
  expect(credential.current()).toBe('Bearer from-google');
  expect(asked).toHaveLength(1);
  expect(asked[0]?.host).toBe('oauth2.googleapis.com');
  const assertion = new URLSearchParams(asked[0]?.body).get('assertion') ?? '';
  expect(decodeJwt(assertion)).toMatchObject({ scope: SCOPE, iss: account.client_email });
});

test('a sign-in that cannot reach Google tells where and why, and when it can', async () => {
  const certificate = await signCertificate(authority, ['oauth2.googleapis.com'], Date.now());
  let status = 503;
  const server = createServer(certificate, (_request, response) => {
    response.statusCode = status;
    response.setHeader('content-type', 'application/json').end(status === 200 ? ANSWER : '{}');
  });
  const port = await listen(server);
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const account = {
    project_id: 'p',
    client_email: 'sender@p.iam.gserviceaccount.com',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  };
  const clock = { ms: Date.now() };
  const open = (agent: Agent) => createGoogleCredential(account, () => clock.ms, agent);
  const reachOf = async (agent: Agent) => {
    const credential = open(agent);
    expect(await credential.obtain()).toMatchObject({ code: 'sign-in-unreachable', unsent: true });
    return credential.reach?.();
  };
  const google = { host: 'oauth2.googleapis.com', isSignIn: true };
  const untrusted = 'UNABLE_TO_VERIFY_LEAF_SIGNATURE';
  expect(await reachOf(new LoopbackAgent(port))).toMatchObject({ ...google, failure: { cause: untrusted } });
  const credential = open(new LoopbackAgent(port, { ca: authority.cert }));
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

test('application default credentials ask for it too, here at a metadata server', async () => {
  const asked: URL[] = [];
  const server = createHttp((request, response) => {
    asked.push(new URL(request.url ?? '', 'http://metadata'));
    response.setHeader('metadata-flavor', 'Google').setHeader('content-type', 'application/json').end(ANSWER);
  });
  const port = await listen(server);
  vi.stubEnv('GCE_METADATA_HOST', `127.0.0.1:${port}`);
  vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', undefined);
  vi.stubEnv('HOME', '/nonexistent');
  vi.stubEnv('METADATA_SERVER_DETECTION', 'assume-present');
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await createGoogleCredential(undefined, Date.now).obtain()).toBe('Bearer from-google');
  const tokens = asked.filter(({ pathname }) => pathname.endsWith('/token'));
  expect(tokens.map(({ searchParams }) => searchParams.get('scopes'))).toEqual([SCOPE]);
});
