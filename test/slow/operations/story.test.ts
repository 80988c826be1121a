import { describe, expect, it } from 'vitest';
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

describe('one that waits says why', () => {
  it('for an attempt, a provider that is down, sendAfter, a worker that is not there', async () => {
    const { prefix, producer, sandbox, startHere, line } = await openReplicaBench();
    const later = makeNotification({ id: 'later', sendAfter: Date.now() + 3_600_000 });
    await producer.enqueueMany([makeNotification({ id: 'new', recipientId: 'n' }), later]);
    const whyOf = async (id: string) => (await storyOf(prefix, id)).story.why.join(' ');
    expect(await whyOf('new')).toBe('It waits for a worker; 0 jobs are taken before it. No worker is alive.');
    expect(await whyOf('later')).toMatch(/: its producer wants it to be sent no earlier \(sendAfter\)\. No worker/);

    const phone = makeDevice();
    sandbox.apns.script(phone.token, [{ kind: 'refuse', status: 500, reason: 'InternalServerError' }]);
    const replica = await startHere({ BACKOFF_BASE: '1h', BACKOFF_MAX: '1h' });
    await producer.enqueue(makeNotification({ id: 'again', recipientId: 'a', devices: [phone, makeDevice('fcm')] }));
    await line(/"jobId":"again".*"outcome":"retried"/);
    await expect
      .poll(() => whyOf('again'), SOON)
      .toMatch(
        /, for another attempt: attempt 1 failed at apns#0 at \S+Z with InternalServerError\. Delivered already: fcm#1\.$/,
      );

    sandbox.setAnswers([{ platform: 'apns', reason: 'InvalidProviderToken' }]);
    await producer.enqueue(makeNotification({ id: 'held', recipientId: 'h' }));
    await line(/"jobId":"held".*"outcome":"held"/);
    await expect
      .poll(() => whyOf('held'), SOON)
      .toMatch(
        /its provider refuses the credentials.* Nothing is sent to apns since \S+Z \(.*\): auth, InvalidProviderToken\./,
      );
    await replica.stop();
    expect(await whyOf('held')).toContain('No worker is alive.');
  });
});
