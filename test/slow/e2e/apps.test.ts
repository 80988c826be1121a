import { describe, expect, it, vi } from 'vitest';
import type { JournalEntry } from '../../../sandbox/journal.ts';
import { invalidTokensKey } from '../../../src/queue/outcomes.ts';
import { openApps } from '../../support/apps.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { connectRedis } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';

/** What no worker has credentials for becomes a dead letter at once. */
const SOON = { CREDENTIALS_WAIT: '0' };
const TIMEOUT = { timeout: 60_000, interval: 20 };

/** Two apps beside the environment's, and a bench whose workers know them. */
async function openBench() {
  const bench = await openReplicaBench();
  const apps = await openApps(bench.sandbox);
  const [teacher, parent] = [await apps.make('teacher'), await apps.make('parent')];
  await apps.write({ teacher: teacher.blocks, parent: parent.blocks });
  const startWorker = (env: Readonly<Record<string, string>> = {}) =>
    bench.startHere({
      METRICS_PORT: '0',
      APPS_FILE: apps.path,
      PROVIDER_PAUSE_BASE: '200ms',
      PROVIDER_PAUSE_MAX: '400ms',
      ...SOON,
      ...env,
    });
  let added = 0;
  /** Adds a notification for one device of the app, and answers its device. */
  const push = async (
    app: string | undefined,
    platform: 'apns' | 'fcm' = 'apns',
    recipientId = `person-${++added}`,
  ) => {
    const device = { ...makeDevice(platform), ...(app !== undefined && { app }) };
    const notification = makeNotification({ recipientId, devices: [device] });
    await bench.queue.add('push', notification, { jobId: notification.id, priority: 10 });
    return device;
  };
  const accepted = (token: string) => bench.sandbox.journal.accepted.filter((entry) => entry.token === token);
  const untilAccepted = (token: string) =>
    vi.waitFor(() => {
      const [entry] = accepted(token);
      expect(entry).toBeDefined();
      return entry as JournalEntry;
    }, TIMEOUT);
  return { ...bench, apps, teacher, parent, startWorker, push, accepted, untilAccepted };
}

describe('a device', () => {
  it('is sent to with the credentials of its app, and a recipient is paced over all apps', async () => {
    const { startWorker, push, untilAccepted, teacher, parent, sandbox, queue, line } = await openBench();
    const worker = await startWorker();
    const own = sandbox.env();
    const expected = [
      [undefined, own['APNS_TOPIC'], own['APNS_TEAM_ID'], own['APNS_KEY_ID'], own['FCM_PROJECT_ID']],
      ...[teacher, parent].map(({ name, topic, teamId, keyId, projectId }) => [name, topic, teamId, keyId, projectId]),
    ] as const;
    for (const [app, topic, teamId, keyId, projectId] of expected) {
      expect(await untilAccepted((await push(app)).token)).toMatchObject({ topic, teamId, keyId });
      expect(await untilAccepted((await push(app, 'fcm')).token)).toMatchObject({ projectId });
    }
    expect(sandbox.journal.all).toHaveLength(6);

    await push('teacher', 'apns', 'one-person');
    await push('parent', 'fcm', 'one-person');
    await line(/"outcome":"requeued".*"rule":"gap"/);
    await vi.waitFor(async () => expect(await queue.getDelayedCount()).toBe(1), TIMEOUT);

    const metrics = await (await fetch(`${worker.url ?? ''}/metrics`)).text();
    expect(metrics).toContain('pushpacer_provider_seconds_count{platform="apns",meaning="accepted"} ');
    expect(metrics).toContain('pushpacer_provider_seconds_count{platform="fcm",app="parent",meaning="accepted"} 1');
    expect(metrics).toContain('pushpacer_breaker_open_seconds{platform="apns"} 0');
    expect(metrics).toContain('pushpacer_breaker_open_seconds{platform="apns",app="teacher"} 0');
  });

  it('of an app that there is not ends as provider-not-configured, with the name of that app alone', async () => {
    const { startWorker, push, deadQueue } = await openBench();
    await startWorker();
    await push('pupil', 'fcm');
    await vi.waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1), TIMEOUT);
    const [letter] = await deadQueue.getJobs();
    expect(letter?.data).toMatchObject({
      reason: 'provider-not-configured',
      message: 'no credentials for fcm of the app "pupil"',
      attempts: [{ device: 'fcm#0', error: 'no credentials for fcm of the app "pupil"' }],
    });
    expect(JSON.stringify(letter?.data)).not.toContain('teacher');
  });

  it('that is gone is reported with its app', async () => {
    const { startWorker, queue, sandbox, prefix, deadQueue } = await openBench();
    await startWorker();
    const device = { ...makeDevice(), app: 'teacher' };
    sandbox.apns.script(device.token, [
      { kind: 'refuse', status: 410, reason: 'Unregistered', timestamp: 1_700_000_000_000 },
    ]);
    await queue.add('push', makeNotification({ devices: [device] }), { priority: 10 });
    await vi.waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1), TIMEOUT);
    const [entry] = await connectRedis().xrange(invalidTokensKey(prefix), '-', '+');
    expect(entry?.[1]).toEqual([
      ...['recipientId', 'teacher-42', 'platform', 'apns', 'token', device.token, 'app', 'teacher'],
      ...['meaning', 'gone', 'reason', 'Unregistered', 'timestamp', '1700000000000'],
    ]);
  });
});

describe('an app whose key is refused', () => {
  it('stops no other app, and goes on by itself with a new key', async () => {
    const { startWorker, push, accepted, untilAccepted, sandbox, teacher, apps, prefix, line, lines } =
      await openBench();
    const worker = await startWorker();
    await untilAccepted((await push('teacher')).token);
    sandbox.apns.revokeKey(teacher.keyId);
    const refused = await push('teacher');
    const opened = await line(/circuit breaker open/);
    expect(JSON.parse(opened)).toMatchObject({
      platform: 'apns',
      app: 'teacher',
      trouble: 'auth',
      code: 'InvalidProviderToken',
    });
    await untilAccepted((await push('parent')).token);
    await untilAccepted((await push(undefined)).token);
    await untilAccepted((await push('teacher', 'fcm')).token);
    const ready = (await (await fetch(`${worker.url ?? ''}/readyz`)).json()) as Record<string, object>;
    expect(ready).toMatchObject({
      ok: true,
      providers: { apns: { breaker: 'closed' }, fcm: { breaker: 'closed' } },
      apps: { teacher: { apns: { breaker: 'open', trouble: 'auth' } } },
    });
    expect(Object.keys(ready['apps'] ?? {})).toEqual(['teacher']);
    expect(await connectRedis().exists(`${prefix}:breaker:apns~teacher`, `${prefix}:breaker:apns`)).toBe(1);
    expect(accepted(refused.token)).toEqual([]);

    const rotated = await apps.make('teacher', 'NEWKEY');
    await apps.write({ teacher: rotated.blocks, parent: (await apps.make('parent', 'PARENTKEY2')).blocks });
    worker.reload('SIGHUP');
    const logged = JSON.parse(await line(/credentials read anew/)) as { changes: unknown };
    expect(logged.changes).toEqual([
      { platform: 'apns', app: 'teacher', change: 'replaced', fields: ['key', 'keyId'] },
      { platform: 'apns', app: 'parent', change: 'replaced', fields: ['key', 'keyId'] },
    ]);
    expect(await untilAccepted(refused.token)).toMatchObject({ keyId: 'NEWKEY', topic: teacher.topic });
    expect(await untilAccepted((await push('parent')).token)).toMatchObject({ keyId: 'PARENTKEY2' });
    expect(lines.join('')).not.toContain('PRIVATE KEY');
  });
});

describe('the quota of an app', () => {
  it('applies to that app alone, and has a key of its own', async () => {
    const { startWorker, push, accepted, untilAccepted, apps, teacher, parent, prefix, line } = await openBench();
    await apps.write({
      teacher: { ...teacher.blocks, apns: { ...teacher.blocks.apns, quota: '1/1h' } },
      parent: parent.blocks,
    });
    await startWorker({ APNS_QUOTA: '100/1h' });
    await untilAccepted((await push('teacher')).token);
    const over = await push('teacher');
    await line(/"outcome":"requeued".*"rule":"apns~teacher:1\/1h"/);
    await untilAccepted((await push('parent')).token);
    await untilAccepted((await push('teacher', 'fcm')).token);
    await untilAccepted((await push(undefined)).token);
    expect(accepted(over.token)).toEqual([]);
    const keys = await connectRedis().keys(`${prefix.replaceAll(/[{}]/g, '')}:quota:*:taken`);
    expect(keys.map((key) => /\{(.*)\}/.exec(key)?.[1]).sort()).toEqual(['apns', 'apns~teacher']);
  });
});

describe('the file of apps', () => {
  it('is read anew when it changes: what is good is used, what has faults stays as it was', async () => {
    const { startWorker, push, untilAccepted, apps, teacher, parent, deadQueue, line, lines } = await openBench();
    await startWorker();
    const pupil = await apps.make('pupil');
    const broken = { ...parent.blocks, apns: { ...parent.blocks.apns, keyFile: 'none.p8' } };
    await apps.write({ parent: broken, pupil: pupil.blocks });
    const { changes } = JSON.parse(await line(/credentials read anew/)) as { changes: { app: string }[] };
    expect(changes.map(({ app }) => app)).toEqual(['pupil', 'pupil', 'teacher', 'teacher']);
    const { faults } = JSON.parse(await line(/new credentials have faults/)) as { faults: string[] };
    expect(faults).toEqual([
      expect.stringMatching(/apps\.json: apps\.parent\.apns\.keyFile: expected a file .*ENOENT/),
    ]);
    expect(await untilAccepted((await push('pupil')).token)).toMatchObject({ topic: pupil.topic });
    expect(await untilAccepted((await push('parent')).token)).toMatchObject({ topic: parent.topic });
    await push('teacher');
    await vi.waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1), TIMEOUT);
    expect(lines.join('')).not.toContain(teacher.blocks.apns['endpoint']);
  });
});
