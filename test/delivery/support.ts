import { expect, onTestFinished } from 'vitest';
import type { Breakers, TrialEnd } from '../../src/breaker/breaker.ts';
import { createBreakers } from '../../src/breaker/redis-breakers.ts';
import { createContext, type Context } from '../../src/delivery/context.ts';
import type { DeliverParts, ReplyEvent } from '../../src/delivery/parts.ts';
import { readProgress, type Progress } from '../../src/delivery/progress.ts';
import { deliver } from '../../src/delivery/deliver.ts';
import { createMoveUps } from '../../src/delivery/lines.ts';
import { createTurns } from '../../src/delivery/slot.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { PLATFORMS, type Platform } from '../../src/notification/notification.ts';
import type { Result, Trouble } from '../../src/notification/outcome.ts';
import type { WaitingLimiter } from '../../src/limiter/limiter.ts';
import { createEndLook } from '../../src/limiter/redis/canceller.ts';
import { createWaitingLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import type { Provider } from '../../src/providers/provider.ts';
import type { SenderOptions } from '../../src/providers/sender/sender.ts';
import type { JobLock } from '../../src/queue/job-lock.ts';
import type { Due } from '../../src/queue/redelay.ts';
import { createOtherWorkers } from '../../src/queue/workers.ts';
import { PRIORITY } from '../../src/queue/names.ts';
import type { Place } from '../../src/queue/notification-worker.ts';
import type { Sandbox, SandboxOptions } from '../../sandbox/sandbox.ts';
import { openApns, openFcm, openSandbox } from '../support/providers.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { useTimerClock, type TimerClock } from '../support/timer-clock.ts';
import { waitFor } from '../support/wait.ts';

export type Overrides = Partial<DeliverParts & Context>;

/** How a pass ended, and what the job is to remember. */
export interface Passed {
  readonly outcome: Result;
  readonly progress: Progress;
}

export interface Bench {
  /** What the slots and the instants of sends are read from: this process and the limiters have the same time. */
  readonly clock: TimerClock;
  readonly sandbox: Sandbox;
  readonly limiter: WaitingLimiter;
  readonly backgroundLimiter: WaitingLimiter;
  readonly liveActivityLimiter: WaitingLimiter;
  readonly breakers: Breakers;
  readonly trialEnds: TrialEnd[];
  readonly replies: readonly ReplyEvent[];
  /** Jobs whose slots have moved. */
  readonly redelayed: readonly Due[];
  readonly parts: DeliverParts;
  /** One pass of a job through the pipeline, on real parts. */
  readonly run: (data: unknown, progress?: Progress, overrides?: Overrides) => Promise<Passed>;
}

export interface BenchOptions {
  readonly platforms?: readonly Platform[];
  readonly sandbox?: SandboxOptions;
  /** Connections and streams, for both providers. */
  readonly sender?: Pick<SenderOptions, 'minConnections' | 'maxConnections'>;
  /** How long a breaker stays open. Default: a minute, which is longer than any test. */
  readonly breakerMs?: number;
}

/** One alert a second, so that the second of two is blocked for long enough to be seen. */
export const POLICY: Policy = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 1_000 };
/** Two background pushes an hour. */
const BACKGROUND_POLICY: Policy = { rules: [{ max: 2, perMs: 3_600_000 }], minGapMs: 0 };
/** One push to Live Activities in 2 s. */
const LIVE_ACTIVITY_POLICY: Policy = { rules: [{ max: 1, perMs: 2_000 }], minGapMs: 0 };
/** Redis may take its time, and forgets no slot by its own clock while the test's clock stands still. */
const UNHURRIED = { timeoutMs: 60_000, keepMs: 3_600_000 };
/** The recipient of `makeNotification`, unless it names another one. */
export const RECIPIENT = 'teacher-42';
/** What a job remembers that is new. */
export const none = readProgress(0);

/** The place of a pass that no other job waits for. */
export const place: Place = { leave: () => () => undefined, giveWay: () => undefined };

/** The lock on a job that no other worker wants; what is saved goes to `save`. */
export function lockOf(save: JobLock['save'] = () => Promise.resolve(true)): JobLock {
  const putBack = () => Promise.resolve();
  return { lockMs: 30_000, until: Infinity, isValid: () => Promise.resolve(true), save, putBack };
}

/** A lock that is lost after it was looked at so many times. */
export function lostAfter(looks: number): JobLock {
  let looked = 0;
  return { ...lockOf(), isValid: () => Promise.resolve((looked += 1) <= looks) };
}

/** The pipeline over a real limiter and real breakers on Redis, and real clients at loopback providers that answer at once. */
export async function openBench(options: BenchOptions = {}): Promise<Bench> {
  const { platforms = ['apns', 'fcm'], breakerMs = 60_000, sender = {} } = options;
  const clock = useTimerClock();
  enqueued.clear();
  const sandbox = await openSandbox(options.sandbox);
  const redis = connectRedis();
  const prefix = testPrefix();
  const limiterOf = (policy: Policy, ownPrefix = testPrefix()) =>
    createWaitingLimiter({ redis: onClock(redis, clock.now), policy, prefix: ownPrefix, ...UNHURRIED });
  const limiter = limiterOf(POLICY, prefix);
  const look = createEndLook({ redis, prefix, timeoutMs: 60_000 });
  const backgroundLimiter = limiterOf(BACKGROUND_POLICY);
  const liveActivityLimiter = limiterOf(LIVE_ACTIVITY_POLICY);
  const providers = new Map<Platform, Provider>();
  if (platforms.includes('apns')) providers.set('apns', await openApns(sandbox, sender));
  if (platforms.includes('fcm')) providers.set('fcm', await openFcm(sandbox, sender));
  await Promise.all([...providers.values()].map((provider) => provider.connect()));
  const trialEnds: TrialEnd[] = [];
  const breakers = createBreakers({
    redis,
    prefix: testPrefix(),
    baseMs: breakerMs,
    maxMs: 4 * breakerMs,
    onChange: () => undefined,
    onTrial: (end) => void trialEnds.push(end),
  });
  onTestFinished(() => breakers.close());
  const replies: ReplyEvent[] = [];
  const redelayed: Due[] = [];
  const parts: DeliverParts = {
    limiter,
    apart: { background: backgroundLimiter, liveactivity: liveActivityLimiter },
    overallGapMs: POLICY.minGapMs,
    toleranceMs: 900,
    endOf: look,
    redelay: (_, due) => {
      for (const { move, ...one } of due) if (move !== 'begins') redelayed.push(one);
      return Promise.resolve();
    },
    providers,
    others: createOtherWorkers(redis, prefix),
    credentialsWaitMs: 60_000,
    breakers,
    turns: createTurns(),
    moveUps: createMoveUps(),
    isHighFirst: true,
    atMostOnce: false,
    quotas: new Map(),
    maxWaitMs: 3_600_000,
    retry: { attempts: 3, backoffBaseMs: 1_000, backoffMaxMs: 60_000 },
    now: clock.now,
    random: () => 0,
    onReply: (event) => void replies.push(event),
  };
  const run = async (data: unknown, progress = none, overrides: Overrides = {}): Promise<Passed> => {
    const context = { ...contextOf(data, progress), ...overrides };
    const outcome = await deliver(context, { ...parts, ...overrides });
    return { outcome, progress: context.progress };
  };
  const limiters = { limiter, backgroundLimiter, liveActivityLimiter };
  return { clock, sandbox, ...limiters, breakers, trialEnds, replies, redelayed, parts, run };
}

const enqueued = new Map<string, number>();

/** By the clock of the bench. Tests that open no bench have the real time. */
const nowMs = (): number => Math.floor(performance.timeOrigin + performance.now());

/** When a notification was enqueued: before its first pass, and after those whose first pass came earlier. */
export function enqueuedAtOf(id: string): number {
  const at = enqueued.get(id) ?? Math.max(nowMs(), ...enqueued.values()) + 1;
  enqueued.set(id, at);
  return at;
}

/** The context at the beginning of a pass. */
export function contextOf(data: unknown, progress: Progress = none, priority: number = PRIORITY.normal): Context {
  const id = (data as { id?: string }).id ?? 'job-1';
  const attemptsStarted = progress === none ? 1 : 2;
  const job = {
    id,
    data,
    progress,
    timestamp: enqueuedAtOf(id),
    stalledCounter: 0,
    attemptsStarted,
    opts: {},
    priority,
  };
  return createContext(job, lockOf(), new AbortController().signal, place, nowMs());
}

/** Opens a breaker as an answer to somebody else would. */
export function openBreaker(
  breakers: Breakers,
  platform: Platform,
  trouble: Trouble,
  code = 'reported by a test',
): void {
  breakers.report({ service: platform, recipientId: 'somebody-else', code, trouble });
}

/** Every provider has just answered somebody else well, so a 503 of it is about one device. */
export function answerWell(breakers: Breakers): void {
  for (const service of PLATFORMS) breakers.report({ service, recipientId: 'somebody-else', code: 'accepted' });
}

/** Waits until the breaker is half open, which a trial shows; that trial is given back, and not counted. */
export async function untilHalfOpen({ breakers, trialEnds }: Bench, platform: Platform): Promise<void> {
  await waitFor(async () => {
    const entry = await breakers.enter(platform, 'another');
    if (entry.kind !== 'trial') throw new Error(`expected the breaker of ${platform} to be half open`);
    breakers.release(entry.trial);
  });
  trialEnds.length = 0;
}

function providerOf(providers: DeliverParts['providers'], platform: Platform): Provider {
  const provider = providers.get(platform);
  if (provider === undefined) throw new Error(`expected a provider for ${platform}`);
  return provider;
}

/** The providers. One of them hands on each reply only after `until`. */
export function heldBack(
  { parts: { providers } }: Pick<Bench, 'parts'>,
  platform: Platform,
  until: () => Promise<unknown>,
): DeliverParts['providers'] {
  const real = providerOf(providers, platform);
  const late: Provider = {
    ...real,
    send: async (...sent) => {
      const reply = await real.send(...sent);
      await until();
      return reply;
    },
  };
  return { get: (account) => (account === platform ? late : providers.get(account)) };
}

/** Takes the only stream of a provider until `release`. `asked` resolves when so many passes with these providers asked for one. */
export async function occupy({ parts: { providers } }: Pick<Bench, 'parts'>, platform: Platform) {
  const real = providerOf(providers, platform);
  const reserved = await real.reserve({});
  if (reserved.kind !== 'permit') throw new Error(`expected a stream to ${platform}`);
  let asks = 0;
  const watched: Provider = {
    ...real,
    reserve: (encoded) => {
      asks += 1;
      return real.reserve(encoded);
    },
  };
  const watching: DeliverParts['providers'] = {
    get: (account) => (account === platform ? watched : providers.get(account)),
  };
  const asked = (count: number) => waitFor(() => expect(asks).toBe(count));
  return { providers: watching, asked, release: () => reserved.permit.release() };
}

/** Takes a provider away, and waits until its client knows. */
export async function takeDown(bench: Bench, platform: Platform): Promise<void> {
  await bench.sandbox[platform].down();
  await waitFor(async () => expect(await hasStream(bench, platform)).toBe(false));
}

/** Brings it back, and waits until its client knows: a try that began before may still fail. */
export async function bringUp(bench: Bench, platform: Platform): Promise<void> {
  await bench.sandbox[platform].up();
  await waitFor(async () => expect(await hasStream(bench, platform)).toBe(true));
}

async function hasStream({ parts: { providers } }: Bench, platform: Platform): Promise<boolean> {
  const reserved = await providerOf(providers, platform).reserve({});
  if (reserved.kind !== 'permit') return false;
  reserved.permit.release();
  return true;
}
