import { expect, test } from 'vitest';
import { main } from '../../scripts/status.ts';
import type { StatusResult } from '../../src/operations/status.ts';
import { shardPrefixes } from '../../src/queue/names.ts';
import { addDead, manyLetters } from '../dead-letters/letters.ts';
import { openQueues } from '../queue/support.ts';
import { outputOf, runMain } from '../support/command.ts';
import { queueEnv, testPrefix } from '../support/redis.ts';

const [SHARDS, HOUR] = [4, 3_600_000];

test('the newest dead letters of all shards together are looked at, however they are spread over the shards', async () => {
  const prefix = testPrefix();
  const env = { ...queueEnv(prefix), QUEUE_SHARDS: String(SHARDS) };
  const dead = shardPrefixes(prefix, SHARDS).map((each) => openQueues(each).deadQueue);
  const add = (shard: number, count: number, deadAt: number) => {
    const letters = Object.entries(manyLetters(count, { deadAt })).map(([id, letter]) => [`${deadAt}-${id}`, letter]);
    return addDead(dead[shard] as (typeof dead)[number], Object.fromEntries(letters) as Record<string, unknown>);
  };
  const seen = async (): Promise<{ letters: StatusResult['deadLetters']; text: string }> => {
    const json = await outputOf(runMain(main, ['--json'], env));
    return {
      letters: (JSON.parse(json) as StatusResult).deadLetters,
      text: await outputOf(runMain(main, [], env)),
    };
  };
  for (let shard = 0; shard < SHARDS; shard++) await add(shard, 200, Date.now() - 2 * HOUR);
  await add(1, 700, Date.now() - 1_000);
  const some = await seen();
  expect(some.letters).toMatchObject({
    total: 1_500,
    lookedAt: 1_000,
    lastHour: 700,
    lastHourByReason: { rejected: 700 },
  });
  expect(some.letters.byReason).toEqual({ rejected: 1_000 });
  expect(some.text).toMatch(/among the newest 1000; 700 in the last hour/);
  expect(some.text).toMatch(/^ +700 dead letters in the last hour/m);
  await add(2, 400, Date.now());
  const many = await seen();
  expect(many.letters).toMatchObject({ total: 1_900, lookedAt: 1_000, lastHour: 1_000 });
  expect(many.text).toMatch(/among the newest 1000; at least 1000 in the last hour/);
  expect(many.text).toMatch(/^ +at least 1000 dead letters in the last hour/m);
});
