import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { crc16, shardOf, shardPrefixes } from '../../src/queue/names.ts';
import { DEFAULT_PREFIX } from '../../src/redis/target.ts';

interface Vectors {
  readonly recipients: readonly { id: string; crc16: number; shards: Readonly<Record<string, number>> }[];
  readonly prefixes: Readonly<Record<string, readonly string[]>>;
}

const vectors = async () => JSON.parse(await readFile('docs/shards.json', 'utf8')) as Vectors;

test('the examples of docs/shards.json are what pushpacer computes', async () => {
  const { recipients, prefixes } = await vectors();
  expect(recipients.length).toBeGreaterThan(15);
  for (const { id, crc16: hash, shards } of recipients) {
    expect(crc16(id)).toBe(hash);
    expect(Object.keys(shards)).toEqual(['2', '3', '4', '8', '64']);
    for (const [number, shard] of Object.entries(shards)) expect(shardOf(id, Number(number))).toBe(shard);
  }
  for (const [number, tags] of Object.entries(prefixes)) {
    expect(shardPrefixes(DEFAULT_PREFIX, Number(number))).toEqual(tags);
  }
});

test('the Python of docs/shards.md finds the same prefixes', async () => {
  const page = await readFile('docs/shards.md', 'utf8');
  const python = /```python\n(import json[\s\S]+?)```/.exec(page)?.[1] ?? '';
  const { recipients, prefixes } = await vectors();
  const ids = JSON.stringify(recipients.map(({ id }) => id));
  const record = JSON.stringify({ prefixes: prefixes['3'] });
  const program = `${python}
ids = json.loads(${JSON.stringify(ids)})
print(json.dumps([[prefix_of(id, None), prefix_of(id, ${JSON.stringify(record)})] for id in ids]))`;
  const { stdout } = await promisify(execFile)('python3', ['-c', program]);
  expect(JSON.parse(stdout)).toEqual(
    recipients.map(({ shards }) => [DEFAULT_PREFIX, prefixes['3']?.[shards['3'] ?? NaN]]),
  );
});
