import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Entry } from '../../src/pause/pauses.ts';
import { LEASE_MS } from '../../src/pause/provider-pause.ts';
import { pauseKey } from '../../src/pause/store.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { accepted, openPauses, pauseOf, probeOf, refused, unreached, wanted } from './support.ts';

describe('a probe', () => {
  it('is lent once, whoever asks: 20 at a time on 5 workers, 20 times', async () => {
    const prefix = testPrefix();
    const workers = Array.from({ length: 5 }, () => openPauses(prefix, { baseMs: 100, maxMs: 100 }));
    const [first] = workers as [(typeof workers)[0]];
    first.pauses.report(refused());
    await waitFor(() => workers.forEach(pauseOf));
    for (let round = 0; round < 20; round++) {
      const entries = await waitFor(async () => {
        const all = await Promise.all(
          workers.flatMap((worker) =>
            Array.from({ length: 4 }, async () => ({ worker, entry: await worker.pauses.enter('apns') })),
          ),
        );
        expect(all.some(({ entry }) => entry.kind === 'probe')).toBe(true);
        return all;
      });
      const lent = entries.filter(({ entry }) => entry.kind === 'probe');
      expect(lent).toHaveLength(1);
      expect(entries.filter(({ entry }) => entry.kind === 'paused')).toHaveLength(19);
      await waitFor(async () => {
        const again = await Promise.all(workers.map(({ pauses }) => pauses.enter('apns')));
        expect(again.map(({ kind }) => kind)).toEqual(workers.map(() => 'paused'));
        expect(Math.min(...again.map(waitOf))).toBeGreaterThan(500); // once it is over by each worker's clock
      });
      const [{ worker, entry }] = lent as [(typeof lent)[0]];
      if (entry.kind === 'probe') worker.pauses.report(refused(), entry.probe);
    }
  });

  it('that goes well ends the pause for all, at once for who held it', async () => {
    const prefix = testPrefix();
    const [worker, other] = [openPauses(prefix), openPauses(prefix)];
    worker.pauses.report(refused());
    await waitFor(() => pauseOf(other));
    const probe = await probeOf(worker);
    expect((await other.pauses.enter('apns')).kind).toBe('paused');
    worker.pauses.report(accepted(), probe);
    expect(await worker.pauses.enter('apns')).toEqual({ kind: 'open' });
    const closedAt = performance.now();
    await waitFor(() => expect(other.pauses.current('apns')).toBeUndefined());
    expect(performance.now() - closedAt).toBeLessThan(1_000);
    expect(await connectRedis().keys(`*${prefix}*`)).toEqual([]);
    expect(worker.probeEnds).toEqual([{ platform: 'apns', result: 'well' }]);
    expect(worker.changes.map(({ pause }) => pause !== undefined)).toEqual([true, false]);
    expect(other.changes.map(({ by }) => by)).toEqual(['others', 'others']);
  });

  it('that fails doubles the pause, up to the longest, and keeps when it began', async () => {
    const worker = openPauses(testPrefix(), { baseMs: 100, maxMs: 400 });
    worker.pauses.report(refused());
    const { since } = pauseOf(worker);
    const lengths: number[] = [];
    for (let failed = 0; failed < 4; failed++) {
      const probe = await probeOf(worker);
      const at = Date.now();
      worker.pauses.report(refused(), probe);
      lengths.push(pauseOf(worker).until - at);
      expect(pauseOf(worker).since).toBe(since);
      await waitFor(() => expect(worker.changes).toHaveLength(failed + 2));
    }
    for (const [index, expected] of [200, 400, 400, 400].entries()) {
      expect(Math.abs((lengths[index] ?? 0) - expected)).toBeLessThan(50);
    }
    expect(worker.changes.every(({ by }) => by === 'us')).toBe(true);
  });

  it('that is given back goes to another one', async () => {
    const prefix = testPrefix();
    const [worker, other] = [openPauses(prefix), openPauses(prefix)];
    worker.pauses.report(refused());
    await waitFor(() => pauseOf(other));
    worker.pauses.release(await probeOf(worker));
    await probeOf(other);
    expect(worker.probeEnds).toEqual([{ platform: 'apns', result: 'unused' }]);
  });

  it('that says nothing of credentials, for the network is gone, leaves the alarm as it was', async () => {
    const prefix = testPrefix();
    const [worker, other] = [openPauses(prefix), openPauses(prefix)];
    worker.pauses.report(refused());
    worker.pauses.report(unreached(), await probeOf(worker));
    expect(pauseOf(worker)).toMatchObject({ trouble: 'auth', code: 'InvalidProviderToken' });
    await waitFor(() => expect(other.changes).toHaveLength(2));
    expect(pauseOf(other)).toMatchObject({ trouble: 'auth', code: 'InvalidProviderToken' });
    worker.pauses.report(wanted(20_000), await probeOf(worker));
    expect(pauseOf(worker)).toMatchObject({ trouble: 'quota', code: 'QUOTA_EXCEEDED' });
    expect(pauseOf(worker).until - Date.now()).toBeGreaterThan(15_000);
  });

  it('of a worker that died goes to another one when its lease is over, and tells nothing any more', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const key = pauseKey(prefix, 'apns');
    for (const [late, kind] of [
      [accepted(), 'well'],
      [refused(), 'failed'],
    ] as const) {
      const [dead, other] = [openPauses(prefix), openPauses(prefix)];
      dead.pauses.report(refused());
      await waitFor(() => pauseOf(other));
      const lost = await probeOf(dead);
      expect(Number(await redis.hget(key, 'lease')) - Date.now()).toBeGreaterThan(LEASE_MS - 5_000);
      await redis.hset(key, 'lease', Date.now() - 1); // as if it were 20 s later
      const probe = await probeOf(other);
      const before = await redis.hgetall(key);
      dead.pauses.report(late, lost);
      await waitFor(() => expect(dead.probeEnds).toEqual([{ platform: 'apns', result: kind }]));
      await sleep(300);
      expect(await redis.hgetall(key)).toEqual(before);
      expect(pauseOf(dead)).toEqual({ ...pauseOf(dead), trouble: 'auth' });
      other.pauses.report(accepted(), probe);
      await waitFor(() => expect(dead.pauses.current('apns')).toBeUndefined());
      await waitFor(async () => expect(await redis.exists(key)).toBe(0));
    }
  });
});

function waitOf(entry: Entry): number {
  return entry.kind === 'paused' ? entry.pause.until - Date.now() : NaN;
}
