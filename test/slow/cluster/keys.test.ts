import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { crc16, shardPrefixes, SLOTS } from '../../../src/queue/names.ts';
import { NO_FAILOVER, testCluster } from '../../support/cluster.ts';
import { doEverything } from '../../support/everything.ts';

const PREFIX = '{pushpacer}';
const SHARDS = 4;
const cluster = testCluster({ replicas: 0, ...NO_FAILOVER });

/** A row of the table of keys in docs/redis.md. */
interface Row {
  readonly pattern: string;
  readonly matches: RegExp;
  readonly type: string;
  readonly slotOf: string;
}

/** What a word in capitals stands for. */
const STANDS_FOR: Readonly<Record<string, string>> = {
  PREFIX: String.raw`\{pushpacer\}`,
  NAME: 'pushpacer',
  STAMP: String.raw`(?<tag>\{pushpacer-\d-\d+\})`,
  SHARD: String.raw`(?<tag>\{pushpacer(?:-\d+-\d+)?\})`,
  RECIPIENT: String.raw`(?<tag>\{[^{}]+\})`,
  TAG: String.raw`(?<tag>\{[^{}]+\})`,
  KIND: '(?:background|liveactivity)',
  WINDOW: String.raw`\d+`,
};

async function readTable(): Promise<Row[]> {
  const page = await readFile('docs/redis.md', 'utf8');
  const [, section = ''] = page.split('\n## Every key\n');
  const rows = [
    ...(section.split('\n## ')[0] ?? '').matchAll(/^\| `([^`]+)` +\| ([^|]+?) +\| ([^|]+?) +\| ([^|]+)\|$/gm),
  ];
  return rows.map(([, pattern = '', type = '', slotOf = '']) => {
    const escaped = pattern.replaceAll(/[{}.~]/g, String.raw`\$&`);
    const text = escaped.replaceAll(/[A-Z]{2,}/g, (word) => STANDS_FOR[word] ?? '[^:]+');
    return { pattern, matches: new RegExp(`^${text}$`), type, slotOf };
  });
}

/** Key → type, of all keys that any master had at any time. */
async function watchKeys(until: AbortSignal): Promise<Map<string, string>> {
  const seen = new Map<string, string>();
  const nodes = cluster.nodes.map(({ url }) => new Redis(url));
  onTestFinished(() => nodes.forEach((node) => node.disconnect()));
  const look = async (node: Redis): Promise<void> => {
    for await (const keys of node.scanStream({ count: 1_000 }) as AsyncIterable<string[]>) {
      for (const key of keys.filter((each) => !seen.has(each))) {
        const type = await node.type(key);
        if (type !== 'none') seen.set(key, type);
      }
    }
  };
  do {
    await Promise.all(nodes.map(look));
    await sleep(20);
  } while (!until.aborted);
  await Promise.all(nodes.map(look));
  return seen;
}

const slotOfTag = (tag: string): number => crc16(tag.replaceAll(/[{}]/g, '')) % SLOTS;

test('every key that is ever written is in the table, with its type, and lies in the slot that the table says', async () => {
  const rows = await readTable();
  expect(rows.length).toBeGreaterThan(40);
  const over = new AbortController();
  const watching = watchKeys(over.signal);
  const env = { REDIS_URL: cluster.url, REDIS_CLUSTER: 'true', QUEUE_PREFIX: PREFIX, QUEUE_SHARDS: String(SHARDS) };
  const target = { redisUrl: cluster.url, cluster: true, prefix: PREFIX, shards: SHARDS };
  await doEverything({ env, target }).finally(() => over.abort());
  const keys = await watching;
  expect(keys.size).toBeGreaterThan(50);

  const shards = new Set([...shardPrefixes(PREFIX, SHARDS), PREFIX]); // which is a former queue
  const redis = new Redis(cluster.nodes[0]?.url ?? '');
  onTestFinished(() => redis.disconnect());
  const wrong: string[] = [];
  const used = new Set<Row>();
  for (const [key, type] of keys) {
    const row = rows.find(({ matches }) => matches.test(key));
    if (row === undefined) {
      wrong.push(`${key} (${type}) is in no row`);
      continue;
    }
    used.add(row);
    const tag = row.matches.exec(key)?.groups?.['tag'];
    if (row.type !== type) wrong.push(`${key} is a ${type}, the table says ${row.type}`);
    if (row.slotOf === 'shard' && !shards.has(tag ?? '')) wrong.push(`${key} is of no shard`);
    const expected = slotOfTag(row.slotOf === '`QUEUE_PREFIX`' ? PREFIX : (tag ?? ''));
    const slot = await redis.cluster('KEYSLOT', key);
    if (slot !== expected) wrong.push(`${key} is in slot ${slot}, the table says ${expected}`);
  }
  expect(wrong.toSorted()).toEqual([]);
  // Seen by chance, or only where things go wrong.
  const rare = rows.filter((row) => !used.has(row)).map(({ pattern }) => pattern);
  expect(rare.filter((pattern) => !RARE.some((each) => each.test(pattern)))).toEqual([]);
  const spread = Map.groupBy(keys.keys(), (key) => Math.floor((slotOfTag(/\{.+?\}/.exec(key)?.[0] ?? '') * 3) / SLOTS));
  expect(spread.size).toBe(3);
}, 90_000);

/** Keys that this test may miss: they are there for moments, or only where things go wrong. */
const RARE: readonly RegExp[] = [
  /:(?:logs|pc|marker|wait|prioritized|delayed|active|failed|stalled|stalled-check|lock|prioritising|raising)$/,
  /:(?:trial|tail|promised|CATEGORY)$|:told:|KIND/,
  /:(?:moving|moved|mover|lease|fence|look)$/,
  /:losses$/,
];
