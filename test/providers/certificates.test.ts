import { describe, expect, test } from 'vitest';
import { CERTIFICATE_FAULTS } from '../../sandbox/loopback/certificates.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import { startSendingProcess } from './sending-process.ts';

const open = { apns: openApns, fcm: openFcm } as const;
const TLS_FAILED = { code: 'tls-failed', alerted: 'no', unsent: true, suspect: 'outage' };

describe.each(['apns', 'fcm'] as const)('%s', (platform) => {
  test.each(CERTIFICATE_FAULTS)(
    'a certificate under way that is %s: nothing is sent until it is right',
    async (fault) => {
      const sandbox = await openSandbox();
      const server = sandbox[platform];
      const provider = await open[platform](sandbox);
      const send = () => sendPush(provider, makePush({ platform }));
      await provider.connect();
      expect((await send()).meaning).toBe('accepted');
      await sandbox.spoilCertificate(platform, fault);
      expect((await send()).meaning).toBe('accepted'); // the connection that stands is none the worse
      server.dropConnections();
      await waitFor(async () => expect(await send()).toMatchObject(TLS_FAILED));
      const { requests } = server.counts;
      expect(await send()).toMatchObject(TLS_FAILED);
      expect(server.counts.requests).toBe(requests); // not even headers
      await sandbox.spoilCertificate(platform, undefined);
      await waitFor(async () => expect((await send()).meaning).toBe('accepted'));
    },
  );
});

test('NODE_TLS_REJECT_UNAUTHORIZED=0 does not turn the check off', async () => {
  const sandbox = await openSandbox();
  const sending = await startSendingProcess(sandbox, { NODE_TLS_REJECT_UNAUTHORIZED: '0', WITHOUT_CA: '1' });
  expect(await sending.send()).toMatchObject(TLS_FAILED);
  expect(sandbox.apns.counts).toMatchObject({ requests: 0, accepted: 0 });
  expect(sandbox.apns.counts.connections).toBeGreaterThan(0);
});
