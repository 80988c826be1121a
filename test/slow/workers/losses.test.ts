import { expect, it, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { main as reshard } from '../../../scripts/reshard.ts';
import { loadConfig } from '../../../src/config/config.ts';
import { createLog } from '../../../src/observe/log.ts';
import { createProducer } from '../../../src/producer/producer.ts';
import { tokenOf } from '../../../src/notification/device.ts';
import { readLosses } from '../../../src/queue/losses.ts';
import { readLayout } from '../../../src/queue/shards/layout.ts';
import { startFollowing } from '../../../workers/follow.ts';
import { runMain } from '../../support/command.ts';
import { openSandbox } from '../../support/providers.ts';
import { makeNotification } from '../../support/push.ts';
import { connectRedis, testPrefix } from '../../support/redis.ts';
import { waitFor } from '../../support/wait.ts';

it('a Redis that was emptied after a reshard is noticed, and keeps its shards: all that comes after it is sent', async () => {
  const [server, sandbox, prefix] = [await startEmbeddedRedis(), await openSandbox(), testPrefix()];
  onTestFinished(() => server.close());
  const env = { ...sandbox.env(), REDIS_URL: server.url, QUEUE_PREFIX: prefix, METRICS_PORT: 'off' };
  const admin = connectRedis(server.url);
  const open = () => {
    const producer = createProducer({ redisUrl: server.url, prefix });
    onTestFinished(() => producer.close());
    return producer;
  };
  const producer = open();
  await producer.enqueue(makeNotification());
  expect(await runMain(reshard, ['--to', '4'], env)).toMatchObject({ code: 0 });
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const worker = await startFollowing(loadConfig(env), log, { env, signal: new AbortController().signal });
  onTestFinished(() => worker.stop());
  await waitFor(async () => expect(await admin.exists(`${prefix}:stamp`)).toBe(1));
  await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1));
  const many = () => Array.from({ length: 12 }, (_, index) => makeNotification({ recipientId: `teacher-${index}` }));
  await producer.enqueueMany(many()); // it knows the shards from now on
  await admin.flushall();
  const [toFour, toOne] = [many(), many()];
  await producer.enqueueMany(toFour);
  await open().enqueueMany(toOne); // it finds no record, so it adds to a single queue
  await waitFor(async () => expect(await readLosses(admin, prefix, Date.now())).toMatchObject([{ kind: 'emptied' }]));
  const sent = () => sandbox.journal.accepted.map(({ token }) => token);
  const expected = [...toFour, ...toOne].flatMap(({ devices = [] }) => devices.map(tokenOf));
  await waitFor(() => expect(sent()).toEqual(expect.arrayContaining(expected)));
  expect((await readLayout(admin, prefix))?.prefixes).toHaveLength(4);
});
