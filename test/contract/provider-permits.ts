import { describe, expect, test } from 'vitest';
import type { Permit, Provider } from '../../src/providers/provider.ts';
import { openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import type { ProviderSubject } from './provider-subject.ts';

async function permitOf(provider: Provider): Promise<Permit> {
  const reserved = await provider.reserve();
  if (reserved.kind === 'none') throw new Error(`no permit: ${reserved.reply.code}`);
  return reserved.permit;
}

/** A permit is a stream: it is there when it is needed, and comes back once. */
export function permits({ platform, open }: ProviderSubject): void {
  const oneStream = { apnsMaxStreams: 1, fcmMaxStreams: 1 };
  const oneConnection = { minConnections: 1, maxConnections: 1 };
  const push = () => makePush({ platform });

  describe('permits', () => {
    test('a send with one goes before those that wait for a stream', async () => {
      const sandbox = await openSandbox(oneStream);
      const provider = await open(sandbox, oneConnection);
      const permit = await permitOf(provider);
      const [waiting, first] = [push(), push()];
      const replies = [sendPush(provider, waiting), sendPush(provider, first, { permit })];
      for (const reply of await Promise.all(replies)) expect(reply.meaning).toBe('accepted');
      expect(sandbox.journal.all.map(({ token }) => token)).toEqual([first.device.token, waiting.device.token]);
    });

    test('one that is released makes room, also when it is released twice', async () => {
      const sandbox = await openSandbox(oneStream);
      const provider = await open(sandbox, oneConnection);
      const permit = await permitOf(provider);
      const next = provider.reserve();
      permit.release();
      permit.release();
      const second = await next;
      expect(second.kind).toBe('permit');
      expect(await sendPush(provider, push(), { sendBy: performance.now() + 100 })).toMatchObject({
        code: 'no-stream',
      });
      if (second.kind === 'permit') second.permit.release();
      expect((await sendPush(provider, push())).meaning).toBe('accepted');
    });

    test('one that was used is used up: releasing it does nothing, and a second send waits for its own stream', async () => {
      const sandbox = await openSandbox(oneStream);
      const provider = await open(sandbox, oneConnection);
      sandbox[platform].setDefault({ kind: 'accept', delayMs: 200 });
      const permit = await permitOf(provider);
      const first = sendPush(provider, push(), { permit });
      permit.release();
      const late = sendPush(provider, push(), { permit, sendBy: performance.now() + 50 });
      expect(await late).toMatchObject({ code: 'no-stream', unsent: true });
      expect((await first).meaning).toBe('accepted');
    });

    test('one that outlives its connection is as good as none', async () => {
      const sandbox = await openSandbox();
      const provider = await open(sandbox, oneConnection);
      await sendPush(provider, push());
      const held = [await permitOf(provider), await permitOf(provider), await permitOf(provider)];
      sandbox[platform].dropConnections();
      await expect.poll(() => sandbox[platform].counts.connections).toBe(2);
      for (const permit of held) expect((await sendPush(provider, push(), { permit })).meaning).toBe('accepted');
      expect(sandbox.journal.accepted).toHaveLength(4);
    });

    test('one that is late gives its stream back, and nothing reaches the server', async () => {
      const sandbox = await openSandbox(oneStream);
      const provider = await open(sandbox, oneConnection);
      for (let late = 0; late < 5; late += 1) {
        const permit = await permitOf(provider);
        expect(await sendPush(provider, push(), { permit, sendBy: performance.now() - 1 })).toMatchObject({
          code: 'too-late',
          alerted: 'no',
          unsent: true,
        });
      }
      expect(sandbox[platform].counts.requests).toBe(0);
      expect((await sendPush(provider, push())).meaning).toBe('accepted');
    });

    test('waiting for one ends where no connection can be had', async () => {
      const sandbox = await openSandbox();
      const provider = await open(sandbox);
      await sandbox[platform].down();
      const all = await Promise.all(Array.from({ length: 10 }, async () => provider.reserve()));
      for (const reserved of all) {
        expect(reserved).toMatchObject({ kind: 'none', reply: { code: 'connection-refused', unsent: true } });
      }
    });
  });
}
