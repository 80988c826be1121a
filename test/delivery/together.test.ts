import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Notification } from '../../src/notification/notification.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { answerWell, enqueuedAtOf, openBench, POLICY, type Bench, type Passed } from './support.ts';

const DIGEST = {
  onThrottle: 'digest',
  digest: { key: 'thread-77', title: 'Class 7b', body: '{{count}} new' },
} as const;
const LATEST = { onThrottle: 'latest', collapseId: 'score' } as const;

/** The texts that arrived, in order. */
function shown({ sandbox }: Bench): string[] {
  return sandbox.journal.accepted.map(({ title = '', body = '' }) => `${title}: ${body}`);
}

const DEVICE = makeDevice('apns');
const make = (more: Partial<Notification> = {}) => makeNotification({ devices: [DEVICE], ...more });

const alertOf = (title: string) => ({ alert: { title, body: 'text' } });

/** The next request to APNs is refused. */
function fail({ sandbox }: Bench): void {
  sandbox.apns.script(DEVICE.token, [{ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' }]);
}

/** The next pass of a requeued one, when it is due. */
async function again({ run }: Bench, notification: Notification, { outcome, progress }: Passed): Promise<Passed> {
  if (outcome.kind !== 'requeued') throw new Error(`expected it to be requeued, found ${outcome.kind}`);
  await sleep(outcome.delayMs);
  return run(notification, progress);
}

describe('digest', () => {
  it('a part that expires when the limiter does not answer is asked about again, since the alert counts it', async () => {
    const bench = await openBench();
    await bench.run(make());
    const [holder, part] = [make(DIGEST), make({ ...DIGEST, expiresAt: bench.clock.now() + 5_000 })];
    const [holderWaits, partWaits] = [await bench.run(holder), await bench.run(part)];
    expect((await again(bench, holder, holderWaits)).outcome).toEqual({ kind: 'delivered' });
    bench.clock.advance(5_000);
    const endOf = () => Promise.reject(new LimiterUnavailableError('no answer'));
    const unknown = await bench.run(part, partWaits.progress, { endOf });
    expect(unknown.outcome).toMatchObject({ kind: 'deferred', code: 'limiter-unavailable' });
    expect((await bench.run(part, unknown.progress)).outcome).toEqual({ kind: 'merged', by: holder.id });
  });

  it('one that waited alone goes with its own text', async () => {
    const bench = await openBench();
    await bench.run(make());
    const alone = make({ ...DIGEST, ...alertOf('alone') });
    expect((await again(bench, alone, await bench.run(alone))).outcome).toEqual({ kind: 'delivered' });
    expect(shown(bench).at(-1)).toBe('alone: text');
  });

  it('is sent again as it was when a try failed, and takes nothing more', async () => {
    const bench = await openBench();
    await bench.run(make());
    const [holder, merged, late] = ['h', 'm', 'l'].map((title) => make({ ...DIGEST, ...alertOf(title) })) as [
      Notification,
      Notification,
      Notification,
    ];
    const waiting = await bench.run(holder);
    await bench.run(merged);
    fail(bench);
    const failed = await again(bench, holder, waiting);
    expect(failed.outcome).toMatchObject({ kind: 'retried' });
    expect(failed.progress.digest).toEqual({ count: 2, own: true });
    expect((await bench.run(late)).outcome).toMatchObject({ kind: 'delivered' }); // the failed one gave its slot back
    await sleep(1_000);
    const retried = await bench.run(holder, failed.progress);
    const ended = retried.outcome.kind === 'requeued' ? await again(bench, holder, retried) : retried;
    expect(ended.outcome).toEqual({ kind: 'delivered' });
    expect(shown(bench).at(-1)).toBe('Class 7b: 2 new');
  });
});

it('a notification of which one device was alerted joins no digest', async () => {
  const bench = await openBench();
  answerWell(bench.breakers);
  const devices = [DEVICE, makeDevice('fcm')];
  bench.sandbox.apns.script(DEVICE.token, [{ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' }]);
  const first = make({ ...DIGEST, devices });
  const failed = await bench.run(first);
  expect(failed.outcome).toMatchObject({ kind: 'retried' });
  const second = make({ ...DIGEST, ...alertOf('second') });
  const waiting = await bench.run(second);
  const retried = await bench.run(first, failed.progress);
  expect(retried.outcome).toMatchObject({ kind: 'requeued' });
  expect((await again(bench, second, waiting)).outcome).toEqual({ kind: 'delivered' });
  expect(shown(bench).at(-1)).toBe('second: text');
});

describe('latest', () => {
  it('one that was enqueued earlier for later is the newest from then on', async () => {
    const bench = await openBench();
    const sendAfter = bench.clock.now() + POLICY.minGapMs;
    const final = make({ ...LATEST, ...alertOf('final'), sendAfter });
    enqueuedAtOf(final.id);
    const goal = make({ ...LATEST, ...alertOf('goal') });
    expect((await bench.run(goal)).outcome).toEqual({ kind: 'delivered' });
    bench.clock.advance(POLICY.minGapMs);
    let passed = await bench.run(final);
    if (passed.outcome.kind === 'requeued') passed = await again(bench, final, passed);
    expect(passed.outcome).toEqual({ kind: 'delivered' });
    expect(shown(bench)).toEqual(['goal: text', 'final: text']);
  });
});
