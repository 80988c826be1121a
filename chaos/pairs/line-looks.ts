import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { limiterPrefix } from '../../src/limiter/limiter.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { LOCK_MS } from '../faults.ts';
import { excuse, type Excused, type Fault, type LineLook, type PairsFacts } from './facts.ts';
import { BACKGROUND_POLICY, POLICY } from './workload.ts';

// Rule 8, work-conserving: while somebody waits, the first of the line has the earliest instant that the limits allow. The lines are
// read again and again while the run goes on, straight from the keys of the limiters (docs/limiter.md, "Keys").

const LOOK_EVERY_MS = 250;
/** As many as the limits look at, but for the one that is never reached. */
const NEWEST = 20;

/** Looks at all lines until `stop` is called, which answers what was seen. */
export function watchLines(redis: Redis, prefix: string, recipientIds: readonly string[]) {
  const looks: LineLook[] = [];
  const stopped = new AbortController();
  const kinds = ['alert', 'background'] as const;
  async function watch(): Promise<void> {
    while (!stopped.signal.aborted) {
      const all = recipientIds.flatMap((recipientId) => kinds.map((kind) => lookAt(redis, prefix, recipientId, kind)));
      looks.push(...(await Promise.all(all)));
      await sleep(LOOK_EVERY_MS, undefined, { signal: stopped.signal }).catch(() => undefined);
    }
  }
  const watching = watch();
  watching.catch(() => undefined); // `stop` rejects with it
  return {
    async stop(): Promise<readonly LineLook[]> {
      stopped.abort();
      await watching;
      return looks;
    },
  };
}

async function lookAt(redis: Redis, prefix: string, recipientId: string, kind: LineLook['kind']): Promise<LineLook> {
  const keys = recipientKeys(limiterPrefix(kind, prefix), recipientId);
  const replies = await redis
    .multi()
    .time()
    .zrange(keys.reserved, '0', '0', 'WITHSCORES')
    .zrange(keys.sent, String(-NEWEST), '-1', 'WITHSCORES')
    .hmget(keys.settings, 'policy', 'blockedUntil', 'quiet')
    .exec();
  const [time, reserved, sent, settings] = (replies ?? []).map(([error, reply]) => {
    if (error !== null) throw error;
    return reply as (string | null)[];
  });
  const [seconds, micros] = (time ?? []).map(Number);
  const [entry, at] = reserved ?? [];
  const [policy, blockedUntil, quiet] = settings ?? [];
  const isSome = (text: string | null | undefined): text is string => typeof text === 'string';
  return {
    ...{ recipientId, kind, now: (seconds ?? 0) * 1_000 + Math.floor((micros ?? 0) / 1_000) },
    ...(isSome(entry) && { first: { entry, at: Number(at) } }),
    sent: (sent ?? []).filter((_, index) => index % 2 === 1).map(Number),
    ...(isSome(policy) && { limits: limitsIn(policy) }),
    ...(isSome(blockedUntil) && { blockedUntil: Number(blockedUntil) }),
    ...(isSome(quiet) && { isQuiet: true }),
  };
}

/** `[keepMs, toleranceMs, gapMs, max, window, …]`, as a stored policy is written. */
function limitsIn(text: string): [number, number][] {
  const [, , gapMs = 0, ...pairs] = JSON.parse(text) as number[];
  const rules = Array.from({ length: pairs.length / 2 }, (_, index): [number, number] => [
    pairs[2 * index] ?? 0,
    pairs[2 * index + 1] ?? 0,
  ]);
  return [[1, gapMs], ...rules];
}

/** No slot is moved to earlier than this after now (docs/limiter.md). */
const MOVE_LEAD_MS = 1_000;
/** A worker needs so long at most until it has moved a line, on a busy machine. */
const SETTLES_MS = 2_000;
/** A job of a worker that was killed is taken again when its lock has run out and a worker has looked for such jobs. */
const TAKEN_AGAIN_MS = 2 * LOCK_MS;

export function judgeLines({ looks, incidents }: Pick<PairsFacts, 'looks' | 'incidents'>, excused: Excused): Fault[] {
  const lines = Map.groupBy(looks, ({ kind, recipientId }) => `${recipientId}, ${kind}`);
  return [...lines].flatMap(([name, own]) =>
    stretchesOf(own).flatMap(({ from, until, worst }): Fault[] => {
      const isAtFault = incidents.some(({ at, until: ends }) => at <= until && ends + TAKEN_AGAIN_MS >= from);
      if (isAtFault) {
        excuse(excused, 'a line that was late, after a fault');
        return [];
      }
      const id = worst.first?.entry.replace(/(#r\d+)?\/\d+$/, '') ?? '';
      const text = `${name}: for ${until - from} ms the first of the line, ${id}, had a slot ${Math.round(lateMs(worst))} ms later than the limits need`;
      return [{ rule: 8, text, lives: [id] }];
    }),
  );
}

/** The times for which a line was late, longer than it takes to move it. */
function stretchesOf(looks: readonly LineLook[]): { from: number; until: number; worst: LineLook }[] {
  const found: { from: number; until: number; worst: LineLook }[] = [];
  let last: { from: number; until: number; worst: LineLook } | undefined;
  for (const look of looks.toSorted((a, b) => a.now - b.now)) {
    const ms = lateMs(look);
    if (ms <= 0) last = undefined;
    else if (last === undefined) found.push((last = { from: look.now, until: look.now, worst: look }));
    else {
      last.until = look.now;
      if (ms > lateMs(last.worst)) last.worst = look;
    }
  }
  return found.filter(({ from, until }) => until - from > SETTLES_MS);
}

/** By how much the first one is later than the limits need, two gaps apart. */
function lateMs({ kind, now, first, sent, limits, blockedUntil = 0, isQuiet }: LineLook): number {
  if (first === undefined || isQuiet === true) return 0;
  const general = kind === 'alert' ? POLICY : BACKGROUND_POLICY;
  const all = limits ?? [[1, general.minGapMs], ...general.rules.map(({ max, perMs }) => [max, perMs] as const)];
  const gapMs = all[0]?.[1] ?? 0;
  const free = all.map(([max, perMs]) => (sent.at(-max) ?? -Infinity) + perMs);
  return first.at - Math.max(now + MOVE_LEAD_MS, blockedUntil, ...free) - 2 * gapMs;
}
