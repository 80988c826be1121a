// Sends each outcome of the stream to a URL, at least once, signed as https://www.standardwebhooks.com says. Start as many as
// you like: they share the outcomes. Needs workers with OUTCOMES_MAX, their Redis (REDIS_URL), WEBHOOK_URL, WEBHOOK_SECRET
// (whsec_ and 24 to 64 bytes as base64) and, in your project: npm install ioredis
import { hostname } from 'node:os';
import { Cluster, Redis } from 'ioredis';
import { postUntilAccepted } from './post.ts';
import { secretOf, webhookOf } from './webhook.ts';

const {
  REDIS_URL = 'redis://127.0.0.1:6379',
  REDIS_CLUSTER = 'false',
  QUEUE_PREFIX = '{pushpacer}',
  WEBHOOK_URL = '',
  WEBHOOK_SECRET = '',
  TAKE_OVER_AFTER_MS = '60000',
  RETRY_BASE_MS = '1000',
} = process.env;
const STREAM = `${QUEUE_PREFIX}:outcomes`;
const GROUP = 'outcome-webhooks';
const CONSUMER = `${hostname()}-${process.pid}`;
/** So many are under way at once. One that the receiver refuses again and again does not hold up the others. */
const AT_ONCE = 50;
const takeOverAfterMs = Number(TAKE_OVER_AFTER_MS);

const key = secretOf(WEBHOOK_SECRET);
if (!URL.canParse(WEBHOOK_URL) || key === undefined) {
  console.error(
    'WEBHOOK_URL: expected a URL; WEBHOOK_SECRET: expected whsec_ and 24 to 64 bytes as base64',
  );
  process.exit(2);
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
const { signal } = stopping;
const isStopping = (): boolean => signal.aborted;
const stop = (): void => {
  stopping.abort();
  reader.disconnect();
};
process.once('SIGINT', stop).once('SIGTERM', stop);
/** A command that is sent while a cluster's client is being closed may get no answer at all. */
const stopped = new Promise<Entry[]>((resolve) => {
  signal.addEventListener('abort', () => resolve([]));
});

/** What is under way, by the id of its entry. */
const inHand = new Map<string, Promise<void>>();
const keeping = setInterval(() => void keep(), takeOverAfterMs / 3);
let cursor = '0-0';

while (!isStopping()) {
  try {
    await createGroup();
    const room = AT_ONCE - inHand.size;
    if (room <= 0) await Promise.race(inHand.values());
    else
      for (const entry of [
        ...(await leftBehind(room)),
        ...(await Promise.race([fresh(room), stopped])),
      ])
        take(entry);
  } catch (error) {
    if (isStopping()) break;
    console.error(error instanceof Error ? error.message : error);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}
clearInterval(keeping);
await Promise.all(inHand.values()); // what was not accepted is left to the next relay
redis.disconnect();

function take([id, fields]: Entry): void {
  if (inHand.has(id)) return;
  const relaying = relay(id, fields).catch((error: unknown) => {
    if (!isStopping()) console.error(error instanceof Error ? error.message : error);
  });
  inHand.set(id, relaying);
  void relaying.then(() => inHand.delete(id));
}

async function relay(entryId: string, fields: readonly string[]): Promise<void> {
  const webhook = webhookOf(entryId, Object.fromEntries(pairs(fields)));
  const retryBaseMs = Number(RETRY_BASE_MS);
  await postUntilAccepted(webhook, { url: WEBHOOK_URL, key: key ?? '', retryBaseMs, signal });
  await redis.xack(STREAM, GROUP, entryId); // only now: until then, another relay may take it over
}

/** From the first entry that is there. In each round, because a Redis that lost its data has lost the group too. */
async function createGroup(): Promise<void> {
  await redis.xgroup('CREATE', STREAM, GROUP, '0', 'MKSTREAM').catch((error: unknown) => {
    if (!String(error).includes('BUSYGROUP')) throw error; // it is there
  });
}

/** What a relay took and did not acknowledge for a while: it died. */
async function leftBehind(count: number): Promise<Entry[]> {
  const how = [takeOverAfterMs, cursor, 'COUNT', count] as const;
  const reply = await redis.xautoclaim(STREAM, GROUP, CONSUMER, ...how);
  cursor = String(reply[0]);
  return (reply[1] as (Entry | null)[]).filter((entry) => entry !== null); // Redis 6.2 tells trimmed ones as null
}

async function fresh(count: number): Promise<Entry[]> {
  const how = ['COUNT', count, 'BLOCK', Math.min(5_000, takeOverAfterMs)] as const;
  const reply = await reader.xreadgroup('GROUP', GROUP, CONSUMER, ...how, 'STREAMS', STREAM, '>');
  return ((reply as [string, Entry[]][] | null) ?? []).flatMap(([, entries]) => entries);
}

/** No other relay takes over what this one still tries to send. */
async function keep(): Promise<void> {
  if (inHand.size === 0) return;
  const ids = [...inHand.keys()];
  await redis.xclaim(STREAM, GROUP, CONSUMER, 0, ...ids, 'JUSTID').catch(() => undefined); // a second copy does no harm
}

/** `['a', '1', 'b', '2']` → `[['a', '1'], ['b', '2']]` */
function pairs(fields: readonly string[]): [string, string][] {
  return fields.flatMap((name, index) =>
    index % 2 === 0 ? [[name, fields[index + 1] ?? '']] : [],
  );
}
