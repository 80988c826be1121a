import { defineScript, readScript, type ScriptRedis } from './scripts.ts';

/** A stamp of ours in a Redis, by which a process notices that what was stored there is gone. */

/**
 * What Redis has lost.
 * - `emptied`: all keys. They were deleted (`FLUSHALL`), it has come back without its data, or another Redis is in its place.
 * - `older`: it has come back with an older state, so that its last part is missing.
 * - `evicted`: it removed keys because it was full, and its `maxmemory-policy` lets it.
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

/** A server of Redis. */
interface Server {
  /** It gets another one with each start. Empty if it does not say it. */
  readonly runId: string;
  /** Whether the last look was at the same one, and it has not been started again. */
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
 * A state that is older by no more than this was lost with a failover, or with a machine under `appendfsync everysec`: two looks may be
 * missing although less than a second is.
 */
const TOLERATED_LOOKS = 2;

/** @param everyMs how often it looks. Each look is one call of a script. */
export function createStamp(redis: ScriptRedis, key: string, everyMs: number): () => Promise<StampLook> {
  const call = defineScript<string[]>(redis, 'pushpacerStamp', LUA, 1);
  let known = { id: '', at: '0', runId: '', evicted: '0' };
  return async () => {
    const args = [known.id, known.at, known.runId, known.evicted, crypto.randomUUID(), TOLERATED_LOOKS * everyMs];
    const [id = '', at = '0', runId = '', evicted = '0', policy = '', ...found] = await call(key, ...args);
    const [lost = '', lostAt = '0', from = '0', to = '0', more = '0', since = '0'] = found;
    const server = { runId, isSame: runId !== '' && known.runId === runId };
    known = { id, at, runId, evicted };
    const losses: Loss[] = [];
    if (lost === 'emptied') losses.push({ kind: lost, at: Number(lostAt), server });
    if (lost === 'older') losses.push({ kind: lost, at: Number(lostAt), server, from: Number(from), to: Number(to) });
    if (Number(more) > 0)
      losses.push({ kind: 'evicted', at: Number(at), server, evicted: Number(more), since: Number(since) });
    return { losses, runId, policy: policy === '' ? undefined : policy };
  };
}

const LUA = readScript('stamp.lua', import.meta.url);
