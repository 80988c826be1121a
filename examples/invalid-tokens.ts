// Takes tokens that a provider has called gone out of a database, each at least once. Start as many as you like.
// Needs a Redis (REDIS_URL) and, in your project: npm install ioredis
import { hostname } from 'node:os';
import { Cluster, Redis } from 'ioredis';

const {
  REDIS_URL = 'redis://127.0.0.1:6379',
  REDIS_CLUSTER = 'false',
  QUEUE_PREFIX = '{pushpacer}',
  TAKE_OVER_AFTER_MS = '60000',
} = process.env;
const STREAM = `${QUEUE_PREFIX}:invalid-tokens`;
const GROUP = 'token-cleaners';
const CONSUMER = `${hostname()}-${process.pid}`;
const takeOverAfterMs = Number(TAKE_OVER_AFTER_MS);

/** Your database goes here. The same token may come twice, so let a second time do no harm. */
function forget({
  recipientId,
  platform,
  token,
  kind,
  meaning,
  reason,
  timestamp,
}: Record<string, string>): Promise<void> {
  // `bad-token` was never valid for this app. Find out where it comes from; if the workers' configuration is wrong, all are.
  if (meaning === 'bad-token') {
    console.warn(JSON.stringify({ recipientId, platform, meaning, reason }));
    return Promise.resolve();
  }
  // DELETE FROM devices WHERE platform = $platform AND token = $token AND registered_at < $timestamp
  // (an app that was installed again may have registered the same token since). If kind is `fid`, the token is an installation id.
  console.log(
    JSON.stringify({
      recipientId,
      platform,
      token,
      kind,
      meaning,
      reason,
      timestamp: Number(timestamp),
    }),
  );
  return Promise.resolve();
}

type Entry = [id: string, fields: string[]];

const redisOptions = { maxRetriesPerRequest: null }; // waits while Redis is away, and goes on
const open = () =>
  REDIS_CLUSTER === 'true'
    ? new Cluster(REDIS_URL.split(','), { redisOptions })
    : new Redis(REDIS_URL, redisOptions);
const redis = open() as Redis; // the commands of both are the same
const reader = open() as Redis; // blocks, and would hold up what is acknowledged
for (const connection of [redis, reader])
  connection.on('error', (error) => console.error(error.message));

const stopping = new AbortController();
const isStopping = (): boolean => stopping.signal.aborted;
const stop = (): void => {
  stopping.abort();
  reader.disconnect();
};
process.once('SIGINT', stop).once('SIGTERM', stop);
/** A command that is sent while a cluster's client is being closed may get no answer at all. */
const stopped = new Promise<Entry[]>((resolve) => {
  stopping.signal.addEventListener('abort', () => resolve([]));
});

while (!isStopping()) {
  try {
    await createGroup();
    for (const [id, fields] of [
      ...(await leftBehind()),
      ...(await Promise.race([fresh(), stopped])),
    ]) {
      await forget(Object.fromEntries(pairs(fields)));
      await redis.xack(STREAM, GROUP, id); // only now: until then, another consumer may take it over
    }
  } catch (error) {
    if (isStopping()) break;
    // What was not acknowledged comes again. Never log the entry: it holds a token.
    console.error(error instanceof Error ? error.message : error);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}
redis.disconnect();

/** From the first entry that is there. In each round, because a Redis that lost its data has lost the group too. */
async function createGroup(): Promise<void> {
  await redis.xgroup('CREATE', STREAM, GROUP, '0', 'MKSTREAM').catch((error: unknown) => {
    if (!String(error).includes('BUSYGROUP')) throw error; // it is there
  });
}

/** What a consumer took and did not acknowledge for a while: it died, or its database was away. */
async function leftBehind(): Promise<Entry[]> {
  const reply = await redis.xautoclaim(
    STREAM,
    GROUP,
    CONSUMER,
    takeOverAfterMs,
    '0-0',
    'COUNT',
    100,
  );
  return (reply[1] as (Entry | null)[]).filter((entry) => entry !== null); // Redis 6.2 tells trimmed ones as null
}

async function fresh(): Promise<Entry[]> {
  const blockMs = Math.min(5_000, takeOverAfterMs);
  const where = ['STREAMS', STREAM, '>'] as const;
  const reply = await reader.xreadgroup(
    'GROUP',
    GROUP,
    CONSUMER,
    'COUNT',
    100,
    'BLOCK',
    blockMs,
    ...where,
  );
  return ((reply as [string, Entry[]][] | null) ?? []).flatMap(([, entries]) => entries);
}

/** `['a', '1', 'b', '2']` → `[['a', '1'], ['b', '2']]` */
function pairs(fields: readonly string[]): [string, string][] {
  return fields.flatMap((name, index) =>
    index % 2 === 0 ? [[name, fields[index + 1] ?? '']] : [],
  );
}
