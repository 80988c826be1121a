import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { TRANSPORT_REPLIES } from '../../../src/providers/replies.ts';
import { openSandbox } from '../../support/providers.ts';
import { waitFor } from '../../support/wait.ts';
import { startSendingProcess } from '../../providers/sending-process.ts';

const TOO_LATE = { ...TRANSPORT_REPLIES['too-late'], code: 'too-late' };

describe('a process that stands still', () => {
  test(
    'for 12 s, longer than any answer may take, reads the answers that came meanwhile',
    { timeout: 60_000 },
    async () => {
      const sandbox = await openSandbox();
      const sending = await startSendingProcess(sandbox);
      expect((await sending.send()).meaning).toBe('accepted');
      sandbox.apns.setDefault({ kind: 'accept', delayMs: 500 });
      const replies = Array.from({ length: 20 }, () => sending.send());
      await waitFor(() => expect(sandbox.journal.all).toHaveLength(21));
      sending.stop();
      await sleep(12_000);
      sending.resume();
      for (const reply of await Promise.all(replies)) expect(reply.meaning).toBe('accepted');
      expect((await sending.send()).meaning).toBe('accepted');
      expect(sandbox.journal.accepted).toHaveLength(22);
    },
  );

  test('because its event loop is blocked reads them as well, and gives up what was not answered', async () => {
    const sandbox = await openSandbox();
    const sending = await startSendingProcess(sandbox, { REQUEST_TIMEOUT_MS: '500' });
    expect((await sending.send()).meaning).toBe('accepted');
    sandbox.apns.setDefault({ kind: 'accept', delayMs: 200 });
    for (let round = 0; round < 3; round += 1) {
      expect((await sending.send({ blockMs: 1_500 })).meaning).toBe('accepted');
    }
    expect(sandbox.journal.accepted).toHaveLength(4);
    sandbox.apns.setDefault({ kind: 'hang' });
    expect(await sending.send({ blockMs: 1_500 })).toMatchObject({ code: 'timeout', ambiguous: true });
  });

  test('for some milliseconds again and again notices every reset', { timeout: 120_000 }, async () => {
    const sandbox = await openSandbox();
    const sending = await startSendingProcess(sandbox, { REQUEST_TIMEOUT_MS: '4000' });
    sandbox.apns.setDefault({ kind: 'accept', delayMs: 100 });
    const codes: string[] = [];
    const start = performance.now();
    const seen = (code: string): number => codes.filter((each) => each === code).length;
    // A slow machine needs longer to see enough of them.
    const goesOn = (): boolean => {
      const passedMs = performance.now() - start;
      return passedMs < 15_000 || (passedMs < 90_000 && Math.min(seen('200'), seen('reset')) <= 100);
    };
    const sendOn = async (order: Parameters<typeof sending.send>[0]): Promise<void> => {
      while (goesOn()) codes.push((await sending.send(order)).code);
    };
    const dropOn = async (): Promise<void> => {
      while (goesOn()) {
        const before = seen('200');
        await sleep(150);
        // A machine that needs longer for the first answer of a connection would see resets alone.
        while (goesOn() && seen('200') === before) await sleep(10);
        sandbox.apns.dropConnections();
      }
    };
    const loops = Array.from({ length: 20 }, () => sendOn({}));
    await Promise.all([dropOn(), ...loops, sendOn({ blockFirstMs: 15 }), sendOn({ blockFirstMs: 15 })]);
    expect(seen('200')).toBeGreaterThan(100);
    expect(seen('reset')).toBeGreaterThan(100);
    // After a write that fails and one more, before the socket is read again, Node neither reads nor writes any more.
    expect(codes).not.toContain('timeout');
    expect(codes).not.toContain('connect-timeout');
  });

  test('between the slot and the send does not send when it goes on', async () => {
    const sandbox = await openSandbox();
    const sending = await startSendingProcess(sandbox);
    expect((await sending.send()).meaning).toBe('accepted');
    sending.stop();
    const late = sending.send({ sendInMs: 300, since: Date.now() });
    await sleep(600);
    sending.resume();
    expect(await late).toEqual(TOO_LATE);
    expect((await sending.send()).meaning).toBe('accepted');
    expect(sandbox.journal.all).toHaveLength(2);
  });

  test('during the handshake does not send what is too late when it goes on', async () => {
    const sandbox = await openSandbox();
    const sending = await startSendingProcess(sandbox);
    sandbox.apns.slowHandshakes(400);
    const late = sending.send({ sendInMs: 1_000 });
    await waitFor(() => expect(sandbox.apns.openConnections).toBeGreaterThan(0));
    sending.stop();
    await sleep(1_500); // the handshake's answer is there, and the time to send is over
    sending.resume();
    expect(['too-late', 'no-stream']).toContain((await late).code);
    expect((await sending.send()).meaning).toBe('accepted');
    expect(sandbox.journal.all).toHaveLength(1);
  });
});
