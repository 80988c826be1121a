import { expect, test } from 'vitest';
import type { Layout } from '../../src/queue/layout.ts';
import { layoutKey, shardPrefixes } from '../../src/queue/names.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';

const PATIENT = { timeout: 15_000, interval: 20 };

type Phase = (one: readonly string[], eight: readonly string[]) => Omit<Layout, 'version'>;

test.each<[string, Phase]>([
  ['prepare', (one, eight) => ({ phase: 'prepare', prefixes: one, next: eight, former: [] })],
  ['move', (one, eight) => ({ phase: 'move', prefixes: eight, former: [one] })],
])('in the phase %s a worker may have as many jobs of a single queue as WORKER_CONCURRENCY says', async (_, of) => {
  const { prefix, queue, sandbox, startHere } = await openReplicaBench();
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 3_000 });
  const layout: Layout = { version: 2, ...of([prefix], shardPrefixes(prefix, 8)) };
  await connectRedis().set(layoutKey(prefix), JSON.stringify(layout));
  for (let at = 0; at < 9; at += 1) {
    const notification = makeNotification({ recipientId: `teacher-${at}` });
    await queue.add('push', notification, { jobId: notification.id, priority: 10 });
  }
  await startHere({ WORKER_CONCURRENCY: '6' });
  let most = 0;
  await expect.poll(async () => (most = Math.max(most, await queue.getActiveCount())), PATIENT).toBe(6);
});
