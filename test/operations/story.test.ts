import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { main as status } from '../../scripts/status.ts';
import { main as why } from '../../scripts/why.ts';
import { noteLoss } from '../../src/queue/losses.ts';
import { historyKeys } from '../../src/queue/names.ts';
import { outputOf, runMain } from '../support/command.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, queueEnv, testPrefix, testRedisUrl } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';
import { storyOf } from '../support/story.ts';

const SOON = { timeout: 20_000, interval: 50 };
const HISTORY = { HISTORY_MAX: '100' };

const text = async (prefix: string, id: string) => outputOf(runMain(why, [id], queueEnv(prefix)));

it('says which digest a part waits for, and which newer one goes in its place', async () => {
  const { prefix, producer, startHere, line } = await openReplicaBench();
  await startHere({ LIMIT_RULES: '100/1m', LIMIT_MIN_GAP: '1h' });
  const all = [
    { id: 'first' },
    ...['leader', 'part'].map((id) => ({
      id,
      onThrottle: 'digest' as const,
      digest: { key: 'k', title: '{count}', body: 'b' },
    })),
    ...['older', 'newer'].map((id) => ({ id, onThrottle: 'latest' as const, collapseId: 'bus' })),
  ];
  for (const each of all) {
    await producer.enqueue(makeNotification({ recipientId: 'w', ...each }));
    await line(new RegExp(`"jobId":"${each.id}".*"outcome":"${each.id === 'first' ? 'delivered' : 'requeued'}"`));
  }
  const whyOf = async (id: string) => (await storyOf(prefix, id)).story.why.join(' ');
  expect(await whyOf('leader')).toMatch(/^It waits until .* for the gap of 1h after first/);
  expect(await whyOf('part')).toMatch(/^It waits for the digest leader, of which it is a part; /);
  expect(await whyOf('older')).toMatch(/^A newer one, newer, goes in its place/);
  expect(await whyOf('newer')).toMatch(/^It waits until .* for the gap of 1h after leader/);
});

it('tells of one that ended hours ago only by the history, and without one what may be the cause', async () => {
  const { queue, prefix, producer, startHere, line } = await openReplicaBench();
  await startHere(HISTORY);
  const fine = makeNotification({ id: 'fine', recipientId: 'x' });
  await producer.enqueueMany([
    fine,
    makeNotification({ id: 'past', recipientId: 'y', expiresAt: Date.now() + 60_000 }),
  ]);
  await line(/"jobId":"past".*"outcome":"delivered"/);
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(2), SOON);
  const before = await storyOf(prefix, 'fine');
  await queue.clean(0, 100, 'completed'); // as BullMQ does after an hour
  expect(await producer.status('fine')).toEqual({ state: 'unknown' });
  const after = await storyOf(prefix, 'fine');
  expect(after).toMatchObject({ state: 'ended', outcome: 'delivered', devices: { 'apns#0': 'delivered' } });
  expect(after.story).toEqual(before.story);

  const redis = connectRedis();
  await redis.del(...Object.values(historyKeys(prefix)));
  const gone = await storyOf(prefix, 'fine');
  expect(gone).toMatchObject({ state: 'unknown', story: { recorded: false, passes: [] } });
  expect(gone.story.why.join(' ')).toContain('or it ended more than an hour ago');
  expect(gone.story.why.at(-1)).toMatch(/HISTORY_MAX is not set for the workers, .* or Redis lost or evicted them/);
});

it('says of an id that is not known what the Redis of the queue has lost', async () => {
  const prefix = testPrefix();
  const server = { runId: 'a', isSame: true };
  for (const name of ['limiter', 'queue'] as const)
    await noteLoss(connectRedis(), prefix, { kind: 'emptied', redis: name, at: Date.now() - 120_000, server });
  const lost = /Redis was emptied \(its keys were deleted\), 2m.* ago: what waited, dead letters and slots are lost\./;
  expect((await storyOf(prefix, 'gone')).story.why.filter((each) => each.includes('emptied'))).toEqual([
    expect.stringMatching(lost),
  ]);
  const said = await outputOf(runMain(status, ['gone'], queueEnv(prefix)));
  expect(said.replaceAll(/\s+/g, ' ')).toMatch(lost);
  const json = await outputOf(runMain(status, ['gone', '--json'], queueEnv(prefix)));
  expect(JSON.parse(json)).toMatchObject({ state: 'unknown', losses: [{ kind: 'emptied', redis: 'queue' }] });
});

describe('one that was retracted', () => {
  it('says which retraction took it, which itself says what it took, also from the history', async () => {
    const { queue, prefix, producer, startHere, line } = await openReplicaBench();
    await startHere(HISTORY);
    await producer.enqueue(makeNotification({ id: 'wrong' }));
    await line(/"jobId":"wrong".*"outcome":"delivered"/);
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), SOON);
    await producer.retract({ id: 'wrong' });
    await line(/"outcome":"retracted"/);
    await expect
      .poll(async () => (await storyOf(prefix, 'wrong')).story.why.at(-1), SOON)
      .toMatch(/^The retraction retract-\S+ took it from its devices at /);
    const id = (await storyOf(prefix, 'wrong')).story.retractions?.[0]?.id ?? '';
    expect(await outputOf(runMain(status, ['wrong'], queueEnv(prefix)))).toMatch(/retracted +The retraction retract-/);
    const took = { outcome: 'retracted', story: { retracts: ['wrong'], recipientId: 'teacher-42' } };
    expect(await storyOf(prefix, id)).toMatchObject(took);
    await queue.clean(0, 100, 'completed'); // as BullMQ does after an hour
    const kept = await storyOf(prefix, id);
    expect(kept).toMatchObject(took);
    expect(kept.story.why[0]).toMatch(/^It took wrong from devices at /);

    await producer.retract({ id: 'wrong' });
    await expect
      .poll(() => storyOf(prefix, 'wrong'), SOON)
      .toMatchObject({
        outcome: 'delivered',
        story: {
          why: [expect.any(String), expect.stringMatching(/^It was retracted when the queue had forgotten it/)],
        },
      });
  });

  it('says that its retraction waits, or is a dead letter', async () => {
    const { prefix, producer, startHere, sandbox, line } = await openReplicaBench();
    await startHere({ LIMIT_BACKGROUND_RULES: '1/1h', LIMIT_MIN_GAP: '0' });
    const device = makeDevice('apns');
    const ids = ['a', 'b', 'c'];
    for (const id of ids) {
      await producer.enqueue(makeNotification({ id, recipientId: id === 'c' ? 'other' : 'one', devices: [device] }));
      await line(new RegExp(`"jobId":"${id}".*"outcome":"delivered"`));
    }
    await producer.retract({ id: 'a' });
    await line(/"outcome":"retracted"/);
    await producer.retract({ id: 'b' });
    const last = async (id: string) => (await storyOf(prefix, id)).story.why.at(-1);
    await expect
      .poll(() => last('b'), SOON)
      .toMatch(/^It is being taken back: the retraction retract-\S+ waits until /);
    sandbox.apns.script(device.token, [{ kind: 'refuse', status: 400, reason: 'BadDeviceToken' }]);
    await producer.retract({ id: 'c' });
    await expect.poll(() => last('c'), SOON).toMatch(/^The retraction retract-\S+ failed, and is a dead letter/);
  });

  it.each([1, 3])('before it came says so, in %i shards', async (shards) => {
    const { prefix, producer, startHere } = await openReplicaBench(undefined, { shards });
    await producer.retract({ id: 'early' });
    await producer.enqueue(makeNotification({ id: 'early' }));
    const why = ['It was retracted before it was enqueued, so it is not sent.'];
    expect(await storyOf(prefix, 'early')).toMatchObject({ state: 'waiting', story: { why } });
    await startHere({ QUEUE_SHARDS: String(shards) });
    await expect
      .poll(() => storyOf(prefix, 'early'), SOON)
      .toMatchObject({ state: 'ended', outcome: 'canceled', story: { why } });
    expect(await outputOf(runMain(status, ['early'], queueEnv(prefix)))).toContain(why[0]);
  });
});

/** The commands that Redis gets from now on, one a line, with those that scripts call. */
async function monitor(): Promise<readonly string[]> {
  const { hostname, port } = new URL(testRedisUrl());
  const socket = connect({ host: hostname, port: Number(port) });
  onTestFinished(() => void socket.destroy());
  socket.write('MONITOR\r\n');
  const lines: string[] = [];
  const reading = createInterface({ input: socket });
  await once(reading, 'line'); // +OK
  reading.on('line', (line) => lines.push(line));
  return lines;
}

it('records nothing where HISTORY_MAX is 0, and adds one command for each end where it is not', async () => {
  const runWith = async (env: Readonly<Record<string, string>>) => {
    const { queue, prefix, producer, startHere } = await openReplicaBench();
    const redis = connectRedis();
    await startHere({ LIMIT_MIN_GAP: '200ms', ...env });
    const lines = await monitor();
    await producer.enqueueMany([0, 1, 2].map((n) => makeNotification({ id: `m-${n}`, recipientId: 'm' })));
    await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(3), SOON);
    await redis.get(`${prefix}:last`); // MONITOR shows commands in their order
    await vi.waitFor(() => expect(lines.some((line) => line.includes(`${prefix}:last`))).toBe(true), SOON);
    const ofHistory = lines.filter((line) => line.includes(`${prefix}:history`) && !line.includes(' lua] '));
    return {
      commands: ofHistory.map((line) => / "(\w+)"/.exec(line)?.[1]?.toLowerCase()),
      keys: await redis.keys(`${prefix}:history*`),
      progress: JSON.stringify((await queue.getJobs(['completed'])).map((job) => job.progress)),
    };
  };
  const off = await runWith({});
  expect(off).toMatchObject({ commands: [], keys: [] });
  expect(off.progress).toContain('requeues');
  expect(off.progress).not.toContain('passes');
  const on = await runWith(HISTORY);
  expect(on.commands.slice(-2)).toEqual(['evalsha', 'evalsha']);
  expect(on.commands.length).toBeLessThanOrEqual(4); // a script that Redis does not know yet is sent twice
  expect(on.keys).toHaveLength(2);
  expect(on.progress).toContain('passes');
});

it('refuses an id that none can have, and shows no control character', async () => {
  const { prefix, queue } = await openReplicaBench();
  expect(await runMain(why, ['a b'], queueEnv(prefix))).toMatchObject({ code: 2 });
  const hostile = 'x\u001b[31m\u202e"><script>';
  const data = { id: 'h', recipientId: hostile, category: hostile, devices: 'none' };
  await queue.add('push', data, { jobId: 'h', priority: 10, enqueuedBy: `evil\u001b[2J` } as object);
  const shown = await text(prefix, 'h');
  expect(shown).toContain('\\u{1b}[31m');
  for (const never of ['\u001b', '\u202e', 'evil']) expect(shown).not.toContain(never);
});
