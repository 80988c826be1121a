import { setImmediate as turnEnds } from 'node:timers/promises';
import { Cluster, Command, type Redis } from 'ioredis';
import type { Connection } from './target.ts';

/**
 * It is not known whether enough replicas have a write, so the write may be missing after a failover. Until then it is stored.
 * Write it again later, under the same id.
 */
export class ReplicasMissingError extends Error {
  override readonly name = 'ReplicasMissingError';
}

export interface ReplicaWaitOptions {
  /** How many replicas must have the write. */
  readonly count: number;
  /** How long to wait for the replicas, in milliseconds. Must be shorter than the connection's `socketTimeout`. */
  readonly timeoutMs: number;
}

/**
 * Resolves when enough replicas have everything that was written since this function was made; otherwise rejects with
 * ReplicasMissingError, after at most twice `timeoutMs`.
 */
export type Confirm = () => Promise<void>;

/**
 * Call it before a write, with one of the write's keys, and call its result after the write.
 *
 * Redis's WAIT is about the writes of its own connection, so it is sent on the connection that carries the write. WAIT blocks
 * that connection until the replicas answer, so only one WAIT is under way at a time: all writes meanwhile share the next one.
 */
export type ReplicaWait = (key: string) => Confirm;

export function createReplicaWait(redis: Connection, options: ReplicaWaitOptions): ReplicaWait {
  const links = new WeakMap<Redis, Link>();
  const linkTo = (slot: number): Link | undefined => {
    const node = nodeOf(redis, slot);
    if (node === undefined) return undefined;
    const known = links.get(node);
    if (known !== undefined) return known;
    const link = createLink(node, options);
    links.set(node, link);
    return link;
  };
  return (key) => {
    const slot = redis instanceof Cluster ? slotOf(key) : 0;
    const before = linkTo(slot);
    const connected = before?.connected();
    return async () => {
      // If a cluster sent the write to another node (MOVED), or the connection broke, WAIT would be about other writes.
      const link = linkTo(slot);
      if (link === undefined || link !== before) throw new ReplicasMissingError(ELSEWHERE);
      const answer = await link.wait();
      if (answer.connected !== connected) throw new ReplicasMissingError(ELSEWHERE);
      if (answer.replicas >= options.count) return;
      throw new ReplicasMissingError(
        `${answer.replicas} of ${options.count} replicas confirmed within ${options.timeoutMs} ms`,
      );
    };
  };
}

const ELSEWHERE = 'the connection was lost, or the keys moved to another node, before replicas could confirm';

interface Answer {
  readonly replicas: number;
  /** The `Link.connected` of the connection on which WAIT was sent. */
  readonly connected: number;
}

/** A connection to one node. */
interface Link {
  /** A number that changes with each loss of the connection. */
  connected(): number;
  wait(): Promise<Answer>;
}

function createLink(node: Redis, { count, timeoutMs }: ReplicaWaitOptions): Link {
  let losses = 0;
  node.on('close', () => (losses += 1));
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<Answer> | undefined;

  async function waitAfter(before: Promise<unknown>): Promise<Answer> {
    await before;
    await turnEnds(); // writes whose answers came together share one WAIT
    next = undefined;
    const connected = losses;
    try {
      return { replicas: await node.wait(count, timeoutMs), connected };
    } catch (cause) {
      throw new ReplicasMissingError('Redis did not answer WAIT', { cause });
    }
  }

  return {
    connected: () => losses,
    wait() {
      if (next !== undefined) return next;
      const answer = waitAfter(last);
      next = answer;
      last = answer.catch(() => undefined);
      return answer;
    },
  };
}

function slotOf(key: string): number {
  return new Command('exists', [key]).getSlot();
}

/** The connection that carries a write to this hash slot; in a cluster, as far as the client knows its hash slots. */
function nodeOf(redis: Connection, slot: number): Redis | undefined {
  if (!(redis instanceof Cluster)) return redis;
  const place = redis.slots[slot]?.[0];
  return redis.nodes('master').find(({ options: { host, port } }) => `${host}:${port}` === place);
}
