import { describe, expect, test, onTestFinished } from 'vitest';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { tokenOf } from '../../src/notification/device.ts';
import type { Platform } from '../../src/notification/notification.ts';
import type { Encoded, Permit, Provider } from '../../src/providers/provider.ts';
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

const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

/** Warnings of this process during the test, such as a MaxListenersExceededWarning. */
function watchWarnings(): string[] {
  const warnings: string[] = [];
  const onWarning = (warning: Error): void => void warnings.push(`${warning.name}: ${warning.message}`);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  return warnings;
}

/** Connecting, giving up, closing; and what is left behind: nothing. */
export function endings(platform: Platform): void {
  const open = (sandbox: Sandbox, tuning?: ProviderTuning) => openProvider(platform, sandbox, tuning);
  /** Otherwise only the devices say which servers there are, and the first `reserve` or `send` connects. */
  const connectsAhead = platform !== 'webpush';
  const pushOn = (sandbox: Sandbox) => pushTo(sandbox, { platform });
  const toOf = (sandbox: Sandbox) => ({ origin: sandbox[platform].url });

  /** Opens the connections, and sends nothing. */
  async function connect(provider: Provider, sandbox: Sandbox): Promise<void> {
    await provider.connect();
    if (connectsAhead) return;
    expect(sandbox[platform].counts.connections).toBe(0);
    const reserved = await provider.reserve(toOf(sandbox));
    if (reserved.kind === 'permit') reserved.permit.release();
  }

  describe('connect', () => {
    test('resolves where nobody listens, opens connections later, again when they are lost, and sends nothing', async () => {
      const sandbox = await openSandbox();
      const provider = open(sandbox);
      await sandbox[platform].down();
      await Promise.all([provider.connect(), provider.connect()]);
      await connect(provider, sandbox);
      await sandbox[platform].up();
      await expect.poll(() => sandbox[platform].openConnections).toBe(2);
      expect(sandbox[platform].counts).toEqual({ requests: 0, accepted: 0, connections: 2 });
      sandbox[platform].dropConnections();
      await expect.poll(() => sandbox[platform].counts.connections, { timeout: 15_000 }).toBeGreaterThanOrEqual(4);
      await expect.poll(() => sandbox[platform].openConnections, { timeout: 15_000 }).toBe(2);
      expect(sandbox[platform].counts.requests).toBe(0);
      expect(sandbox.journal.all).toEqual([]);
    });
  });

  describe('abort', () => {
    test('gives up what waits and what is under way, and later sends go through', async () => {
      const sandbox = await openSandbox({ maxStreams: 2 });
      const provider = open(sandbox, { minConnections: 1, maxConnections: 1 });
      expect((await sendPush(provider, pushOn(sandbox))).meaning).toBe('accepted');
      sandbox[platform].setDefault({ kind: 'hang' });
      const all = Promise.all(Array.from({ length: 6 }, () => sendPush(provider, pushOn(sandbox))));
      const reserved = provider.reserve(toOf(sandbox));
      await expect.poll(() => sandbox.journal.all.length).toBe(3);
      provider.abort();
      const replies = await all;
      const given = { meaning: 'later', alerted: 'maybe', ambiguous: true, code: 'aborted' };
      const unsent = { meaning: 'later', alerted: 'no', unsent: true, code: 'cancelled' };
      expect(replies).toEqual([given, given, unsent, unsent, unsent, unsent]);
      expect(await reserved).toEqual({ kind: 'none', reply: unsent });
      sandbox[platform].setDefault(undefined);
      for (let sent = 0; sent < 4; sent += 1)
        expect((await sendPush(provider, pushOn(sandbox))).meaning).toBe('accepted');
      expect(sandbox.journal.all).toHaveLength(3 + 4);
    });

    test('nothing that was given up reaches the server afterwards', async () => {
      const sandbox = await openSandbox();
      const provider = open(sandbox);
      sandbox[platform].slowHandshakes(300);
      const all = Promise.all(Array.from({ length: 50 }, () => sendPush(provider, pushOn(sandbox))));
      provider.abort();
      expect((await all).map(({ code }) => code)).toEqual(Array.from({ length: 50 }, () => 'cancelled'));
      expect((await sendPush(provider, pushOn(sandbox))).meaning).toBe('accepted');
      expect(sandbox.journal.all).toHaveLength(1);
    });
  });

  describe('close', () => {
    test('waits for what is under way and for no permit, takes no more, and may be called again', async () => {
      const sandbox = await openSandbox();
      const provider = open(sandbox);
      sandbox[platform].setDefault({ kind: 'accept', delayMs: 200 });
      const all = Promise.all(Array.from({ length: 5 }, () => sendPush(provider, pushOn(sandbox))));
      await expect.poll(() => sandbox.journal.all.length).toBeGreaterThan(0);
      const unused = await provider.reserve(toOf(sandbox));
      const closing = Promise.all([provider.close(), provider.close()]);
      const closed = { meaning: 'later', alerted: 'no', unsent: true, code: 'closed' };
      expect(await sendPush(provider, pushOn(sandbox))).toEqual(closed);
      for (const { meaning } of await all) expect(meaning).toBe('accepted');
      await closing;
      await provider.close();
      const permit = unused.kind === 'permit' ? unused.permit : undefined;
      expect(permit).toBeDefined();
      expect(await sendPush(provider, pushOn(sandbox), { permit })).toEqual(closed);
      expect(await provider.reserve(toOf(sandbox))).toEqual({ kind: 'none', reply: closed });
      expect(sandbox.journal.all).toHaveLength(5);
      await expect.poll(() => sandbox[platform].openConnections).toBe(0);
    });

    test('during a handshake that is never answered ends at once', async () => {
      const sandbox = await openSandbox();
      const provider = open(sandbox, { connectTimeoutMs: 60_000 });
      sandbox[platform].slowHandshakes(60_000);
      const connected = provider.connect();
      await provider.close();
      await connected;
      expect(await sendPush(provider, pushOn(sandbox))).toMatchObject({ code: 'closed' });
    });
  });

  test.each([
    ['because nobody listens', 'down'],
    ['because connections are reset under them', 'reset'],
    ['because they are answered too late', 'hang'],
  ] as const)('hundreds of sends that fail %s leave nothing behind', async (_name, way) => {
    const warnings = watchWarnings();
    const sandbox = await openSandbox();
    const provider = open(sandbox, { requestTimeoutMs: 300 });
    const server = sandbox[platform];
    await connect(provider, sandbox);
    const before = timers();
    if (way === 'down') await server.down();
    else server.setDefault(way === 'reset' ? { kind: 'reset', delayMs: 1 } : { kind: 'hang' });
    for (let round = 0; round < 3; round += 1) {
      const replies = await Promise.all(Array.from({ length: 100 }, () => sendPush(provider, pushOn(sandbox))));
      for (const { meaning } of replies) expect(meaning).toBe('later');
    }
    await server.up();
    server.setDefault(undefined);
    const later: string[] = [];
    const sendLater = async () => {
      const push = pushOn(sandbox);
      later.push(tokenOf(push.device));
      return (await sendPush(provider, push)).meaning;
    };
    await expect.poll(sendLater, { timeout: 15_000 }).toBe('accepted');
    for (const { token } of sandbox.journal.accepted) expect(later).toContain(token); // none of those that failed
    await expect.poll(timers, { timeout: 15_000 }).toBeLessThanOrEqual(before + 4);
    await provider.close();
    await expect.poll(() => server.openConnections).toBe(0);
    expect(warnings).toEqual([]);
  });
}
