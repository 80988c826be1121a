import { once } from 'node:events';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { readFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { CERTIFICATE_FAULTS } from '../../sandbox/loopback/certificates.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { waitFor } from '../support/wait.ts';
import { connectApns } from './apns-client.ts';
import { connectFcm } from './fcm-client.ts';

/** Both providers by the same few words: a client on one connection that sends one alert and tells the status. */
const clients = {
  apns: async (sandbox: Sandbox) => {
    const client = await connectApns(sandbox);
    return async () => (await client.post()).status;
  },
  fcm: async (sandbox: Sandbox) => {
    const client = await connectFcm(sandbox);
    return async () => (await client.send({ token: 'ab' })).status;
  },
};
const SERVER_NAMES = { apns: 'api.push.apple.com', fcm: 'fcm.googleapis.com' } as const;

/** What a TLS client that trusts the sandbox's authority says of the certificate: nothing where it is right. */
async function complaint(sandbox: Sandbox, platform: 'apns' | 'fcm'): Promise<string | undefined> {
  const { port, hostname: host } = new URL(sandbox[platform].url);
  const ca = await readFile(sandbox.caFile);
  const socket = connectTls({ host, port: Number(port), ca, servername: SERVER_NAMES[platform] });
  onTestFinished(() => void socket.destroy());
  return new Promise((resolve) => {
    socket.once('secureConnect', () => resolve(undefined));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
}

describe.each(['apns', 'fcm'] as const)('%s', (platform) => {
  it('goes down: connections are cut and new ones refused; and comes up where it was', async () => {
    const sandbox = await openSandbox();
    const server = sandbox[platform];
    const { url } = server;
    const send = await clients[platform](sandbox);
    expect(await send()).toBe(200);
    await server.down();
    await server.down();
    await expect(send()).rejects.toThrow();
    const refused = connect(Number(new URL(url).port), '127.0.0.1');
    expect(await once(refused, 'error')).toMatchObject([{ code: 'ECONNREFUSED' }]);
    await server.up();
    await server.up();
    expect(server.url).toBe(url);
    expect(await (await clients[platform](sandbox))()).toBe(200);
  });

  it('freezes standing connections, both ways and without a close; new ones are served', async () => {
    const sandbox = await openSandbox();
    const server = sandbox[platform];
    const [send, other] = [await clients[platform](sandbox), await clients[platform](sandbox)];
    await Promise.all([send(), other()]);
    server.setDefault({ kind: 'accept', delayMs: 100 });
    const asked = send();
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(3));
    server.freeze(); // before the answer
    const unheard = other();
    const answers: number[] = [];
    void Promise.all([asked, unheard].map(async (answer) => answers.push(await answer)));
    expect(await (await clients[platform](sandbox))()).toBe(200);
    expect(await (await clients[platform](sandbox))()).toBe(200);
    expect(answers).toEqual([]);
    expect(sandbox.journal.all).toHaveLength(5);
    expect(server.openConnections).toBe(4);
    server.thaw();
    await waitFor(() => expect(answers).toEqual([200, 200]));
    expect(sandbox.journal.all).toHaveLength(6);
  });

  it('answers handshakes late where it is asked to', async () => {
    const sandbox = await openSandbox();
    sandbox[platform].slowHandshakes(150);
    const startedAt = performance.now();
    expect(await complaint(sandbox, platform)).toBeUndefined();
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(149);
    sandbox[platform].slowHandshakes(0);
    expect(await (await clients[platform](sandbox))()).toBe(200);
  });

  it('shows certificates that nobody may trust, to new connections only', async () => {
    const sandbox = await openSandbox();
    const send = await clients[platform](sandbox);
    expect(await send()).toBe(200);
    const complaints: (string | undefined)[] = [];
    for (const fault of CERTIFICATE_FAULTS) {
      await sandbox.spoilCertificate(platform, fault);
      complaints.push(await complaint(sandbox, platform));
    }
    expect(complaints).toEqual([
      'CERT_SIGNATURE_FAILURE', // the other authority has the same name
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'CERT_HAS_EXPIRED',
    ]);
    expect(await send()).toBe(200);
    await sandbox.spoilCertificate(platform, undefined);
    expect(await complaint(sandbox, platform)).toBeUndefined();
  });

  it('cuts off so many requests at their headers, and journals none of them', async () => {
    const sandbox = await openSandbox();
    sandbox[platform].cutRequests(2);
    for (let cut = 0; cut < 2; cut += 1) {
      const send = await clients[platform](sandbox);
      await expect(send()).rejects.toThrow();
    }
    expect(await (await clients[platform](sandbox))()).toBe(200);
    expect(sandbox.journal.all).toHaveLength(1);
    expect(sandbox[platform].counts.requests).toBe(3);
  });

  it('closes while it is down, and while connections are frozen', async () => {
    const sandbox = await openSandbox();
    const send = await clients[platform](sandbox);
    await send();
    sandbox[platform].freeze();
    const lost = send().catch(() => 'lost');
    await sandbox[platform].down();
    expect(await lost).toBe('lost');
    await sandbox.close();
  });
});

it('answers with any body in place of its own', async () => {
  const sandbox = await openSandbox();
  const [apns, fcm] = [await connectApns(sandbox), await connectFcm(sandbox)];
  for (const kind of ['accept', 'refuse'] as const) {
    const answer = { kind, status: 502, body: '<html>' } as const;
    sandbox.apns.setDefault(answer);
    sandbox.fcm.setDefault(answer);
    const status = kind === 'accept' ? 200 : 502;
    expect(await apns.post()).toMatchObject({ status, body: '<html>' });
    expect(await fcm.send({ token: 'ab' })).toMatchObject({ status, body: '<html>' });
  }
});
