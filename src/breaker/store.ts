import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { Platform } from '../domain/notification.ts';
import { TROUBLES } from '../domain/trouble.ts';
import type { State } from './state.ts';

/** What the breakers need of ioredis: both `Redis` and `Cluster` have it. */
export interface BreakerRedis {
  eval(script: string, numberOfKeys: number, ...keysAndArgs: (string | number)[]): Promise<unknown>;
}

/** A breaker as Redis has it after a call. */
export interface Shared {
  /** `open`, or the id of the trial that is under way; null where the breaker is half open or closed. */
  readonly marker: string | null;
  /** How much longer the marker lives. */
  readonly forMs: number;
  /** The state as text, '' where there is none: what a `put` has to have seen. */
  readonly text: string;
  /** The same, read; undefined where the breaker is closed. */
  readonly state: Omit<State, 'until'> | undefined;
}

/**
 * The breaker of one provider in Redis; what the calls do is in breaker.lua. Each rejects where Redis does not answer within
 * a second, and at once while an earlier call is still unanswered after that: calls do not pile up.
 */
export interface Store {
  read(): Promise<Shared>;
  put(seen: string, state: State, forMs: number): Promise<Shared>;
  claim(trialId: string, forMs: number): Promise<Shared>;
  fail(trialId: string, state: State, forMs: number): Promise<Shared>;
  succeed(trialId: string): Promise<Shared>;
  release(trialId: string): Promise<Shared>;
}

const SCRIPT = readFileSync(new URL('breaker.lua', import.meta.url), 'utf8');
const ANSWER_MS = 1_000;

const STATE = z.object({
  trouble: z.enum(TROUBLES),
  code: z.string(),
  since: z.number(),
  step: z.number(),
  failedId: z.string().nullable(),
  change: z.string(),
});

/** `{pushpacer}`, `apns` → `{pushpacer}:breaker:apns`, `{pushpacer}:breaker:apns:last`. A prefix without a hash tag becomes one. */
export function breakerKeys(prefix: string, platform: Platform): [marker: string, state: string] {
  const marker = `${/\{.+?\}/.test(prefix) ? prefix : `{${prefix}}`}:breaker:${platform}`;
  return [marker, `${marker}:last`];
}

export function createStore(redis: BreakerRedis, prefix: string, platform: Platform): Store {
  const keys = breakerKeys(prefix, platform);
  let overdue = 0;

  async function ask(verb: string, ...args: (string | number)[]): Promise<Shared> {
    if (overdue > 0) throw new Error('Redis does not answer');
    let isOverdue = false;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      isOverdue = true;
      overdue += 1;
      late.reject(new Error(`Redis gave no answer within ${ANSWER_MS} ms`));
    }, ANSWER_MS).unref();
    const answered = redis.eval(SCRIPT, keys.length, ...keys, verb, ...args).finally(() => {
      clearTimeout(timer);
      if (isOverdue) overdue -= 1;
    });
    return toShared(await Promise.race([answered, late.promise]));
  }

  return {
    read: () => ask('read'),
    put: (seen, state, forMs) => ask('put', seen, toText(state), forMs),
    claim: (trialId, forMs) => ask('claim', trialId, forMs),
    fail: (trialId, state, forMs) => ask('fail', trialId, toText(state), forMs),
    succeed: (trialId) => ask('succeed', trialId),
    release: (trialId) => ask('release', trialId),
  };
}

function toText(state: State): string {
  return JSON.stringify({ ...state, until: undefined });
}

function toShared(answer: unknown): Shared {
  const [marker, forMs, text] = answer as [marker: string | null, forMs: number | string, text: string | null];
  return { marker, forMs: Number(forMs), text: text ?? '', state: text === null ? undefined : toState(text) };
}

/** Undefined for what another version wrote and this one does not know. */
function toState(text: string): Shared['state'] {
  try {
    return STATE.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
