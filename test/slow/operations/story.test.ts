import { expect, it } from 'vitest';
import { main as replay } from '../../../scripts/replay.ts';
import { main as why } from '../../../scripts/why.ts';
import type { StoryPass } from '../../../src/notification/story.ts';
import { historyKeys } from '../../../src/queue/names.ts';
import { outputOf, runMain } from '../../support/command.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { connectRedis, queueEnv } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { storyOf } from '../../support/story.ts';

const SOON = { timeout: 20_000, interval: 50 };
const HISTORY = { HISTORY_MAX: '100' };
const resultsOf = (passes: readonly StoryPass[]) => passes.map(({ result }) => result);

it('has every pass in order: two requeues, an error of the provider, a death, a replay and the delivery', async () => {
  const { prefix, producer, sandbox, startHere, line } = await openReplicaBench();
  const [phone, tablet] = [makeDevice(), makeDevice('fcm')];
  const once = { kind: 'refuse', status: 500, reason: 'InternalServerError' } as const;
  sandbox.apns.script(phone.token, [once, { kind: 'refuse', status: 400, reason: 'BadTopic' }]);
  sandbox.fcm.script(tablet.token, [{ kind: 'refuse', status: 400, reason: 'INVALID_ARGUMENT' }]);
  const limits = { LIMIT_RULES: '2/3s', LIMIT_MIN_GAP: '1s', BACKOFF_BASE: '10ms', BACKOFF_MAX: '20ms' };
  await startHere({ ...HISTORY, ...limits });
  const makeOne = (id: string) => makeNotification({ id, recipientId: 'busy' });
  await producer
    .as('timetable')
    .enqueueMany([
      makeOne('first'),
      makeOne('second'),
      makeNotification({ id: 'late', recipientId: 'busy', devices: [phone, tablet], category: 'messages' }),
    ]);

  await line(/"jobId":"late".*"outcome":"dead-lettered"/);
  await expect.poll(() => storyOf(prefix, 'late'), SOON).toMatchObject({ state: 'dead-lettered', reason: 'rejected' });
  const dead = await storyOf(prefix, 'late');
  expect(dead.story).toMatchObject({ recipientId: 'busy', category: 'messages', enqueuedBy: 'timetable' });
  expect(dead.story.why.join(' ')).toMatch(/^It is a dead letter since .*: rejected, BadTopic/);

  expect(await runMain(replay, ['--recipient', 'busy', '--yes'], queueEnv(prefix))).toMatchObject({ code: 0 });
  await line(/"jobId":"late#r1".*"outcome":"delivered"/);
  await expect.poll(() => storyOf(prefix, 'late'), SOON).toMatchObject({ state: 'ended', outcome: 'delivered' });
  const { story } = await storyOf(prefix, 'late');
  expect(story.enqueuedAt).toBe(dead.story.enqueuedAt);
  expect(story.replayedAt).toBeGreaterThan(story.enqueuedAt ?? Infinity);
  const { passes } = story;
  // Put back until its slot; tried and refused once; put back until the next slot; refused for good.
  expect(resultsOf(passes).slice(0, resultsOf(passes).indexOf('replayed'))).toEqual(
    expect.arrayContaining(['requeued', 'retried', 'dead-letter']),
  );
  expect(resultsOf(passes).at(-1)).toBe('delivered');
  expect(passes.map(({ at }) => at)).toEqual(passes.map(({ at }) => at).toSorted((a, b) => a - b));

  const first = passes.find(({ result }) => result === 'requeued');
  expect(first).toMatchObject({
    before: 1,
    until: expect.any(Number) as number,
    worker: expect.stringMatching(/:\d+$/) as string,
  });
  expect(first?.rule).toMatch(/^(gap|2\/3s)$/);
  const retried = passes.find(({ result }) => result === 'retried');
  expect(retried).toMatchObject({ code: 'InternalServerError', slot: expect.any(Number) as number });
  expect(retried?.sends).toEqual([
    { device: 'apns#0', code: 'InternalServerError', tookMs: expect.any(Number) as number },
    { device: 'fcm#1', code: 'INVALID_ARGUMENT', tookMs: expect.any(Number) as number },
  ]);
  const replayed = passes.find(({ result }) => result === 'replayed');
  expect(replayed).toMatchObject({ reason: 'rejected', deadAt: expect.any(Number) as number });
  expect(passes.at(-1)?.sends?.every(({ accepted }) => accepted)).toBe(true);
  expect(passes.at(-1)?.lateMs).toBeLessThan(1_000);

  // Nobody learns a token or a text from it.
  const stored = JSON.stringify([story, dead, await connectRedis().hgetall(historyKeys(prefix).stories)]);
  for (const secret of [phone.token, tablet.token, 'Room 12', 'Field trip']) expect(stored).not.toContain(secret);
  expect(await outputOf(runMain(why, ['late'], queueEnv(prefix)))).toContain('replayed; it was a dead letter since');
});
