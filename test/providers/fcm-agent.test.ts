import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import type { TLSSocket } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { parseEndpoint, trustBeside } from '../../src/providers/endpoint.ts';
import { FcmAgent } from '../../src/providers/fcm-agent.ts';
import { createFcmClient } from '../../src/providers/fcm-client.ts';
import { STATIC_CREDENTIAL } from '../../src/providers/fcm-credential.ts';
import { FCM_ACCEPTED } from '../../src/providers/fcm-replies.ts';
import { tryOnce } from '../../src/providers/wire.ts';
import { makeAuthority, signCertificate } from '../../src/sandbox/certificates.ts';
import { fcmOptions, openSandbox } from '../support/providers.ts';
import { waitFor } from '../support/wait.ts';

const MESSAGE = { token: 'a:token', notification: { body: 'Field trip forms are due' } };

/** A client whose connections go to `endpoint`; closed when the test ends. */
function openClient(endpoint: string, ca: string | undefined, credential = STATIC_CREDENTIAL) {
  const target = parseEndpoint(endpoint, 'endpoint');
  const agent = new FcmAgent({ endpoint: target, secureContext: trustBeside(ca), connections: 1 });
  const client = createFcmClient({ projectId: 'pushpacer-sandbox', credential, agent });
  onTestFinished(() => client.close());
  return { agent, client };
}

test('what a server says on a connection that asked for nothing is no answer', async () => {
  const authority = await makeAuthority(Date.now());
  const certificate = await signCertificate(authority, ['fcm.googleapis.com'], Date.now());
  const sockets: TLSSocket[] = [];
  const server = createServer(certificate, (socket) => {
    sockets.push(socket.on('error', () => undefined));
    // Node's own servers do this to connections that stay silent for a minute.
    if (sockets.length === 1) socket.end('HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n');
    else socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"name":"1"}'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { agent, client } = openClient(`https://127.0.0.1:${(server.address() as AddressInfo).port}`, authority.cert);
  await agent.fill();
  await waitFor(() => expect(sockets[0]?.closed).toBe(true));
  expect(await client.send(MESSAGE)).toBe('1');
  expect(sockets).toHaveLength(2);
});

test('a send that was given up during a slow sign-in does not go out after it', async () => {
  const sandbox = await openSandbox();
  const { endpoint, ca } = await fcmOptions(sandbox);
  const signIn = Promise.withResolvers<undefined>();
  const getAccessToken = () => signIn.promise.then(() => STATIC_CREDENTIAL.getAccessToken());
  const { client } = openClient(endpoint, ca, { getAccessToken });
  const send = () => client.send(MESSAGE).then(() => FCM_ACCEPTED);
  expect(await tryOnce(send, { timeoutMs: 50 })).toMatchObject({ code: 'connect-timeout', alerted: 'no' });
  signIn.resolve(undefined);
  expect(await tryOnce(send, { timeoutMs: 5_000 })).toEqual(FCM_ACCEPTED);
  expect(sandbox.journal.all).toHaveLength(1);
});
