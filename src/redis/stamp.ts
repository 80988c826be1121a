import { defineScript, readScript, type ScriptRedis } from './scripts.ts';

/** A stamp is a key of this project in a Redis, by which a process notices that data was lost there. */

/**
 * What Redis has lost.
 * - `emptied`: all keys. They were deleted (`FLUSHALL`), Redis came back without its data, or another Redis is in its place.
 * - `older`: Redis came back with an older state, so that its latest data is missing.
 * - `evicted`: Redis removed keys because it was full, as its `maxmemory-policy` allows.
 *
 * Instants are epoch milliseconds on Redis's clock.
 */
export type Loss =
  | { readonly kind: 'emptied'; readonly at: number; readonly server: Server }
  | { readonly kind: 'older'; readonly at: number; readonly server: Server; readonly from: number; readonly to: number }
  | {
      readonly kind: 'evicted';
      readonly at: number;
      readonly server: Server;
      readonly evicted: number;
      readonly since: number;
    };

/** A Redis server. */
interface Server {
  /** New with each start of the server. Empty if the server does not say it. */
  readonly runId: string;
  /** Whether the last look was at the same server, and the server has not been started again since. */
  readonly isSame: boolean;
}

/** What a look has found. */
export interface StampLook {
  /** What is new since the last look. */
  readonly losses: readonly Loss[];
  readonly runId: string;
  /** `maxmemory-policy`; undefined if the server does not say it. */
  readonly policy: string | undefined;
}

/**
 * A state that is older by at most this many looks is not reported: a failover, or the crash of a machine under
 * `appendfsync everysec`, loses as much. Even if less than a second is lost, two looks may be missing.
 */
const TOLERATED_LOOKS = 2;

/** What the last look at each stamp has seen. It outlives the connection: a Redis that is emptied between two is no new one. */
export type SeenStamps = Map<string, { id: string; at: string; runId: string; evicted: string }>;

const NOTHING = { id: '', at: '0', runId: '', evicted: '0' };

/**
 * @param everyMs the time between two looks; each look is one call of a script
 * @param seen where the last look is kept, and under which name
 */
export function createStamp(
  redis: ScriptRedis,
  key: string,
  everyMs: number,
  seen: { readonly in: SeenStamps; readonly as: string } = { in: new Map(), as: key },
): () => Promise<StampLook> {
  const call = defineScript<string[]>(redis, 'pushpacerStamp', LUA, 1);
  return async () => {
    const known = seen.in.get(seen.as) ?? NOTHING;
    const args = [known.id, known.at, known.runId, known.evicted, crypto.randomUUID(), TOLERATED_LOOKS * everyMs];
    const [id = '', at = '0', runId = '', evicted = '0', policy = '', ...found] = await call(key, ...args);
    const [lost = '', lostAt = '0', from = '0', to = '0', more = '0', since = '0'] = found;
    const server = { runId, isSame: runId !== '' && known.runId === runId };
    seen.in.set(seen.as, { id, at, runId, evicted });
    const losses: Loss[] = [];
    if (lost === 'emptied') losses.push({ kind: lost, at: Number(lostAt), server });
    if (lost === 'older') losses.push({ kind: lost, at: Number(lostAt), server, from: Number(from), to: Number(to) });
    if (Number(more) > 0)
      losses.push({ kind: 'evicted', at: Number(at), server, evicted: Number(more), since: Number(since) });
    return { losses, runId, policy: policy === '' ? undefined : policy };
  };
}

const LUA = readScript('stamp.lua', import.meta.url);
