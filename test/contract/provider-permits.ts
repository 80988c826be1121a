import { describe, expect, test } from 'vitest';
import { tokenOf } from '../../src/domain/device.ts';
import type { Platform } from '../../src/domain/notification.ts';
import type { Encoded, Permit, Provider } from '../../src/providers/provider.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox, sendPush } from '../support/providers.ts';
import { openProvider, pushTo, type ProviderTuning } from './provider-subject.ts';

type To = Pick<Encoded, 'origin'>;

async function permitOf(provider: Provider, to: To): Promise<Permit> {
  const reserved = await provider.reserve(to);
  if (reserved.kind === 'none') throw new Error(`no permit: ${reserved.reply.code}`);
  return reserved.permit;
}

/** A permit is a stream: it is there when it is needed, and comes back once. */
export function permits(platform: Platform): void {
  const open = (sandbox: Sandbox, tuning?: ProviderTuning) => openProvider(platform, sandbox, tuning);
  const oneStream = { maxStreams: 1 };
  const toOf = (sandbox: Sandbox): To => ({ origin: sandbox[platform].url });
  const oneConnection = { minConnections: 1, maxConnections: 1 };
  const pushOn = (sandbox: Sandbox) => pushTo(sandbox, { platform });

  describe('permits', () => {
    test('a send with one goes before those that wait for a stream', async () => {
      const sandbox = await openSandbox(oneStream);
      const provider = open(sandbox, oneConnection);
      const permit = await permitOf(provider, toOf(sandbox));
      const [waiting, first] = [pushOn(sandbox), pushOn(sandbox)];
      const replies = [sendPush(provider, waiting), sendPush(provider, first, { permit })];
      for (const reply of await Promise.all(replies)) expect(reply.meaning).toBe('accepted');
      expect(sandbox.journal.all.map(({ token }) => token)).toEqual([tokenOf(first.device), tokenOf(waiting.device)]);
    });

    test('one that is released makes room, also when it is released twice', async () => {
      const sandbox = await openSandbox(oneStream);
      const provider = open(sandbox, oneConnection);
      const permit = await permitOf(provider, toOf(sandbox));
      const next = provider.reserve(toOf(sandbox));
      permit.release();
      permit.release();
      const second = await next;
      expect(second.kind).toBe('permit');
      expect(await sendPush(provider, pushOn(sandbox), { sendBy: performance.now() + 100 })).toMatchObject({
        code: 'no-stream',
      });
      if (second.kind === 'permit') second.permit.release();
      expect((await sendPush(provider, pushOn(sandbox))).meaning).toBe('accepted');
    });

    test('one that was used is used up: releasing it does nothing, and a second send waits for its own stream', async () => {
      const sandbox = await openSandbox(oneStream);
      const provider = open(sandbox, oneConnection);
      sandbox[platform].setDefault({ kind: 'accept', delayMs: 200 });
      const permit = await permitOf(provider, toOf(sandbox));
      const first = sendPush(provider, pushOn(sandbox), { permit });
      permit.release();
      const late = sendPush(provider, pushOn(sandbox), { permit, sendBy: performance.now() + 50 });
      expect(await late).toMatchObject({ code: 'no-stream', unsent: true });
      expect((await first).meaning).toBe('accepted');
    });

    test('one that outlives its connection is as good as none', async () => {
      const sandbox = await openSandbox();
      const provider = open(sandbox, oneConnection);
      await sendPush(provider, pushOn(sandbox));
      const permits = [
        await permitOf(provider, toOf(sandbox)),
        await permitOf(provider, toOf(sandbox)),
        await permitOf(provider, toOf(sandbox)),
      ];
      sandbox[platform].dropConnections();
      await expect.poll(() => sandbox[platform].counts.connections).toBe(2);
      for (const permit of permits)
        expect((await sendPush(provider, pushOn(sandbox), { permit })).meaning).toBe('accepted');
      expect(sandbox.journal.accepted).toHaveLength(4);
    });

    test('one that is late gives its stream back, and nothing reaches the server', async () => {
      const sandbox = await openSandbox(oneStream);
      const provider = open(sandbox, oneConnection);
      for (let late = 0; late < 5; late += 1) {
        const permit = await permitOf(provider, toOf(sandbox));
        expect(await sendPush(provider, pushOn(sandbox), { permit, sendBy: performance.now() - 1 })).toMatchObject({
          code: 'too-late',
          alerted: 'no',
          unsent: true,
        });
      }
      expect(sandbox[platform].counts.requests).toBe(0);
      expect((await sendPush(provider, pushOn(sandbox))).meaning).toBe('accepted');
    });

    test('waiting for one ends where no connection can be had', async () => {
      const sandbox = await openSandbox();
      const provider = open(sandbox);
      await sandbox[platform].down();
      const all = await Promise.all(Array.from({ length: 10 }, async () => provider.reserve(toOf(sandbox))));
      for (const reserved of all) {
        expect(reserved).toMatchObject({ kind: 'none', reply: { code: 'connection-refused', unsent: true } });
      }
    });
  });
}
