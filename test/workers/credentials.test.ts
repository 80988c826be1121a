import { describe, expect, test } from 'vitest';
import { main as doctor } from '../../scripts/doctor.ts';
import { main as status } from '../../scripts/status.ts';
import type { StatusResult } from '../../src/operations/status.ts';
import { jsonOf, runMain } from '../support/command.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { openRedisProxy } from '../support/redis-proxy.ts';
import { queueEnv, testRedisUrl } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { storyOf } from '../support/story.ts';
import { waitFor } from '../support/wait.ts';
import { SLOW, deliver, ends, openRunning } from '../support/waiting.ts';

/** Workers that lack the credentials of a platform, beside others that have them. */

const FAST = { LIMIT_RULES: '1000/1m', LIMIT_MIN_GAP: '0' };
const WITHOUT_FCM = { FCM_ENDPOINT: '', FCM_PROJECT_ID: '', GOOGLE_APPLICATION_CREDENTIALS: '' };
const WITHOUT_APNS = { APNS_KEY_FILE: '', APNS_KEY: '', APNS_KEY_ID: '', APNS_TEAM_ID: '', APNS_TOPIC: '' };

const statusOf = (bench: ReplicaBench) => jsonOf<StatusResult>(runMain(status, ['--json'], queueEnv(bench.prefix)));
const outcomeOf = async (bench: ReplicaBench, id: string) => {
  const status = await bench.producer.status(id);
  return status.state === 'ended' ? status.outcome : status.state;
};

test('a worker without a platform puts its jobs back for one that has it: none becomes a dead letter', async () => {
  const bench = await openRunning({ ...FAST, ...WITHOUT_FCM, CREDENTIALS_WAIT: '0' });
  await bench.startHere(FAST);
  const all = Array.from({ length: 40 }, (_, index) =>
    makeNotification({ recipientId: `r-${index}`, devices: [makeDevice('fcm')] }),
  );
  await bench.producer.enqueueMany(all);
  // Either worker takes a job, by chance: of forty, one may come to the wrong one ten times.
  await waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(all.length));
  for (const { id } of all) await ends(bench, id, 'delivered');
  expect(bench.sandbox.journal.accepted).toHaveLength(all.length);
  expect(await bench.line(/no credentials for fcm: put back for a worker that has them/)).toContain('"level":"warn"');
});

test('status and doctor say which worker lacks what', async () => {
  const bench = await openRunning({ ...FAST, ...WITHOUT_FCM });
  await bench.startHere(FAST);
  expect((await statusOf(bench)).wrong).toMatchObject([
    {
      kind: 'credentials',
      text: expect.stringMatching(/^credentials are missing at 1 of 2 workers: fcm \(/) as string,
    },
  ]);
  const examined = async (env: Readonly<Record<string, string>>) => {
    const { stdout } = await runMain(doctor, ['--json'], { ...bench.env, ...FAST, METRICS_PORT: 'off', ...env });
    return stdout;
  };
  const lack = /credentials are missing at 1 of 2 workers: fcm \(\S+ \(process \d+\)\)/;
  expect(await examined({})).toMatch(lack);
  const without = await examined(WITHOUT_FCM);
  expect(without).toMatch(lack);
  expect(without).toContain('some have credentials for fcm, and this environment has none');
});

test('devices that no worker has all credentials for are alerted by one worker each', async () => {
  const bench = await openRunning({ ...FAST, ...WITHOUT_FCM });
  await bench.startHere({ ...FAST, ...WITHOUT_APNS });
  const one = makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] });
  await deliver(bench, one);
  expect(bench.sandbox.journal.accepted.map(({ platform }) => platform).toSorted()).toEqual(['apns', 'fcm']);
});

test('the only worker that has them gets the jobs although it is farther from Redis', async () => {
  const bench = await openRunning({ ...FAST, ...WITHOUT_FCM });
  const proxy = await openRedisProxy(Number(new URL(testRedisUrl()).port));
  proxy.delay({ leastMs: 4, mostMs: 6 });
  await bench.startHere({ ...FAST, REDIS_URL: proxy.url });
  for (let sent = 0; sent < 3; sent++) await deliver(bench, makeNotification({ devices: [makeDevice('fcm')] }));
});

describe('where no living worker has them', () => {
  test('status and why name the platform', async () => {
    const bench = await openRunning({ ...FAST, ...WITHOUT_FCM });
    await bench.startHere({ ...FAST, ...WITHOUT_FCM });
    const devices = [makeDevice('apns'), makeDevice('fcm')];
    const one = makeNotification({ devices });
    await bench.producer.enqueue(one);
    await waitFor(async () => {
      const { wrong, waiting } = await statusOf(bench);
      expect(wrong).toEqual([
        { kind: 'credentials', text: '1 notification waits for credentials that no living worker has: fcm' },
      ]);
      expect(waiting.credentials).toMatchObject({ fcm: 1 });
    });
    await waitFor(async () => {
      const { story } = await storyOf(bench.prefix, one.id);
      expect(story.why.join(' ')).toMatch(
        /^It waits until .*, for a worker with credentials for fcm\. No living worker has them; it is put back since /,
      );
    });
  });

  test('status names the platform for which a notification died, until a worker has them', async () => {
    const bench = await openRunning({ ...FAST, ...WITHOUT_FCM, CREDENTIALS_WAIT: '0' });
    await bench.producer.enqueue(makeNotification({ devices: [makeDevice('fcm')] }));
    await waitFor(async () => expect((await statusOf(bench)).deadLetters.total).toBe(1));
    expect((await statusOf(bench)).wrong).toEqual([
      { kind: 'credentials', text: 'notifications died, since no living worker has credentials for fcm' },
    ]);
    await bench.startHere({ ...FAST, ...WITHOUT_APNS });
    await waitFor(async () => {
      const { wrong } = await statusOf(bench);
      expect(wrong).toEqual([
        { kind: 'credentials', text: expect.stringMatching(/^credentials are missing/) as string },
      ]);
    });
  });

  test('it becomes a dead letter after CREDENTIALS_WAIT, with no slot taken', async () => {
    const bench = await openRunning({ ...SLOW, ...WITHOUT_FCM, CREDENTIALS_WAIT: '1s' });
    const [lacks, has] = [makeNotification({ devices: [makeDevice('fcm')] }), makeNotification()];
    await bench.producer.enqueue(lacks);
    await waitFor(async () => {
      expect(await bench.producer.status(lacks.id)).toMatchObject({ state: 'waiting', rule: 'credentials' });
    });
    await waitFor(async () => {
      expect(await bench.producer.status(lacks.id)).toMatchObject({
        state: 'dead-lettered',
        reason: 'provider-not-configured',
        message: 'no credentials for fcm',
      });
    });
    await bench.producer.enqueue({ ...has, recipientId: lacks.recipientId });
    await ends(bench, has.id, 'delivered');
  });

  test('it is delivered by a worker that comes within that time, and can be canceled before', async () => {
    const bench = await openReplicaBench();
    const lacking = await bench.startHere({ ...FAST, ...WITHOUT_FCM });
    const [one, other] = [0, 1].map((index) =>
      makeNotification({ recipientId: `r-${index}`, devices: [makeDevice('fcm')] }),
    ) as [ReturnType<typeof makeNotification>, ReturnType<typeof makeNotification>];
    await bench.producer.enqueueMany([one, other]);
    for (const { id } of [one, other])
      await waitFor(async () => {
        expect(await bench.producer.status(id)).toMatchObject({ state: 'waiting', rule: 'credentials' });
      });
    expect(await bench.producer.cancel({ id: other.id })).toEqual({ canceled: 1, tooLate: 0 });
    await bench.startHere(FAST);
    await lacking.stop(); // it would not know of the new one for 5 s, and put the job back for longer
    await ends(bench, one.id, 'delivered');
    expect(await outcomeOf(bench, other.id)).toBe('canceled');
    expect(bench.sandbox.journal.accepted).toHaveLength(1);
  });

  test('the devices that a worker has credentials for are alerted at once', async () => {
    const bench = await openRunning({ ...FAST, ...WITHOUT_FCM, CREDENTIALS_WAIT: '2s' });
    const one = makeNotification({ devices: [makeDevice('fcm'), makeDevice('apns')] });
    await bench.producer.enqueue(one);
    await waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(1));
    await ends(bench, one.id, 'delivered');
    expect(await bench.producer.status(one.id)).toMatchObject({
      devices: { 'fcm#0': 'provider-not-configured', 'apns#1': 'delivered' },
    });
    expect(bench.sandbox.journal.accepted).toHaveLength(1);
  });
});
