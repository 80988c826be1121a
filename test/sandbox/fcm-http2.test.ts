import { once } from 'node:events';
import { constants } from 'node:http2';
import { describe, expect, it } from 'vitest';
import type { Answer } from '../../sandbox/loopback/answers.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { waitFor } from '../support/wait.ts';
import { connectFcm, connectFcmHttp2, verdict } from './fcm-client.ts';

const REFUSED_STREAM = /NGHTTP2_REFUSED_STREAM/;
const token = 'ab';

describe('FCM over HTTP/2', () => {
  it('and over HTTP/1.1 on the same port gives the same answers', async () => {
    const sandbox = await openSandbox();
    const clients = [await connectFcmHttp2(sandbox), await connectFcm(sandbox)];
    const busy: Answer = { kind: 'refuse', status: 503, reason: 'UNAVAILABLE', retryAfter: '7' };
    for (const [index, client] of clients.entries()) {
      const accepted = await client.send({ token, notification: { title: 'Room 12' } });
      expect(accepted).toMatchObject({ status: 200, headers: { 'content-type': 'application/json; charset=UTF-8' } });
      expect(JSON.parse(accepted.body)).toEqual({ name: `projects/pushpacer-sandbox/messages/${index * 5 + 1}` });
      sandbox.fcm.script(token, [busy]);
      const refused = await client.send({ token });
      expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '7' } });
      expect(verdict(refused)).toMatchObject({ status: 'UNAVAILABLE', errorCode: 'UNAVAILABLE' });
      expect(verdict(await client.send({ token: 5 }))).toMatchObject({ http: 400, fields: ['message.token'] });
      expect(await client.send({ token }, { authorization: null })).toMatchObject({ status: 401 });
      expect(await client.send({ token }, { path: '/fcm/send' })).toMatchObject({ status: 404 });
    }
    expect(sandbox.fcm.counts).toEqual({ requests: 10, accepted: 2, connections: 2 });
    expect(sandbox.journal.accepted).toMatchObject(Array(2).fill({ platform: 'fcm', token, title: 'Room 12' }));
  });

  it.each([
    [undefined, 100],
    [3, 3],
  ])('has as many streams as %j allows', async (maxStreams, streams) => {
    const sandbox = await openSandbox(maxStreams === undefined ? {} : { maxStreams });
    const client = await connectFcmHttp2(sandbox);
    expect(client.session.remoteSettings.maxConcurrentStreams).toBe(streams);
    sandbox.fcm.setDefault({ kind: 'hang' });
    const sends = Array.from({ length: streams + 1 }, () => client.send({ token }).catch(() => 'no answer'));
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(streams)); // the last one waits for its turn
    sandbox.fcm.dropConnections();
    expect(await Promise.all(sends)).toEqual(Array(streams + 1).fill('no answer'));
    expect(sandbox.fcm.counts).toMatchObject({ requests: streams, connections: 1 });
  });

  it.each([
    ['stream', 'NGHTTP2_INTERNAL_ERROR'],
    ['refused-stream', 'NGHTTP2_REFUSED_STREAM'],
  ] as const)('resets a %s alone; the connection goes on', async (scope, code) => {
    const sandbox = await openSandbox();
    const client = await connectFcmHttp2(sandbox);
    sandbox.fcm.script(token, [{ kind: 'reset', scope }]);
    await expect(client.send({ token })).rejects.toThrow(code);
    expect(await client.send({ token })).toMatchObject({ status: 200 });
    expect(sandbox.fcm.counts.connections).toBe(1);
  });

  it('resets the connection, and cuts requests off with theirs', async () => {
    const sandbox = await openSandbox();
    const client = await connectFcmHttp2(sandbox);
    sandbox.fcm.script(token, [{ kind: 'reset' }]);
    await expect(client.send({ token })).rejects.toThrow('ECONNRESET');
    sandbox.fcm.cutRequests(1);
    await expect((await connectFcmHttp2(sandbox)).send({ token })).rejects.toThrow();
    expect(await (await connectFcmHttp2(sandbox)).send({ token })).toMatchObject({ status: 200 });
    expect(sandbox.journal.all.map(({ reason }) => reason)).toEqual(['reset', undefined]);
  });
});

describe("FCM's GOAWAY", () => {
  it('finishes what has begun, and refuses what comes later', async () => {
    const sandbox = await openSandbox();
    const client = await connectFcmHttp2(sandbox);
    const goodbye = once(client.session, 'goaway');
    sandbox.fcm.setDefault({ kind: 'accept', delayMs: 500 });
    const begun = Promise.all([client.send({ token: 'aa' }), client.send({ token: 'bb' })]);
    await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(2));
    sandbox.fcm.goAway();
    await expect(client.send({ token: 'cc' })).rejects.toThrow(REFUSED_STREAM); // sent before the client can know
    expect((await begun).map(({ status }) => status)).toEqual([200, 200]);
    await waitFor(() => expect(client.session.destroyed).toBe(true));
    const [code, lastStreamId, data] = (await goodbye) as [number, number, Buffer];
    expect([code, lastStreamId, data.toString()]).toEqual([constants.NGHTTP2_NO_ERROR, 3, 'server_shutting_down']);
    expect(sandbox.journal.all.map((entry) => entry.token)).toEqual(['aa', 'bb']);
    expect(sandbox.fcm.counts.requests).toBe(2);
  });

  it('comes with every n-th request: each is answered or refused, and HTTP/1.1 goes on', async () => {
    const sandbox = await openSandbox();
    const http1 = await connectFcm(sandbox);
    sandbox.fcm.goAwayEvery(10);
    let answered = 0;
    let refused = 0;
    while (answered < 45) {
      const client = await connectFcmHttp2(sandbox);
      const ends = await Promise.allSettled(Array.from({ length: 25 }, () => client.send({ token })));
      for (const end of ends) {
        if (end.status === 'fulfilled') answered += 1;
        else refused += 1;
        if (end.status === 'rejected') expect(String(end.reason)).toMatch(REFUSED_STREAM);
      }
    }
    expect(refused).toBeGreaterThan(0);
    expect(sandbox.journal.accepted).toHaveLength(answered);
    for (let index = 0; index < 20; index += 1) expect(await http1.send({ token })).toMatchObject({ status: 200 });
    sandbox.fcm.goAwayEvery(undefined);
    await answersAll(sandbox, 25);
  });
});

async function answersAll(sandbox: Sandbox, count: number): Promise<void> {
  const client = await connectFcmHttp2(sandbox);
  const replies = await Promise.all(Array.from({ length: count }, () => client.send({ token })));
  expect(replies.every(({ status }) => status === 200)).toBe(true);
  expect(client.session.closed).toBe(false);
}
