import { once } from 'node:events';
import { connect, constants } from 'node:http2';
import { readFile } from 'node:fs/promises';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns, verdict, type ApnsClient } from './apns-client.ts';

const REFUSED_STREAM = /NGHTTP2_REFUSED_STREAM/;

describe('streams', () => {
  it('are limited to one until a token was accepted, then to many', async () => {
    const sandbox = await openSandbox({ maxStreams: 250 });
    const client = await connectApns(sandbox);
    expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1);
    expect(verdict(await client.post({ headers: { authorization: null } }))).toMatchObject({ status: 403 });
    expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1);
    expect(verdict(await client.post())).toEqual({ status: 200 });
    await vi.waitFor(() => expect(client.session.remoteSettings.maxConcurrentStreams).toBe(250));
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

describe('GOAWAY', () => {
  it('tells its reason, finishes what has begun, and refuses what comes later', async () => {
    const sandbox = await openSandbox();
    const client = await warmApns(sandbox);
    sandbox.apns.setDefault({ kind: 'accept', delayMs: 100 });
    const begun = Promise.all([client.post({ token: 'aa' }), client.post({ token: 'bb' })]);
    await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(3));

    const goAways: unknown[][] = [];
    client.session.on('goaway', (...goAway: unknown[]) => goAways.push(goAway));
    sandbox.apns.goAway('IdleTimeout');
    const late = client.post({ token: 'cc' }); // sent before the client can know
    await expect(late).rejects.toThrow(REFUSED_STREAM);
    expect((await begun).map(({ status }) => status)).toEqual([200, 200]);
    await vi.waitFor(() => expect(client.session.destroyed).toBe(true));

    const [code, lastStreamId, data] = goAways[0] ?? [];
    expect({ code, lastStreamId, data: String(data) }).toEqual({
      code: constants.NGHTTP2_NO_ERROR,
      lastStreamId: 5,
      data: '{"reason":"IdleTimeout"}',
    });
    expect(sandbox.journal.all.map(({ token }) => token)).toEqual(['ab01', 'aa', 'bb']);
  });

  it('comes with every n-th request: each is either answered or refused, and only the answered ones count', async () => {
    const sandbox = await openSandbox();
    sandbox.apns.goAwayEvery(10);
    let answered = 0;
    let refused = 0;
    while (answered < 45) {
      const client = await warmApns(sandbox);
      answered += 1;
      const ends = await Promise.allSettled(Array.from({ length: 25 }, () => client.post({ token: 'dd' })));
      for (const end of ends) {
        if (end.status === 'fulfilled') answered += 1;
        else refused += 1;
        if (end.status === 'rejected') expect(String(end.reason)).toMatch(REFUSED_STREAM);
      }
    }
    expect(refused).toBeGreaterThan(0);
    expect(sandbox.journal.accepted).toHaveLength(answered);
    expect(sandbox.apns.counts).toMatchObject({ requests: answered, accepted: answered });
    sandbox.apns.goAwayEvery(undefined);
    const client = await warmApns(sandbox);
    await Promise.all(Array.from({ length: 25 }, () => client.post()));
    expect(client.session.closed).toBe(false);
  });
});

describe('connections', () => {
  it('can all be dropped, what is under way with them', async () => {
    const sandbox = await openSandbox();
    const client = await warmApns(sandbox);
    sandbox.apns.setDefault({ kind: 'hang' });
    const hanging = client.post();
    await vi.waitFor(() => expect(sandbox.journal.all).toHaveLength(2));
    sandbox.apns.dropConnections();
    await expect(hanging).rejects.toThrow('ECONNRESET');
    await vi.waitFor(() => expect(sandbox.apns.openConnections).toBe(0));
    sandbox.apns.setDefault(undefined);
    expect(verdict(await (await connectApns(sandbox)).post())).toEqual({ status: 200 });
    expect(sandbox.apns.counts.connections).toBe(2);
  });

  it('are only taken where the client knows the authority', async () => {
    const sandbox = await openSandbox();
    const session = connect(sandbox.apns.url);
    onTestFinished(() => session.destroy());
    const [error] = (await once(session, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('UNABLE_TO_VERIFY_LEAF_SIGNATURE');
    expect(sandbox.apns.counts).toMatchObject({ requests: 0 });
  });

  it.each(['api.push.apple.com', 'localhost'])('are good for the name %s', async (servername) => {
    const sandbox = await openSandbox();
    const socket = connectTls({
      port: Number(new URL(sandbox.apns.url).port),
      host: '127.0.0.1',
      servername,
      ca: await readFile(sandbox.caFile),
      ALPNProtocols: ['h2'],
    });
    onTestFinished(() => void socket.destroy());
    await once(socket, 'secureConnect');
    expect(socket.authorized).toBe(true);
    expect(socket.alpnProtocol).toBe('h2');
  });

  it('need TLS 1.2 or later', async () => {
    const sandbox = await openSandbox();
    const { port } = new URL(sandbox.apns.url);
    const versions = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const socket = connectTls({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false, ...versions });
    onTestFinished(() => void socket.destroy());
    const [error] = (await once(socket, 'error')) as [Error];
    expect(error.message).toMatch(/protocol version|unsupported protocol/i);
  });
});

/** A client on whose connection a token was accepted already: it may have many streams. */
async function warmApns(sandbox: Sandbox): Promise<ApnsClient> {
  const client = await connectApns(sandbox);
  await client.post();
  await vi.waitFor(() => expect(client.session.remoteSettings.maxConcurrentStreams).toBe(1_000));
  return client;
}
