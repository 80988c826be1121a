import { describe, expect, it } from 'vitest';
import type { Platform } from '../../src/notification/notification.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { openApns, openSandbox } from '../support/providers.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import {
  heldBack,
  lostAfter,
  none,
  occupy,
  openBench,
  openBreaker,
  RECIPIENT,
  takeDown,
  untilHalfOpen,
  type Bench,
  type BenchOptions,
  type Overrides,
  lockOf,
} from './support.ts';

describe('an open breaker', () => {
  it('keeps the notification: neither the limiter nor the provider is asked', async () => {
    const { run, sandbox, limiter, breakers } = await openBench();
    openBreaker(breakers, 'apns', 'auth', 'InvalidProviderToken');
    const { outcome, progress } = await run(makeNotification());
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'InvalidProviderToken' });
    expect(progress).toMatchObject({ tries: 0, asks: 0, heldSince: expect.any(Number) as number });
    // The breaker is open for a minute. Both instants are of two clocks, which a busy machine reads some ms apart.
    expect(progress.dueAt).toBeGreaterThanOrEqual((breakers.current('apns')?.until ?? NaN) - 1_000);
    expect(sandbox.journal.all).toEqual([]);
    expect(await limiter.reset(RECIPIENT)).toBe(false);
  });

  it('after which the limiter gives no answer never makes the slot of the other device seem unused', async () => {
    const bench = await openBench({ breakerMs: 200 });
    const { run, limiter, breakers } = bench;
    openBreaker(breakers, 'apns', 'auth');
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const first = await run(both);
    await untilHalfOpen(bench, 'apns');
    const admit = () => Promise.reject(new LimiterUnavailableError('away'));
    const second = await run(both, first.progress, { limiter: { ...limiter, admit } });
    expect(second.outcome).toMatchObject({ kind: 'deferred', code: 'limiter-unavailable' });
    const third = await run(both, second.progress, { isSlotUnused: second.progress.unsent === true });
    expect(third.outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
    expect((await limiter.inspect(RECIPIENT)).sent).toHaveLength(1);
  });

  it('does not end what expires meanwhile in any other way', async () => {
    const { run, breakers, clock } = await openBench();
    openBreaker(breakers, 'apns', 'outage');
    const notification = makeNotification({ expiresAt: clock.now() + 60_000 });
    const { progress } = await run(notification);
    const later = { now: () => clock.now() + 60_000 };
    expect((await run(notification, progress, later)).outcome).toEqual({ kind: 'expired' });
  });

  it('leaves the first place to another one where the notification waits for a provider that is back sooner', async () => {
    const { run, breakers } = await openBench();
    openBreaker(breakers, 'apns', 'auth');
    const evidence = { recipientId: 'somebody-else', code: 'QUOTA_EXCEEDED' } as const;
    breakers.report({ service: 'fcm', ...evidence, trouble: 'quota', retryAfterMs: 120_000 });
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const first = await run(both, none, { enqueuedAt: 0 });
    const second = await run(makeNotification({ devices: [makeDevice('fcm')] }), none, { enqueuedAt: 0 });
    const until = (platform: 'apns' | 'fcm') => breakers.current(platform)?.until ?? NaN;
    expect(first.progress.dueAt).toBeLessThan(until('fcm'));
    expect((second.progress.dueAt ?? NaN) - until('fcm')).toBeLessThan(1_000); // the first place, and not a second later
  });
});

describe('what was under way when the breaker opened', () => {
  /** The pass of a notification whose answer takes its time, and the breaker that opens meanwhile. */
  async function overtaken(bench: Bench, trouble: 'configuration' | 'outage', answer: object) {
    const { run, sandbox, breakers } = bench;
    const device = makeDevice();
    sandbox.apns.script(device.token, [{ kind: 'refuse', status: 400, ...answer }]);
    const open = () => {
      openBreaker(breakers, 'apns', trouble);
      return Promise.resolve();
    };
    return run(makeNotification({ devices: [device] }), none, { providers: heldBack(bench, 'apns', open) });
  }

  it('keeps the job of a bad token: many of them say that our own configuration is wrong', async () => {
    const bench = await openBench();
    const { outcome, progress } = await overtaken(bench, 'configuration', { reason: 'BadDeviceToken' });
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'BadDeviceToken' });
    expect(progress).toMatchObject({ tries: 0, devices: {} });
    expect((await bench.limiter.inspect(RECIPIENT)).sent).toEqual([]);
  });

  it('ends the job of a bad token in any other trouble', async () => {
    const { outcome } = await overtaken(await openBench(), 'outage', { reason: 'BadDeviceToken' });
    expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'bad-token' });
  });

  it('costs one where it may have alerted, and comes back behind the trial', async () => {
    const { outcome, progress } = await overtaken(await openBench(), 'outage', {
      status: 500,
      reason: 'InternalServerError',
    });
    expect(outcome).toMatchObject({ kind: 'retried', code: 'InternalServerError' });
    expect((outcome as { waitMs: number }).waitMs).toBeGreaterThan(55_000);
    expect(progress.tries).toBe(1);
  });
});

describe('a half open breaker', () => {
  it('lets one notification through, keeps the others, and closes when that one is accepted', async () => {
    const { run, sandbox, breakers, trialEnds } = await openHalf();
    const passes = Array.from({ length: 10 }, (_, n) => run(makeNotification({ recipientId: `teacher-${n}` })));
    const kinds = (await Promise.all(passes)).map(({ outcome }) => outcome.kind);
    expect(kinds.toSorted()).toEqual([...(Array(9).fill('deferred') as string[]), 'delivered']);
    expect(sandbox.journal.all).toHaveLength(1);
    expect(breakers.current('apns')).toBeUndefined();
    expect(trialEnds).toEqual([{ service: 'apns', result: 'success' }]);
  });

  it('takes a provider that cannot be reached for a trial that failed', async () => {
    const bench = await openHalf();
    await takeDown(bench, 'apns');
    expect((await bench.run(makeNotification())).outcome).toMatchObject({ kind: 'deferred' });
    expect(bench.trialEnds).toEqual([{ service: 'apns', result: 'failure' }]);
  });

  it('counts the first answer of a notification to several devices', async () => {
    const { run, sandbox, trialEnds } = await openHalf();
    const devices = [makeDevice(), makeDevice()];
    sandbox.apns.script(devices[1]?.token ?? '', [{ kind: 'accept', delayMs: 200 }]);
    expect((await run(makeNotification({ devices }))).outcome).toEqual({ kind: 'delivered' });
    expect(trialEnds).toEqual([{ service: 'apns', result: 'success' }]);
  });
});

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
    const { run, limiter, sandbox, clock } = await openSlowly();
    const { outcome } = await run(makeNotification({ expiresAt: clock.now() + HANDSHAKE_MS / 4 }));
    expect(outcome).toEqual({ kind: 'expired' });
    expect(await limiter.reset(RECIPIENT)).toBe(false);
    expect(sandbox.journal.all).toEqual([]);
  });
});

describe('streams', () => {
  it('of both providers are never waited for crosswise', async () => {
    const bench = await openBench(ONE_STREAM);
    const { run } = bench;
    const apns = await occupy(bench, 'apns');
    const fcm = await occupy({ parts: { ...bench.parts, providers: apns.providers } }, 'fcm');
    const crosswise: Platform[][] = [
      ['apns', 'fcm'],
      ['fcm', 'apns'],
    ];
    const passes = crosswise.map((platforms, n) => {
      const devices = platforms.map((platform) => makeDevice(platform));
      return run(makeNotification({ recipientId: `b${n}`, devices }), none, { providers: fcm.providers });
    });
    await apns.asked(2); // both wait for the same one
    await fcm.asked(0);
    apns.release();
    fcm.release();
    const ends = await Promise.all(passes);
    expect(ends.map(({ outcome }) => outcome.kind)).toEqual(Array(2).fill('delivered'));
  });
});

/** A breaker that is half open after a moment, so that the next notification is its trial. */
async function openHalf(options: BenchOptions = {}): Promise<Bench> {
  const bench = await openBench({ breakerMs: 200, ...options });
  openBreaker(bench.breakers, 'apns', 'auth');
  await untilHalfOpen(bench, 'apns');
  return bench;
}

const away = () => Promise.reject(new LimiterUnavailableError('away'));
const over = { kind: 'over', at: Date.now() + 60_000, waitMs: 60_000, rule: '1/1m' } as const;
const quotaOf = (take: () => Promise<typeof over>) => new Map([['apns', { take }] as const]);
const refuseToNote = lockOf(() => Promise.reject(new Error('OOM')));
const FREE = { recipientId: 'free' };

it.each<[string, Overrides?, object?]>([
  ['requeued'],
  ['dropped', {}, { onThrottle: 'drop' }],
  ['too long throttled', { maxWaitMs: 1 }],
  ['taken over before the ask', { lock: lostAfter(1) }],
  ['taken over before the send', { lock: lostAfter(2) }, FREE],
  ['stopped', { signal: AbortSignal.abort() }, FREE],
  ['over a quota', { quotas: quotaOf(() => Promise.resolve(over)) }, FREE],
  ['without an answer of the quota', { quotas: quotaOf(away) }, FREE],
  ['not noted under AT_MOST_ONCE', { atMostOnce: true, lock: refuseToNote }, FREE],
  [
    'kept for a limiter that is away',
    {
      limiter: {
        ...{ admit: away, peek: away, moveUp: away, foreseeFirst: away },
        ...{ refundAt: away, release: away, forget: away },
      },
    },
  ],
])(
  'a notification that is %s gives back its stream, and its trial of a half open breaker',
  async (_, overrides, fields) => {
    const { run, breakers, limiter, trialEnds, parts, sandbox } = await openHalf({
      ...ONE_STREAM,
      platforms: ['apns'],
    });
    await limiter.admit({ recipientId: RECIPIENT, id: 'another' }); // blocks the recipient
    await run(makeNotification(fields), none, overrides);
    expect(trialEnds).toEqual([{ service: 'apns', result: 'unused' }]);
    expect(sandbox.journal.all).toEqual([]);
    await waitFor(async () => {
      const next = await breakers.enter('apns', 'next');
      expect(next.kind).toBe('trial');
      if (next.kind === 'trial') breakers.release(next.trial);
    });
    const reserved = parts.providers.get('apns')?.reserve({});
    expect(reserved).toMatchObject({ kind: 'permit' });
    if (reserved !== undefined && 'permit' in reserved) reserved.permit.release();
  },
);

it('ends with the credentials of its stream where they are replaced before it is encoded again', async () => {
  const bench = await openBench();
  const { run, sandbox, parts } = bench;
  await run(makeNotification());
  const renewed = await openApns(await openSandbox());
  const all = [parts.providers.get('apns')];
  const providers = { get: () => all.pop() ?? renewed };
  const silent = makeNotification({ sound: 'default', onThrottle: 'silence' });
  expect((await run(silent, none, { providers })).outcome).toEqual({ kind: 'delivered', silenced: true });
  expect(sandbox.journal.accepted).toHaveLength(2);
});

describe('a provider that hangs', () => {
  it('gets nothing of what waited for a stream when its breaker opened', async () => {
    const bench = await openBench(ONE_STREAM);
    const { run, sandbox, breakers } = bench;
    const { providers, asked, release } = await occupy(bench, 'apns');
    const waiting = run(makeNotification(), none, { providers });
    await asked(1);
    openBreaker(breakers, 'apns', 'outage', 'timeout');
    release();
    expect((await waiting).outcome).toMatchObject({ kind: 'deferred', code: 'timeout' });
    expect(sandbox.journal.all).toEqual([]);
  });

  it('gets nothing either of what waited for a stream of another one when its breaker opened', async () => {
    const bench = await openBench(ONE_STREAM);
    const { run, sandbox, breakers, parts } = bench;
    const { providers, asked, release } = await occupy(bench, 'fcm');
    const both = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
    const waiting = run(both, none, { providers });
    await asked(1);
    openBreaker(breakers, 'apns', 'outage', 'timeout');
    release();
    const { outcome, progress } = await waiting;
    expect(outcome).toMatchObject({ kind: 'deferred', code: 'timeout' });
    expect(progress.devices).toEqual({ 'fcm#1': 'delivered' });
    expect(sandbox.journal.all.map((each) => each.platform)).toEqual(['fcm']);
    const reserved = parts.providers.get('apns')?.reserve({});
    expect(reserved).toMatchObject({ kind: 'permit' });
  });

  it('keeps no place of WORKER_CONCURRENCY for longer than a second from others', async () => {
    const bench = await openBench(ONE_STREAM);
    const { release } = await occupy(bench, 'apns');
    const left: string[] = [];
    const leave = () => {
      left.push('left');
      release();
      return () => void left.push('back');
    };
    const place = { giveWay: () => undefined, leave };
    expect((await bench.run(makeNotification(), none, { place })).outcome).toEqual({ kind: 'delivered' });
    expect(left.slice(0, 2)).toEqual(['left', 'back']);
  });
});
