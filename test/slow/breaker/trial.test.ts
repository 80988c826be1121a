import { describe, expect, it } from 'vitest';
import { breakerKeys, type BreakerRedis } from '../../../src/breaker/redis-breakers.ts';
import type { Evidence } from '../../../src/breaker/breaker.ts';
import { TROUBLES, type Trouble } from '../../../src/notification/outcome.ts';
import { connectRedis, testPrefix } from '../../support/redis.ts';
import { waitFor } from '../../support/wait.ts';
import {
  accepted,
  BASE_MS,
  openBreakers,
  openOf,
  refused,
  reportTimes,
  trialOf,
  unreached,
  untilClosed,
  wanted,
  type BreakerWorker,
} from '../../breaker/support.ts';

function three(prefix = testPrefix()): [BreakerWorker, BreakerWorker, BreakerWorker] {
  return [openBreakers(prefix), openBreakers(prefix), openBreakers(prefix)];
}

const isHalfOpen = (worker: BreakerWorker) => waitFor(() => expect(openOf(worker).until).toBeLessThan(Date.now()));

describe('a half open breaker', () => {
  it('lets one of thirty notifications of three workers through, in each of 20 races', async () => {
    const races = Array.from({ length: 20 }, async () => {
      const workers = three();
      workers[0].breakers.report(refused());
      await Promise.all(workers.map((worker) => waitFor(() => openOf(worker))));
      await Promise.all(workers.map(isHalfOpen));
      await new Promise((resolve) => setTimeout(resolve, 50)); // Redis may have it open for a round trip longer
      const asked = workers.flatMap(({ breakers }, of) =>
        Array.from({ length: 10 }, (_, index) => breakers.enter('apns', `msg-${of}-${index}`)),
      );
      const kinds = (await Promise.all(asked)).map(({ kind }) => kind);
      return ['trial', 'open'].map((kind) => kinds.filter((each) => each === kind).length);
    });
    expect(await Promise.all(races)).toEqual(races.map(() => [1, 29]));
  });

  it('closes for all where the trial succeeds, and logs how long it was open', async () => {
    const [worker, other, third] = three();
    worker.breakers.report(refused());
    await Promise.all([other, third].map((each) => waitFor(() => openOf(each))));
    other.breakers.report(accepted(), await trialOf(other));
    expect(await other.breakers.enter('apns', 'msg')).toEqual({ kind: 'closed' });
    await Promise.all([worker, third].map(untilClosed));
    for (const { changes } of [worker, other, third]) {
      expect(changes.map(({ open }) => open?.trouble)).toEqual(['auth', undefined]);
      expect(changes[1]?.before).toMatchObject({ trouble: 'auth', code: 'InvalidProviderToken' });
    }
    expect(other.trialEnds).toEqual([{ service: 'apns', result: 'success' }]);
  });

  it('is learned to be closed by who asks for the trial, before the next reading', async () => {
    const prefix = testPrefix();
    const [worker, other] = [openBreakers(prefix), openBreakers(prefix)];
    const redis = connectRedis();
    worker.breakers.report(refused());
    await waitFor(() => openOf(other));
    await isHalfOpen(other);
    await redis.del(breakerKeys(prefix, 'apns'));
    expect(await other.breakers.enter('apns', 'msg')).toEqual({ kind: 'closed' });
  });

  it('opens for twice as long with each failed trial, up to the longest, for all', async () => {
    const [worker, other] = three();
    worker.breakers.report(refused());
    const { since } = openOf(worker);
    await waitFor(() => openOf(other));
    for (const [trials, factor] of [2, 4, 4].entries()) {
      const trial = await trialOf(worker, `msg-${trials}`);
      const at = Date.now();
      worker.breakers.report(refused(), trial);
      expect(openOf(worker).until - at).toBeGreaterThanOrEqual(factor * BASE_MS);
      expect(openOf(worker).until - Date.now()).toBeLessThanOrEqual(factor * BASE_MS);
      await waitFor(() => expect(other.changes).toHaveLength(trials + 2));
      expect(openOf(other)).toMatchObject({ trouble: 'auth', since });
    }
    expect(worker.trialEnds.map(({ result }) => result)).toEqual(['failure', 'failure', 'failure']);
  });

  it('gives the trial to another notification where it was released, or died with its worker', async () => {
    const prefix = testPrefix();
    const [worker, other] = [openBreakers(prefix), openBreakers(prefix)];
    const redis = connectRedis();
    const [, trialKey] = breakerKeys(prefix, 'apns');
    worker.breakers.report(refused());
    await waitFor(() => openOf(other));
    const first = await trialOf(worker);
    expect(await redis.get(trialKey)).toBe(first.id);
    expect((await other.breakers.enter('apns', 'msg')).kind).toBe('open');
    worker.breakers.release(first);
    expect(worker.trialEnds).toEqual([{ service: 'apns', result: 'unused' }]);
    const second = await trialOf(other);
    expect(await redis.pttl(trialKey)).toBeGreaterThan(15_000);
    expect(await redis.pttl(trialKey)).toBeLessThanOrEqual(20_000);
    await redis.pexpire(trialKey, 1); // as if it were 20 s later
    const third = await trialOf(worker);
    // The late answer of a trial that another one has by now changes nothing for the others.
    other.breakers.report(refused(), second);
    await waitFor(() => expect(openOf(other).until).toBeLessThan(Date.now()));
    expect(await redis.get(trialKey)).toBe(third.id);
    worker.breakers.report(accepted(), third);
    await Promise.all([worker, other].map(untilClosed));
  });

  it('has given back the trial that was released when its worker has closed', async () => {
    const prefix = testPrefix();
    const worker = openBreakers(prefix);
    worker.breakers.report(refused());
    worker.breakers.release(await trialOf(worker));
    await worker.breakers.close();
    expect(await connectRedis().exists(...breakerKeys(prefix, 'apns'))).toBe(1);
  });

  it('heeds a longer Retry-After that comes while the trial is under way, whatever becomes of the trial', async () => {
    const prefix = testPrefix();
    const [worker, other] = [openBreakers(prefix), openBreakers(prefix)];
    worker.breakers.report(wanted(BASE_MS));
    await waitFor(() => openOf(other));
    const trial = await trialOf(worker);
    other.breakers.report(wanted(30_000));
    await waitFor(() => expect(openOf(worker).until - Date.now()).toBeGreaterThan(20_000));
    worker.breakers.report(accepted(), trial);
    expect(openOf(worker).until - Date.now()).toBeGreaterThan(20_000);
    await worker.breakers.close();
    expect(openOf(worker).until - Date.now()).toBeGreaterThan(20_000);
    expect(openOf(other).until - Date.now()).toBeGreaterThan(20_000);
  });
});

describe('a recipient whose trial failed', () => {
  it.each(['auth', 'outage'] as const)('lets others go first, and gets through where it is alone (%s)', async (of) => {
    const [worker, other] = three();
    const fail = of === 'auth' ? refused : unreached;
    reportTimes(5, worker, fail);
    const asker = of === 'auth' ? other : worker;
    await waitFor(() => openOf(asker));
    await isHalfOpen(worker); // an early trial that fails changes nothing
    worker.breakers.report({ ...fail(), recipientId: 'poison' }, await trialOf(worker, 'poison'));
    await waitFor(() => expect(openOf(asker).until - openOf(asker).since).toBeGreaterThan(2 * BASE_MS));
    await isHalfOpen(asker);
    expect((await asker.breakers.enter('apns', 'poison')).kind).toBe('open');
    asker.breakers.release(await trialOf(asker, 'another'));
    expect((await asker.breakers.enter('apns', 'poison')).kind).toBe('open');
    expect(await trialOf(asker, 'poison')).toBeDefined();
  });

  it('is no trial at a worker either that has not learned of it yet', async () => {
    const prefix = testPrefix();
    const worker = openBreakers(prefix);
    const client = connectRedis();
    const unread: BreakerRedis = {
      eval: (...args) => (args.includes('read') ? Promise.resolve(undefined) : client.eval(...args)),
    };
    const behind = openBreakers(prefix, {}, unread);
    for (const each of [worker, behind]) each.breakers.report(refused());
    worker.breakers.report({ ...refused(), recipientId: 'poison' }, await trialOf(worker, 'poison'));
    await isHalfOpen(worker);
    await new Promise((resolve) => setTimeout(resolve, 50)); // Redis may have it open for a round trip longer
    expect((await behind.breakers.enter('apns', 'poison')).kind).toBe('open');
    expect(await trialOf(worker, 'another')).toBeDefined();
  });
});

describe('an outage', () => {
  it('has a trial of its own on each worker, doubles, and closes', async () => {
    const [worker, other] = three();
    for (const each of [worker, other]) reportTimes(5, each, unreached);
    worker.breakers.report({ ...unreached(), recipientId: 'odd' }); // it has no early trial
    await Promise.all([worker, other].map(isHalfOpen)); // before that trials are early ones
    const [trial, others] = [await trialOf(worker), await trialOf(other)];
    expect((await worker.breakers.enter('apns', 'odd')).kind).toBe('open');
    worker.breakers.report(unreached(), trial);
    expect(openOf(worker).until - Date.now()).toBeGreaterThan(BASE_MS);
    other.breakers.report({ ...accepted(), suspect: 'configuration', code: 'BadDeviceToken' }, others);
    expect(other.breakers.current('apns')).toBeUndefined();
    expect(openOf(worker).trouble).toBe('outage');
  });

  it('is not found again in what was answered while it was open', async () => {
    const worker = openBreakers(testPrefix());
    reportTimes(5, worker, unreached);
    reportTimes(4, worker, unreached);
    worker.breakers.report(accepted(), await trialOf(worker));
    worker.breakers.report(unreached());
    expect(worker.breakers.current('apns')).toBeUndefined();
  });
});

describe("a trial's answer", () => {
  const answers: [name: string, fields: Partial<Evidence>, after: (Trouble | undefined)[]][] = [
    ['a good one', {}, [undefined, undefined, undefined, undefined]],
    ['refused credentials', { trouble: 'auth' }, ['auth', 'auth', 'auth', 'auth']],
    ['a quota of all', { trouble: 'quota' }, ['quota', 'quota', 'quota', 'quota']],
    ['no connection', { suspect: 'outage' }, ['auth', 'configuration', 'quota', 'outage']],
    ["a device's quota", { suspect: 'quota' }, [undefined, undefined, 'quota', undefined]],
    ['a bad token', { suspect: 'configuration' }, [undefined, 'configuration', undefined, undefined]],
  ];
  it.each(answers)('%s closes the breaker, or says why not (auth, configuration, quota, outage)', async (...row) => {
    const [, fields, expected] = row;
    const after = TROUBLES.map(async (trouble) => {
      const worker = openBreakers(testPrefix());
      const opener = { ...accepted(), trouble, code: 'old', retryAfterMs: BASE_MS };
      worker.breakers.report(opener);
      worker.breakers.report({ ...accepted(), ...fields, code: 'new' }, await trialOf(worker));
      return worker.breakers.current('apns')?.trouble;
    });
    expect(await Promise.all(after)).toEqual(expected);
  });
});
