import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import type { Notification } from '../../../src/notification/notification.ts';
import { layoutKey, PRIORITY, QUEUE, shardOf } from '../../../src/queue/names.ts';
import { DEFAULT_PREFIX } from '../../../src/redis/target.ts';
import { runProgram } from '../../support/program.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { connectRedis, testRedisUrl } from '../../support/redis.ts';
import { openWorkerBench } from '../../support/worker.ts';

// BullMQ's own client for Python as a producer, by what the pages say.

const python = (...args: readonly string[]): Promise<string> => runProgram('python3', args, '.');

/** A package that is there but cannot be imported is no reason to leave the tests out. */
const FIND = 'import importlib.util; print(importlib.util.find_spec("bullmq") is not None)';
const isInstalled = (await python('-c', FIND)).trim() === 'True';
const NOT_TRIED = 'the client for Python is not tried: python3 finds no package bullmq; see CONTRIBUTING.md';
if (!isInstalled) console.warn(NOT_TRIED); // the list of tests shows no notes

function withClient(name: string, test: () => Promise<void>): void {
  it(name, async (context) => {
    context.skip(!isInstalled, NOT_TRIED);
    await test();
  });
}

/** The first piece of Python in a section of a page. */
async function pythonOf(page: string, section: string): Promise<string> {
  const text = (await readFile(page, 'utf8')).split(`\n## ${section}\n`)[1] ?? '';
  const code = /```python\n([^]*?)```/.exec(text)?.[1];
  if (code === undefined) throw new Error(`${page} has no Python in the section ${section}`);
  return code;
}

type Job = readonly [name: string, data: object, options: object];

const push = (notification: Notification, more: object = {}): Job => [
  'push',
  notification,
  { jobId: notification.id, priority: PRIORITY[notification.priority], ...more },
];

const ADD = `
import asyncio
import sys
from bullmq import Queue


async def main(url, queue_prefix, record, jobs):
    for name, data, options in jobs:
        prefix = prefix_of(data.get("recipientId", ""), record, queue_prefix)
        queue = Queue("${QUEUE}", {"connection": url, "prefix": prefix})
        await queue.add(name, data, options)
        await queue.close()


asyncio.run(main(*json.loads(sys.argv[1])))
`;

/** Adds jobs, one after the other. `record`: what GET {pushpacer}:shards answered. */
async function add(prefix: string, jobs: readonly Job[], record: string | null = null): Promise<void> {
  const prefixOf = await pythonOf('docs/shards.md', 'A producer in another language');
  await python('-c', prefixOf + ADD, JSON.stringify([testRedisUrl(), prefix, record, jobs]));
}

withClient(
  'the program of docs/getting-started.md adds its notification, twice the same one, and it arrives',
  async () => {
    const { prefix, sandbox, startWorker } = await openWorkerBench();
    const code = await pythonOf('docs/getting-started.md', 'From another language');
    const here = code.replace('redis://127.0.0.1:6379', testRedisUrl()).replace(DEFAULT_PREFIX, prefix);
    for (let times = 0; times < 2; times++) await python('-c', here);
    await startWorker();
    const { accepted } = sandbox.journal;
    await expect.poll(() => accepted.map(({ body }) => body)).toEqual(['The bus leaves at half past eight']);
  },
);

const [GAP_MS, MAX, WINDOW_MS, DELAY_MS] = [700, 3, 3_500, 3_000];
/** How much closer than their slots two alerts may come to their provider, on a busy machine. */
const SLACK_MS = 150;
const TEXTS = [
  'Prüfung: Größe ≥ 3 m²',
  'Élève à Noël',
  'Klassenausflug 🎒👩‍🏫',
  '図書室は休みです',
  'Zoë & "Ægir" \\ </b>',
];

withClient('five at once and a delayed one arrive, paced, each letter whole', async () => {
  const { prefix, sandbox, deadQueue, startWorker } = await openWorkerBench();
  const five = TEXTS.map((body, index) =>
    makeNotification({
      ...{ alert: { title: `${body} 🎓`, body }, data: { room: `Aula ${body}` } },
      devices: [makeDevice(index % 2 === 0 ? 'apns' : 'fcm')],
      priority: index === 3 ? 'high' : 'normal',
    }),
  );
  const delayed = makeNotification({ recipientId: 'teacher-43', alert: { body: 'Später ⏰' } });
  const jobs = [...five.map((each) => push(each)), push(delayed, { delay: DELAY_MS })];
  await startWorker({ LIMIT_RULES: `${MAX}/${WINDOW_MS}ms`, LIMIT_MIN_GAP: `${GAP_MS}ms` });
  const beganAt = Date.now();
  for (let times = 0; times < 2; times++) await add(prefix, jobs);
  const all = () => sandbox.journal.accepted;
  await expect.poll(() => all().length, { timeout: 30_000 }).toBe(6);

  const [ofDelayed, ofFive] = [true, false].map((is) => all().filter(({ body }) => (body === 'Später ⏰') === is));
  const shown = ofFive?.map(({ title, body, data }) => [title, body, data['room']]);
  const written = TEXTS.map((text) => [`${text} 🎓`, text, `Aula ${text}`]);
  expect(new Set(shown)).toEqual(new Set(written));
  const times = (ofFive ?? []).map(({ at }) => at).toSorted((a, b) => a - b);
  for (const [index, at] of times.entries()) {
    expect(at - (times[index - 1] ?? -Infinity)).toBeGreaterThan(GAP_MS - SLACK_MS);
    expect(at - (times[index - MAX] ?? -Infinity)).toBeGreaterThan(WINDOW_MS - SLACK_MS);
  }
  const delayedAt = ofDelayed?.[0]?.at ?? NaN;
  expect(delayedAt).toBeGreaterThan(beganAt + DELAY_MS);
  expect(delayedAt).toBeGreaterThan(times[0] ?? Infinity);
  expect(await deadQueue.getWaitingCount()).toBe(0);
});

withClient('one with sendAfter comes then, and one that a job of the client cancels does not come', async () => {
  const { prefix, sandbox, queue, startWorker } = await openWorkerBench();
  const sendAfter = Date.now() + DELAY_MS;
  const [trip, calledOff] = [makeNotification({ sendAfter }), makeNotification({ sendAfter })];
  await add(prefix, [push(trip), push(calledOff), ['cancel', { id: calledOff.id }, { priority: 1 }]]);
  await startWorker();
  await expect
    .poll(() => Promise.all([trip, calledOff].map(async ({ id }) => (await queue.getJob(id))?.returnvalue as unknown)))
    .toMatchObject([{ outcome: 'delivered' }, { outcome: 'canceled' }]);
  expect(sandbox.journal.accepted.map(({ token }) => token)).toEqual([trip.devices.map(tokenOf)].flat());
  expect(sandbox.journal.accepted[0]?.at).toBeGreaterThan(sendAfter);
});

const tokenOf = (device: Notification['devices'][number]): string => ('token' in device ? (device.token ?? '') : '');

withClient('with several shards each notification is in the queue of its recipient, by docs/shards.md', async () => {
  const { prefix, sandbox, startWorker } = await openWorkerBench();
  await startWorker({ QUEUE_SHARDS: '3' });
  const redis = connectRedis();
  const record = (await redis.get(layoutKey(prefix))) ?? '';
  const { prefixes } = JSON.parse(record) as { readonly prefixes: readonly string[] };
  const all = ['a', 'b', 'c', 'd', 'é', 'f', '🎒'].map((recipientId) => makeNotification({ recipientId }));
  const shards = all.map(({ recipientId }) => shardOf(recipientId, 3));
  expect(new Set(shards)).toEqual(new Set([0, 1, 2]));
  const jobs = all.map((each) => push(each));
  await add(prefix, jobs, record);
  const isThere = all.map(({ id }, index) => redis.exists(`${prefixes[shards[index] ?? NaN]}:${QUEUE}:${id}`));
  expect(await Promise.all(isThere)).toEqual(all.map(() => 1));
  await expect.poll(() => sandbox.journal.accepted.length, { timeout: 30_000 }).toBe(all.length);
});
