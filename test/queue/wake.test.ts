import { Queue, Worker } from 'bullmq';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { QUEUE } from '../../src/queue/names.ts';
import { startWaker, type DelayedSet, type Waker } from '../../src/queue/wake.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

/** A delayed set whose looks are noted down; a job leaves it when it was looked at after its instant, as if woken. */
class Delayed implements DelayedSet {
  readonly looks: number[] = [];
  isAway = false;
  isBusy = false;
  #jobs: { id: string; dueAt: number }[] = [];

  add(dueAt: number): void {
    this.#jobs.push({ id: `job-${this.#jobs.length}-${dueAt}`, dueAt });
    this.#jobs.sort((a, b) => a.dueAt - b.dueAt);
  }

  zrange(): Promise<string[]> {
    this.looks.push(Date.now());
    if (this.isAway) return Promise.reject(new Error('away'));
    const [head] = this.#jobs;
    if (!this.isBusy) this.#jobs = this.#jobs.filter(({ dueAt }) => dueAt > Date.now());
    return Promise.resolve(head === undefined ? [] : [head.id, String(head.dueAt * 0x1000 + 7)]);
  }
}

describe('when it looks', () => {
  let delayed: Delayed;
  let waker: Waker;
  let from: number;
  /** To the waker an instant is one of `performance.now()`, on which nobody can set the clock. */
  const note = (dueAt: number, to = waker) => {
    to.note(from + dueAt - 1_000_000);
  };

  beforeEach(() => {
    vi.useFakeTimers({ now: 1_000_000 });
    from = performance.now();
    delayed = new Delayed();
    waker = startWaker({ redis: delayed, delayedKey: 'delayed' });
  });
  afterEach(async () => {
    await waker.close();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  const looksUntil = async (ms: number) => {
    await vi.advanceTimersByTimeAsync(ms);
    return delayed.looks.splice(0).map((at) => at - 1_000_000);
  };

  test('just after a job that was noted', async () => {
    delayed.add(1_000_200);
    note(1_000_200);
    expect(await looksUntil(500)).toEqual([202, 204]); // at 202 it sees the job woken, and has another look
  });

  test('after each of several, whatever the order of noting', async () => {
    for (const dueAt of [1_000_340, 1_000_100]) {
      delayed.add(dueAt);
      note(dueAt);
    }
    expect(await looksUntil(500)).toEqual([102, 104, 342, 344]);
  });

  test('ten thousand instants are one timer', () => {
    for (let n = 0; n < 10_000; n++) note(1_000_000 + 5 * ((7 * n) % 10_000));
    expect(vi.getTimerCount()).toBe(1);
  });

  test('once for all whose instant passed in a busy moment', async () => {
    for (const dueAt of [1_000_010, 1_000_020, 1_000_030, 1_000_400]) {
      delayed.add(dueAt);
      note(dueAt);
    }
    const steady = performance.now.bind(performance);
    const busy = vi.spyOn(performance, 'now').mockImplementation(() => steady() + 100);
    onTestFinished(() => busy.mockRestore());
    vi.setSystemTime(1_000_100); // the next timer is still 12 ms away, and finds three instants passed
    expect(await looksUntil(100)).toEqual([112, 114]);
    expect(await looksUntil(500)).toEqual([402, 404]);
  });

  test('less and less often for a job that nobody takes, because all are busy, and then no more', async () => {
    delayed.isBusy = true;
    delayed.add(1_000_100);
    note(1_000_100);
    expect(await looksUntil(10_000)).toEqual([102, 104, 108, 116, 132, 164, 228]);
  });

  test.for([60_000, -60_000])('just after a job, also where the clock is set by %i ms meanwhile', async (byMs) => {
    delayed.add(1_000_200 + byMs);
    note(1_000_200);
    vi.setSystemTime(1_000_000 + byMs);
    expect((await looksUntil(500)).map((at) => at - byMs)).toEqual([202, 204]);
  });

  test('again for a job that is due on Redis’s clock, which is not this machine’s', async () => {
    const other = startWaker({ redis: delayed, delayedKey: 'delayed', now: () => Date.now() + 60_000 });
    delayed.isBusy = true;
    delayed.add(1_060_100);
    note(1_000_100, other);
    expect(await looksUntil(100)).toEqual([]);
    expect(await looksUntil(10_000)).toHaveLength(7);
    await other.close();
  });

  test('not again where Redis is away', async () => {
    delayed.isAway = true;
    note(1_000_100);
    expect(await looksUntil(5_000)).toEqual([102]);
  });

  test('not for a job that is days ahead', () => {
    note(1_000_000 + 2 * 86_400_000);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('never after it was closed', async () => {
    note(1_000_050);
    await waker.close();
    note(1_000_100);
    expect(await looksUntil(5_000)).toEqual([]);
  });
});

test('waits for a look that is under way when it is closed', async () => {
  let answer: (reply: string[]) => void = () => undefined;
  const zrange = vi.fn(() => new Promise<string[]>((resolve) => (answer = resolve)));
  const waker = startWaker({ redis: { zrange }, delayedKey: 'delayed' });
  waker.note(performance.now());
  await waitFor(() => expect(zrange).toHaveBeenCalledTimes(1));
  let isClosed = false;
  const closing = waker.close().then(() => (isClosed = true));
  await new Promise(setImmediate);
  expect(isClosed).toBe(false);
  answer([]);
  await closing;
});

test('on a Redis whose clock ticks once a second, due jobs do not wait for the tick', async () => {
  const { url } = await ownRedis({ hz: 1 });
  const connect = () => connectRedis(url);
  const prefix = testPrefix();
  const queue = new Queue(QUEUE, { connection: connect(), prefix });
  const taken: number[] = [];
  const worker = new Worker(QUEUE, () => Promise.resolve(taken.push(Date.now())), { connection: connect(), prefix });
  const waker = startWaker({ redis: connect() as unknown as DelayedSet, delayedKey: queue.toKey('delayed') });
  await worker.waitUntilReady();

  const delay = 100;
  const lateMs: number[] = [];
  // One after the other: a machine that stands still makes one of them late.
  for (let n = 0; n < 15; n++) {
    const from = performance.now();
    const { timestamp } = await queue.add('push', {}, { delay });
    waker.note(from + delay);
    await waitFor(() => expect(taken).toHaveLength(n + 1));
    lateMs.push((taken[n] ?? NaN) - timestamp - delay);
  }
  await waker.close();
  await worker.close();
  await queue.close();
  // Without the waker each is taken with the next tick: the first one 0 to 1 s late, and those after it 0.9 s. With it, 3 ms.
  expect(lateMs.toSorted((a, b) => a - b)[7]).toBeLessThan(500);
});
