import { describe, expect, it } from 'vitest';
import type { Platform } from '../../src/domain/notification.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import { lockOf, lostAfter, none, openBench, RECIPIENT, takeDown, type Bench, type Overrides } from './support.ts';

/** One connection with one stream to each provider: a stream that is not given back stops everything. */
const ONE_STREAM = {
  sandbox: { maxStreams: 1 },
  sender: { minConnections: 1, maxConnections: 1 },
};

describe('where no connection can be had', () => {
  it('no slot is asked for, and no attempt is spent', async () => {
    const bench = await openBench();
    await takeDown(bench, 'apns');
    const { outcome, progress } = await bench.run(makeNotification());
    expect(outcome).toMatchObject({ kind: 'deferred', code: expect.stringMatching(/^connection-/) as string });
    expect(progress).toMatchObject({ tries: 0, unreached: 1, asks: 0 });
    expect(await bench.limiter.reset(RECIPIENT)).toBe(false);
  });

  it('a notification that waited for its slot keeps its place', async () => {
    const bench = await openBench();
    const { run, limiter } = bench;
    await run(makeNotification());
    const second = makeNotification();
    const blocked = await run(second);
    const [reserved] = (await limiter.inspect(RECIPIENT)).reserved;
    await takeDown(bench, 'apns');
    const { outcome, progress } = await run(second, blocked.progress);
    expect(outcome).toMatchObject({ kind: 'deferred', code: expect.stringMatching(/^connection-/) as string });
    expect(progress.asks).toBe(0); // it asks under the same id
    expect((await limiter.inspect(RECIPIENT)).reserved).toEqual([reserved]);
  });

  it('the other provider goes on, and the next ask is under a new id', async () => {
    const bench = await openBench();
    await takeDown(bench, 'fcm');
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const { outcome, progress } = await bench.run(both);
    expect(outcome).toMatchObject({ kind: 'deferred', code: expect.stringMatching(/^connection-/) as string });
    expect(progress).toMatchObject({ tries: 0, asks: 1, devices: { 'apns#0': 'delivered' } });
  });
});

describe('a notification that waits for a connection', () => {
  const HANDSHAKE_MS = 200;

  async function openSlowly(): Promise<Bench> {
    const bench = await openBench({ sender: { minConnections: 1 } });
    bench.sandbox.apns.slowHandshakes(HANDSHAKE_MS);
    bench.sandbox.apns.dropConnections();
    await waitFor(() => expect(bench.sandbox.apns.openConnections).toBe(0));
    // The client has heard of it where it has no stream to give at once.
    await waitFor(() => {
      const reserved = bench.parts.providers.get('apns')?.reserve({});
      if (reserved instanceof Promise) void reserved.then((late) => late.kind === 'permit' && late.permit.release());
      else if (reserved?.kind === 'permit') reserved.permit.release();
      expect(reserved).toBeInstanceOf(Promise);
    });
    return bench;
  }

  it('takes its slot when it has one, and is not late for it', async () => {
    const { run, limiter, sandbox } = await openSlowly();
    const before = (await limiter.inspect(RECIPIENT)).now;
    expect((await run(makeNotification())).outcome).toEqual({ kind: 'delivered' });
    const [slot] = (await limiter.inspect(RECIPIENT)).sent;
    expect(slot?.at).toBeGreaterThan(before + HANDSHAKE_MS / 2);
    expect(sandbox.journal.accepted).toHaveLength(1);
  });

  it('expires where that takes too long, and takes no slot', async () => {
    const { run, limiter, sandbox } = await openSlowly();
    const { outcome } = await run(makeNotification({ expiresAt: Date.now() + HANDSHAKE_MS / 4 }));
    expect(outcome).toEqual({ kind: 'expired' });
    expect(await limiter.reset(RECIPIENT)).toBe(false);
    expect(sandbox.journal.all).toEqual([]);
  });
});

describe('streams', () => {
  it('of both providers are never waited for crosswise', async () => {
    const { run, sandbox } = await openBench(ONE_STREAM);
    const slow = { apns: makeDevice('apns'), fcm: makeDevice('fcm') };
    for (const platform of ['apns', 'fcm'] as const) {
      const delayMs = platform === 'apns' ? 200 : 300;
      sandbox[platform].script(slow[platform].token, [{ kind: 'accept', delayMs }]);
    }
    const passes = [[slow.apns], [slow.fcm]].map((devices, n) =>
      run(makeNotification({ recipientId: `a${n}`, devices })),
    );
    await waitFor(() => expect(sandbox.journal.all).toHaveLength(2));
    const crosswise: Platform[][] = [
      ['apns', 'fcm'],
      ['fcm', 'apns'],
    ];
    for (const [n, platforms] of crosswise.entries()) {
      passes.push(
        run(makeNotification({ recipientId: `b${n}`, devices: platforms.map((platform) => makeDevice(platform)) })),
      );
    }
    const ends = await Promise.all(passes);
    expect(ends.map(({ outcome }) => outcome.kind)).toEqual(Array(4).fill('delivered'));
  }, 5_000);

  const away = () => Promise.reject(new LimiterUnavailableError('away'));
  const over = { kind: 'over', at: Date.now() + 60_000, waitMs: 60_000, rule: '1/1m' } as const;
  const quotaOf = (take: () => Promise<typeof over>) => new Map([['apns', { take }] as const]);
  it.each<[string, Overrides | undefined, object?]>([
    ['requeued', undefined],
    ['dropped', undefined, { onThrottle: 'drop' }],
    ['too long throttled', { maxWaitMs: 1 }],
    ['taken over before the ask', { isSlotUnused: true, lock: lostAfter(1) }],
    ['taken over before the send', { lock: lostAfter(1) }, { recipientId: 'free' }],
    ['stopped', { signal: AbortSignal.abort() }, { recipientId: 'free' }],
    ['over a quota', { quotas: quotaOf(() => Promise.resolve(over)) }, { recipientId: 'free' }],
    ['without an answer of the quota', { quotas: quotaOf(away) }, { recipientId: 'free' }],
    [
      'not noted under AT_MOST_ONCE',
      { atMostOnce: true, lock: lockOf(() => Promise.reject(new Error('OOM'))) },
      { recipientId: 'free' },
    ],
  ])('are given back where the notification is %s', async (_, overrides, fields) => {
    const { run, parts, sandbox } = await openBench({ ...ONE_STREAM, platforms: ['apns'] });
    await run(makeNotification()); // blocks the recipient
    await run(makeNotification(fields), none, overrides).catch(() => undefined);
    expect(sandbox.journal.all).toHaveLength(1);
    const reserved = parts.providers.get('apns')?.reserve({});
    expect(reserved).toMatchObject({ kind: 'permit' });
    if (reserved !== undefined && 'permit' in reserved) reserved.permit.release();
  });

  it('are given back where the limiter does not answer', async () => {
    const { run, parts, limiter } = await openBench({ ...ONE_STREAM, platforms: ['apns'] });
    const result = await run(makeNotification(), none, { limiter: { ...limiter, admit: away } }).catch(() => undefined);
    expect(result?.outcome.kind ?? 'deferred').toBe('deferred');
    expect(parts.providers.get('apns')?.reserve({})).toMatchObject({ kind: 'permit' });
  });
});
