import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, constants } from 'node:http2';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns, verdict, type ApnsClient } from './apns-client.ts';
import { open } from './client.ts';
import { connectFcm, connectFcmHttp2 } from './fcm-client.ts';
import { waitFor } from '../support/wait.ts';

const REFUSED_STREAM = /NGHTTP2_REFUSED_STREAM/;

/** An HTTP/2 client of each provider by the same few words. `before`: the requests that it has sent already. */
const clients = {
  apns: async (sandbox: Sandbox) => {
    const client = await warmApns(sandbox);
    return { session: client.session, send: (token: string) => client.post({ token }), before: 1 };
  },
  fcm: async (sandbox: Sandbox) => {
    const client = await connectFcmHttp2(sandbox);
    return { session: client.session, send: (token: string) => client.send({ token }), before: 0 };
  },
};

describe('streams to APNs', () => {
  it('are limited to one until a token was accepted, then to many', async () => {
    const { client } = await open(connectApns, { maxStreams: 250 });
    expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1);
    expect(verdict(await client.post({ headers: { authorization: null } }))).toMatchObject({ status: 403 });
    expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1);
    expect(verdict(await client.post())).toEqual({ status: 200 });
    await waitFor(() => expect(client.session.remoteSettings.maxConcurrentStreams).toBe(250));
  });

  it('beyond the limit are refused: nothing of them is looked at', async () => {
    const sandbox = await openSandbox();
    // A client that sends before it has seen the server's settings.
    const session = connect(sandbox.apns.url, { ca: await readFile(sandbox.caFile) });
    onTestFinished(() => session.destroy());
    const ends = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const stream = session.request({ ':method': 'POST', ':path': '/3/device/ab' });
        stream.on('error', () => undefined).resume();
        stream.end('{"aps":{}}');
        await new Promise((resolve) => stream.once('close', resolve));
        return stream.rstCode;
      }),
    );
    const { NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants;
    expect(ends.filter((code) => code === NGHTTP2_NO_ERROR)).toHaveLength(1);
    expect(ends.filter((code) => code === NGHTTP2_REFUSED_STREAM)).toHaveLength(4);
    expect(sandbox.apns.counts.requests).toBe(1);
  });
});

describe.each([
  ['apns', 5, '{"reason":"IdleTimeout"}'],
  ['fcm', 3, 'server_shutting_down'],
] as const)('a GOAWAY of %s', (platform, lastStream, reason) => {
  it('says why, finishes what has begun, and refuses what comes later', async () => {
    const sandbox = await openSandbox();
    const { session, send, before } = await clients[platform](sandbox);
    const goodbye = once(session, 'goaway');
    sandbox[platform].setDefault({ kind: 'accept', delayMs: 500 });
    const begun = Promise.all([send('aa'), send('bb')]);
    await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(before + 2));
    if (platform === 'apns') sandbox.apns.goAway('IdleTimeout');
    else sandbox.fcm.goAway();
    await expect(send('cc')).rejects.toThrow(REFUSED_STREAM); // sent before the client can know
    expect((await begun).map(({ status }) => status)).toEqual([200, 200]);
    await waitFor(() => expect(session.destroyed).toBe(true));
    const [code, lastStreamId, data] = (await goodbye) as [number, number, Buffer];
    expect([code, lastStreamId, data.toString()]).toEqual([constants.NGHTTP2_NO_ERROR, lastStream, reason]);
    expect(sandbox.journal.all.slice(before).map(({ token }) => token)).toEqual(['aa', 'bb']);
    expect(sandbox[platform].counts.requests).toBe(before + 2);
  });

  it('comes with every n-th request: each is either answered or refused, and only the answered ones count', async () => {
    const sandbox = await openSandbox();
    const server = sandbox[platform];
    server.goAwayEvery(10);
    let [answered, refused] = [0, 0];
    while (answered < 45) {
      const { send, before } = await clients[platform](sandbox);
      answered += before;
      const ends = await Promise.allSettled(Array.from({ length: 25 }, () => send('dd')));
      for (const end of ends) {
        if (end.status === 'fulfilled') answered += 1;
        else refused += 1;
        if (end.status === 'rejected') expect(String(end.reason)).toMatch(REFUSED_STREAM);
      }
    }
    expect(refused).toBeGreaterThan(0);
    expect(sandbox.journal.accepted).toHaveLength(answered);
    expect(server.counts).toMatchObject({ requests: answered, accepted: answered });
    server.goAwayEvery(undefined);
    const { session, send } = await clients[platform](sandbox);
    const replies = await Promise.all(Array.from({ length: 25 }, () => send('dd')));
    expect(replies.every(({ status }) => status === 200)).toBe(true);
    expect(session.closed).toBe(false);
  });
});

it('a GOAWAY is nothing to HTTP/1.1', async () => {
  const sandbox = await openSandbox();
  const http1 = await connectFcm(sandbox);
  sandbox.fcm.goAwayEvery(10);
  for (let index = 0; index < 20; index += 1) expect(await http1.send({ token: 'dd' })).toMatchObject({ status: 200 });
});

it.each([
  ['apns', 'AB', 'stream', 'NGHTTP2_INTERNAL_ERROR'], // a token of APNs is the same in capitals
  ['apns', 'AB', 'refused-stream', 'NGHTTP2_REFUSED_STREAM'],
] as const)('%s resets for %s a %s alone; the connection goes on', async (platform, token, scope, code) => {
  const sandbox = await openSandbox();
  const { send } = await clients[platform](sandbox);
  sandbox[platform].script(token, [{ kind: 'reset', scope }]);
  await expect(send('ab')).rejects.toThrow(code);
  expect(await send('ab')).toMatchObject({ status: 200 });
  expect(sandbox[platform].counts.connections).toBe(1);
});

/** Begins a TLS connection: resolves when it is secure, rejects with what the client says of the server. */
async function handshake(sandbox: Sandbox, platform: 'apns' | 'fcm', options: ConnectionOptions) {
  const port = Number(new URL(sandbox[platform].url).port);
  const socket = connectTls({ port, host: '127.0.0.1', ALPNProtocols: ['h2'], ...options });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'secureConnect');
  return socket;
}

describe('connections', () => {
  it.each([
    ['apns', 'api.push.apple.com'],
    ['apns', 'localhost'],
    ['fcm', 'fcm.googleapis.com'],
  ] as const)('to %s are good for the name %s', async (platform, servername) => {
    const sandbox = await openSandbox();
    const socket = await handshake(sandbox, platform, { servername, ca: await readFile(sandbox.caFile) });
    expect([socket.authorized, socket.alpnProtocol]).toEqual([true, 'h2']);
  });

  it('need TLS 1.2 or later', async () => {
    const sandbox = await openSandbox();
    const versions = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const refused = handshake(sandbox, 'apns', { rejectUnauthorized: false, ...versions });
    await expect(refused).rejects.toThrow(/protocol version|unsupported protocol/i);
  });
});

/** A client on whose connection a token was accepted already: it may have many streams. */
async function warmApns(sandbox: Sandbox): Promise<ApnsClient> {
  const client = await connectApns(sandbox);
  await client.post();
  await waitFor(() => expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1_000));
  return client;
}
