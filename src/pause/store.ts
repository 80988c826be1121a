import { readFileSync } from 'node:fs';
import type { Platform } from '../domain/notification.ts';
import { TROUBLES, type Trouble } from '../domain/trouble.ts';
import { createDeadline } from './deadline.ts';
import type { Failure, Opening } from './rules.ts';

/** What the pauses need of ioredis: both `Redis` and `Cluster` have it. */
export interface PauseRedis {
  defineCommand(name: string, definition: { lua: string; numberOfKeys: number }): void;
}

/** A pause as Redis has it; all times are epoch milliseconds by Redis's clock. */
export interface Shared {
  readonly trouble: Trouble;
  readonly code: string;
  readonly since: number;
  /** Every change moves it: it is the version as well. */
  readonly until: number;
  readonly step: number;
  /** Until when a probe is lent out; 0 where none is. */
  readonly leaseUntil: number;
}

/** Redis's answer about one provider, and what its clock said then. */
export interface Reading {
  readonly now: number;
  readonly shared: Shared | undefined;
}

export interface Changed extends Reading {
  /** See pause.lua. */
  readonly verdict: string;
}

/** The pauses in Redis. Every call rejects where Redis does not answer within a second. */
export interface Store {
  read(): Promise<Readonly<Record<Platform, Reading>>>;
  open(platform: Platform, opening: Opening & { readonly step: number; readonly agoMs: number }): Promise<Changed>;
  claim(platform: Platform, id: string, leaseMs: number): Promise<Changed>;
  settle(
    platform: Platform,
    probe: { readonly id: string; readonly version: number },
    failure?: Failure & { readonly step: number },
  ): Promise<Changed>;
  release(platform: Platform, id: string): Promise<Changed>;
}

/** What is asked again four times a second, and stands between a notification and its probe. */
export const TIMEOUT_MS = 1_000;

/** A number, or its text where the client has `stringNumbers`. */
type Numeric = number | string;
type Fields = readonly (string | null)[];
type Call<R> = (...keysAndArgs: (string | number)[]) => Promise<R>;

/** `{pushpacer}`, `apns` → `{pushpacer}:pause:apns` */
export function pauseKey(prefix: string, platform: Platform): string {
  return `${/\{.+?\}/.test(prefix) ? prefix : `{${prefix}}`}:pause:${platform}`;
}

export function createStore(redis: PauseRedis, prefix: string): Store {
  const change = define<[now: Numeric, verdict: string, ...Fields]>(redis, 'pause', 1);
  const readBoth = define<readonly [now: Numeric, apns: Fields, fcm: Fields]>(redis, 'read', 2);
  const deadline = createDeadline(TIMEOUT_MS);
  let clock: { readonly now: number; readonly at: number } | undefined;

  function toReading(told: Numeric, fields: Fields): Reading {
    const now = Number(told);
    clock = { now, at: performance.now() };
    return { now, shared: toShared(fields) };
  }

  /** A command that the client kept until Redis was back must not do then what nobody waits for any more. */
  function doneBy(): number | '' {
    return clock === undefined ? '' : Math.ceil(clock.now + performance.now() - clock.at) + TIMEOUT_MS;
  }

  async function ask(verb: string, platform: Platform, ...args: (string | number)[]): Promise<Changed> {
    const key = pauseKey(prefix, platform);
    const [now, verdict, ...fields] = await deadline.ask(() => change(key, verb, doneBy(), ...args));
    return { ...toReading(now, fields), verdict };
  }

  /** Late, although there was an answer in time: this machine was asleep, and knows Redis's clock now. */
  async function askTwice(...asked: Parameters<typeof ask>): Promise<Changed> {
    const first = await ask(...asked);
    const changed = first.verdict === 'late' ? await ask(...asked) : first;
    if (changed.verdict === 'late') throw new Error('Redis came to it too late');
    return changed;
  }

  return {
    async read() {
      const [now, apns, fcm] = await deadline.ask(() => readBoth(pauseKey(prefix, 'apns'), pauseKey(prefix, 'fcm')));
      return { apns: toReading(now, apns), fcm: toReading(now, fcm) };
    },
    open: (platform, { trouble, code, forMs, mayExtend, step, agoMs }) =>
      askTwice('open', platform, trouble, code, forMs, mayExtend ? 1 : 0, step, agoMs),
    claim: (platform, id, leaseMs) => askTwice('claim', platform, id, leaseMs),
    settle: (platform, { id, version }, failure) =>
      failure === undefined
        ? askTwice('settle', platform, id, version, '', '', 0, 0)
        : askTwice('settle', platform, id, version, failure.trouble, failure.code, failure.forMs, failure.step),
    release: (platform, id) => askTwice('release', platform, id),
  };
}

function define<R>(redis: PauseRedis, script: string, numberOfKeys: number): Call<R> {
  const name = `pushpacer:pauses:${script}`;
  redis.defineCommand(name, { lua: readFileSync(new URL(`${script}.lua`, import.meta.url), 'utf8'), numberOfKeys });
  const call = (redis as unknown as Record<string, Call<R>>)[name];
  if (call === undefined) throw new Error(`the client has no command ${name} after it was defined`);
  return call.bind(redis);
}

function toShared([trouble, code, since, until, step, probe, lease]: Fields): Shared | undefined {
  const known = TROUBLES.find((each) => each === trouble);
  if (known === undefined) return undefined;
  return {
    trouble: known,
    code: code ?? '',
    since: Number(since),
    until: Number(until),
    step: Number(step),
    leaseUntil: probe ? Number(lease) : 0,
  };
}
