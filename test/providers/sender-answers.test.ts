import type { RequestListener } from 'node:http';
import { constants, type ServerHttp2Stream } from 'node:http2';
import { createServer as createHttps, type Server } from 'node:https';
import { connect as connectTcp, createServer as createTcp, type Socket } from 'node:net';
import { createServer } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import type { SendOptions } from '../../src/providers/provider.ts';
import { createHttp1Sender, createNegotiatedSender } from '../../src/providers/sender/http1-sender.ts';
import type { SendResult } from '../../src/providers/sender/result.ts';
import type { Sender, SenderOptions } from '../../src/providers/sender/sender.ts';
import { portOf } from '../support/listen.ts';
import {
  accept,
  brief,
  certificate,
  openSender,
  openServer,
  post,
  postMany,
  secureContext,
  tally,
} from './h2-server.ts';

/** What a sender on one connection makes of a server that does this. */
async function resultOf(handle: (stream: ServerHttp2Stream) => void, body?: string) {
  const server = await openServer(handle);
  const sender = openSender(server, { minConnections: 1, maxConnections: 1, requestTimeoutMs: 2_000 });
  const result = await post(sender, '/', {}, body);
  return { result, server, sender };
}

test('an answer is its status, its headers and its body', async () => {
  const { result } = await resultOf((stream) => {
    stream.respond({ ':status': 429, 'retry-after': '7' });
    stream.write('{"reason":');
    setTimeout(() => stream.end('"TooManyRequests"}'), 20);
  });
  expect(result).toMatchObject({ kind: 'answered', status: 429, body: '{"reason":"TooManyRequests"}' });
  expect(result.kind === 'answered' && result.headers['retry-after']).toBe('7');
});

test('informational answers (1xx) before the answer and trailers after it change nothing about it', async () => {
  const { result } = await resultOf((stream) => {
    stream.additionalHeaders({ ':status': 100 });
    stream.additionalHeaders({ ':status': 103, link: '</a>' });
    setTimeout(() => {
      stream.respond({ ':status': 200 }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '14' }));
      stream.end('taken');
    }, 20);
  });
  expect(result).toMatchObject({ kind: 'answered', status: 200, body: 'taken' });
});

test('of a body of megabytes the beginning is kept, and the connection goes on', async () => {
  const { result, server, sender } = await resultOf((stream) => {
    stream.respond({ ':status': 502 });
    stream.end('<p>'.repeat(2 ** 20));
  });
  expect(result).toMatchObject({ kind: 'answered', status: 502 });
  expect(result.kind === 'answered' && result.body.length).toBe(65_536);
  expect(brief(await post(sender))).toBe('answered 502');
  expect(server.connectedAt).toHaveLength(1);
});

test('an answer that comes before the request was read is the answer', async () => {
  const { result } = await resultOf((stream) => {
    stream.respond({ ':status': 413 });
    stream.end('too large');
    stream.close(constants.NGHTTP2_NO_ERROR);
  }, 'x'.repeat(4_096));
  expect(result).toMatchObject({ kind: 'answered', status: 413, body: 'too large' });
});

test.each([
  ['before any answer', (stream: ServerHttp2Stream) => stream.destroy(new Error('broken'))],
  [
    'in the middle of the body',
    (stream: ServerHttp2Stream) => {
      stream.respond({ ':status': 404 });
      stream.write('{"error":');
      setTimeout(() => stream.destroy(new Error('broken')), 20);
    },
  ],
])('the stream is reset %s: nobody knows, and half an answer is none', async (_name, handle) => {
  const { result, server, sender } = await resultOf(handle);
  expect(brief(result)).toBe('unknown reset');
  await post(sender);
  expect(server.connectedAt).toHaveLength(1);
});

test.each(['destroy', 'end', 'resetAndDestroy'] as const)(
  'the connection is lost in the middle of the body (%s): half an answer is none',
  async (way) => {
    const server = await openServer((stream) => {
      stream.respond({ ':status': 404 });
      stream.write('{"error":');
      setTimeout(() => {
        for (const socket of server.sockets) socket[way]();
      }, 20);
    });
    expect(brief(await post(openSender(server, { requestTimeoutMs: 5_000 })))).toBe('unknown reset');
  },
);

test('a server that refuses a stream unseen gets it again on another one, a few times and no more', async () => {
  let refusals = 2;
  const refuse = (stream: ServerHttp2Stream): void => {
    if (refusals-- > 0) stream.close(constants.NGHTTP2_REFUSED_STREAM);
    else accept(stream);
  };
  const { result, server, sender } = await resultOf(refuse);
  expect(brief(result)).toBe('answered 200');
  expect(server.paths).toHaveLength(3);
  refusals = Infinity;
  expect(brief(await post(sender))).toBe('unsent refused-stream');
  expect(server.paths).toHaveLength(3 + 4);
  const permit = await sender.reserve();
  expect(brief(await post(sender, '/', 'release' in permit ? { permit } : {}))).toBe('unsent refused-stream');
  expect(server.paths).toHaveLength(3 + 4 + 4);
});

test('a send right after a connection was lost under another one does not go to that one', async () => {
  let isLost = false;
  const server = await openServer((stream, headers) => {
    if (headers[':path'] !== '/lost') accept(stream);
    else for (const socket of server.sockets) socket[isLost ? 'destroy' : 'resetAndDestroy']();
  });
  const sender = openSender(server, { minConnections: 1, maxConnections: 1 });
  for (let round = 0; round < 20; round += 1) {
    isLost = round % 2 === 0;
    await post(sender);
    expect(brief(await post(sender, '/lost'))).toBe('unknown reset');
    expect(tally(await postMany(sender, 5))).toEqual({ 'answered 200': 5 });
  }
  expect(server.paths).toHaveLength(20 * 7);
});

/** Says these frames once the client has sent its request, after SETTINGS. */
async function openFrames(...frames: readonly string[]) {
  const requests = { count: 0 };
  const server = createServer({ ...certificate, ALPNProtocols: ['h2'] }, (socket) => {
    socket.on('error', () => undefined);
    socket.write(Buffer.from(SETTINGS, 'hex'));
    socket.once('data', () => {
      setTimeout(() => {
        requests.count += 1;
        for (const frame of frames) socket.write(Buffer.from(frame, 'hex'));
      }, 50);
    });
  });
  const endpoint = { host: '127.0.0.1', port: await portOf(server) };
  return { requests, sender: openSender({ endpoint, secureContext }, { minConnections: 1, requestTimeoutMs: 2_000 }) };
}

/** Frames: length, type, flags, stream, content (RFC 9113, section 4.1). */
const SETTINGS = '000000040000000000';
const STATUS_200 = '00000101040000000188';
const REFUSED_STREAM = '00000403000000000100000007';

test('a server that answers and then calls the stream refused is not sent it again', async () => {
  const { requests, sender } = await openFrames(STATUS_200, REFUSED_STREAM);
  expect(brief(await post(sender))).toBe('unknown reset');
  expect(requests.count).toBe(1);
});

test('what is no HTTP/2 after the handshake ends the connection, and nobody knows of what was under way', async () => {
  const { sender } = await openFrames('78'.repeat(1_000));
  expect(brief(await post(sender))).toBe('unknown reset');
});

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
  const requests: string[] = [];
  let connections = 0;
  const server = createHttps(certificate, (request, response) => {
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
  const endpoint = { host: '127.0.0.1', port: await portOf(server) };
  onTestFinished(() => server.closeAllConnections());
  const options = { endpoint, secureContext };
  return { server, options, requests, connections: () => connections };
}

const REQUEST = { headers: { ':method': 'POST', ':path': '/push/a?b=c', ttl: 60 }, body: Buffer.from('words') };

function openSenderTo(
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
  const sender = openSenderTo(createNegotiatedSender, at, { minConnections: 1 });
  const permit = await sender.reserve();
  if (!('release' in permit)) throw new Error(permit.code);
  expect(await send(sender, { permit })).toMatchObject({ kind: 'answered', status: 201, body: '' });
  expect(await send(sender)).toMatchObject({ kind: 'answered' });
  expect(await send(sender)).toMatchObject({ kind: 'answered' });
  expect(at.requests).toEqual(Array.from({ length: 3 }, () => 'POST /push/a?b=c 60 words'));
  expect(at.connections()).toBe(2); // one that only showed that there is no HTTP/2
});

test('requests over the number of connections wait, and those that wait too long are not sent', async () => {
  const at = await openHttp1((_request, response) => void setTimeout(() => response.writeHead(201).end(), 300));
  const sender = openSenderTo(createHttp1Sender, at, { maxConnections: 1 });
  const all = [send(sender), send(sender), send(sender, { sendBy: performance.now() + 100 })];
  expect(await Promise.all(all)).toMatchObject([{ kind: 'answered' }, { kind: 'answered' }, { code: 'no-stream' }]);
  expect(await send(sender, { sendBy: performance.now() - 1 })).toMatchObject({ kind: 'unsent', code: 'too-late' });
  expect(at.requests).toHaveLength(2);
});

test('a permit is an open connection, so what must be sent soon is sent, however far the server is', async () => {
  const at = await openHttp1();
  const { port } = at.options.endpoint;
  const far = createTcp((client) => {
    const server = connectTcp(port, '127.0.0.1');
    const later = (to: Socket) => (chunk: Buffer) => void setTimeout(() => to.write(chunk), 250);
    client.on('data', later(server)).on('error', () => undefined);
    server.on('data', later(client)).on('error', () => undefined);
    client.on('close', () => server.destroy());
    onTestFinished(() => void client.destroy());
  });
  const options = { ...at.options, endpoint: { host: '127.0.0.1', port: await portOf(far) } };
  const sender = openSenderTo(createNegotiatedSender, { ...at, options }, { minConnections: 1 });
  for (let times = 0; times < 3; times++) {
    const permits = await Promise.all([sender.reserve(), sender.reserve()]);
    const sendBy = performance.now() + 450; // less than any handshake takes here
    const sends = permits.map(async (permit) => ('release' in permit ? send(sender, { permit, sendBy }) : permit));
    expect(await Promise.all(sends)).toMatchObject([{ kind: 'answered' }, { kind: 'answered' }]);
  }
  expect(at.connections()).toBeLessThanOrEqual(3); // with the one that only showed that there is no HTTP/2
});

test('no answer, half an answer and a lost connection are unknown; no connection is unsent', async () => {
  const at = await openHttp1((request, response) => {
    if (request.url === '/half') {
      response.writeHead(201, { 'content-length': '9' }).write('half');
      setTimeout(() => request.socket.destroy(), 20);
    }
    if (request.url === '/reset') request.socket.destroy();
  });
  const sender = openSenderTo(createHttp1Sender, at, { requestTimeoutMs: 60_000 });
  const hasty = openSenderTo(createHttp1Sender, at, { requestTimeoutMs: 200 });
  const to = (path: string, by = sender) => by.send({ ...REQUEST, headers: { ...REQUEST.headers, ':path': path } });
  expect(await to('/half')).toMatchObject({ kind: 'unknown', code: 'reset' });
  expect(await to('/reset')).toMatchObject({ kind: 'unknown', code: 'reset' });
  expect(await to('/never', hasty)).toMatchObject({ kind: 'unknown', code: 'timeout' });
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
  const sender = openSenderTo(createHttp1Sender, at, { maxConnections: 1 });
  const all = [send(sender), send(sender)];
  await expect.poll(() => at.requests.length).toBe(1);
  sender.abort();
  expect(await Promise.all(all)).toMatchObject([{ kind: 'unknown', code: 'aborted' }, { code: 'cancelled' }]);
  await sender.close();
  expect(await send(sender)).toMatchObject({ kind: 'unsent', code: 'closed' });
  expect(at.requests).toHaveLength(1);
});
