import type { RequestListener } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { trustBeside, type SendResult } from '../../src/providers/sender/result.ts';
import { createHttp1Sender, createNegotiatedSender } from '../../src/providers/sender/http1-sender.ts';
import type { SendOptions } from '../../src/providers/provider.ts';
import type { Sender, SenderOptions } from '../../src/providers/sender/sender.ts';
import { makeAuthority, signCertificate } from '../../sandbox/loopback/certificates.ts';
import { openServer } from './h2-server.ts';

interface Opened {
  readonly server: Server;
  readonly options: SenderOptions;
  readonly requests: string[];
  readonly connections: () => number;
}

/** A server that speaks only HTTP/1.1. */
async function openHttp1(
  answer: RequestListener = (_request, response) => response.writeHead(201).end(),
): Promise<Opened> {
  const authority = await makeAuthority(Date.now());
  const certificate = await signCertificate(authority, ['127.0.0.1'], Date.now());
  const requests: string[] = [];
  let connections = 0;
  const server = createServer(certificate, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      requests.push(
        `${request.method} ${request.url} ${String(request.headers['ttl'])} ${Buffer.concat(chunks).toString()}`,
      );
      answer(request, response);
    });
  });
  server.on('secureConnection', () => void (connections += 1));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
  const options = { endpoint, secureContext: trustBeside(authority.cert) };
  return { server, options, requests, connections: () => connections };
}

const REQUEST = { headers: { ':method': 'POST', ':path': '/push/a?b=c', ttl: 60 }, body: Buffer.from('words') };

function open(
  make: (options: SenderOptions) => Sender,
  { options }: Opened,
  more: Partial<SenderOptions> = {},
): Sender {
  const sender = make({ ...options, ...more });
  onTestFinished(() => sender.close());
  return sender;
}

const send = (sender: Sender, when?: SendOptions): Promise<SendResult> => sender.send(REQUEST, when);

test('a server without HTTP/2 gets the same request over HTTP/1.1, and over connections that are kept', async () => {
  const at = await openHttp1();
  const sender = open(createNegotiatedSender, at, { minConnections: 1 });
  const first = await send(sender);
  expect(first).toMatchObject({ kind: 'answered', status: 201, body: '' });
  const reserved = await sender.reserve();
  if (!('release' in reserved)) throw new Error(reserved.code);
  expect(await send(sender, { permit: reserved })).toMatchObject({ kind: 'answered' });
  expect(await send(sender)).toMatchObject({ kind: 'answered' });
  expect(at.requests).toEqual(Array.from({ length: 3 }, () => 'POST /push/a?b=c 60 words'));
  expect(at.connections()).toBe(2); // one that only showed that there is no HTTP/2
});

test('a permit that was taken before the server fell back does no harm', async () => {
  const at = await openHttp1();
  const sender = open(createNegotiatedSender, at, { minConnections: 1 });
  const both = await Promise.all([sender.reserve(), sender.reserve()]);
  for (const permit of both) {
    if (!('release' in permit)) throw new Error(permit.code);
    expect(await send(sender, { permit })).toMatchObject({ kind: 'answered' });
  }
});

test('a server with HTTP/2 is sent HTTP/2', async () => {
  const server = await openServer((stream) => {
    stream.respond({ ':status': 201 });
    stream.end();
  });
  const { endpoint, secureContext } = server as unknown as SenderOptions;
  const sender = createNegotiatedSender({ endpoint, secureContext });
  onTestFinished(() => sender.close());
  expect(await send(sender)).toMatchObject({ kind: 'answered', status: 201 });
});

test('requests over the number of connections wait, and those that wait too long are not sent', async () => {
  const at = await openHttp1((_request, response) => void setTimeout(() => response.writeHead(201).end(), 300));
  const sender = open(createHttp1Sender, at, { maxConnections: 1 });
  const all = [send(sender), send(sender), send(sender, { sendBy: performance.now() + 100 })];
  expect(await Promise.all(all)).toMatchObject([{ kind: 'answered' }, { kind: 'answered' }, { code: 'no-stream' }]);
  expect(await send(sender, { sendBy: performance.now() - 1 })).toMatchObject({ kind: 'unsent', code: 'too-late' });
  expect(at.requests).toHaveLength(2);
});

test('no answer, half an answer and a lost connection are unknown; no connection is unsent', async () => {
  const at = await openHttp1((request, response) => {
    if (request.url === '/half') {
      response.writeHead(201, { 'content-length': '9' }).write('half');
      setTimeout(() => request.socket.destroy(), 20);
    }
    if (request.url === '/reset') request.socket.destroy();
  });
  const sender = open(createHttp1Sender, at, { requestTimeoutMs: 200 });
  const to = (path: string) => sender.send({ ...REQUEST, headers: { ...REQUEST.headers, ':path': path } });
  expect(await to('/half')).toMatchObject({ kind: 'unknown', code: 'reset' });
  expect(await to('/reset')).toMatchObject({ kind: 'unknown', code: 'reset' });
  expect(await to('/never')).toMatchObject({ kind: 'unknown', code: 'timeout' });
  expect(at.requests).toHaveLength(3);
  at.server.closeAllConnections();
  await new Promise((resolve) => at.server.close(resolve));
  expect(await to('/gone')).toMatchObject({ kind: 'unsent', code: 'connection-refused' });
});

test('a certificate that nobody trusts gets nothing', async () => {
  const at = await openHttp1();
  const sender = createHttp1Sender({ endpoint: at.options.endpoint });
  onTestFinished(() => sender.close());
  expect(await send(sender)).toMatchObject({ kind: 'unsent', code: 'tls-failed' });
  expect(at.requests).toEqual([]);
});

test('abort gives up what waits and what is under way; close takes no more', async () => {
  const at = await openHttp1(() => undefined);
  const sender = open(createHttp1Sender, at, { maxConnections: 1 });
  const all = [send(sender), send(sender)];
  await expect.poll(() => at.requests.length).toBe(1);
  sender.abort();
  expect(await Promise.all(all)).toMatchObject([{ kind: 'unknown', code: 'aborted' }, { code: 'cancelled' }]);
  await sender.close();
  expect(await send(sender)).toMatchObject({ kind: 'unsent', code: 'closed' });
  expect(at.requests).toHaveLength(1);
});
