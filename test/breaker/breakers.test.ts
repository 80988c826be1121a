import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { PLATFORMS } from '../../src/notification/notification.ts';
import { connectCluster } from '../support/cluster.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import {
  accepted,
  countAnswers,
  LONG,
  openBreakers,
  openOf,
  overQuota,
  refused,
  reportTimes,
  trialOf,
  unreached,
  untilClosed,
  wanted,
} from './support.ts';

const FIRST_MS = 100;
const OTHERS_MS = 1_000;
/** Recipients that failed come later by this. */
const STAND_BACK_MS = 2_000;

/** An open breaker, and the time of its worker's clock in `clock.at`. */
function openAtClock(evidence: typeof refused, times = 1) {
  const clock = { at: 1_000_000 };
  const worker = openBreakers(testPrefix(), { ...LONG, now: () => clock.at });
  reportTimes(times, worker, evidence);
  const until = (recipientId: string, enqueuedAt: number) =>
    worker.breakers.deferUntil('apns', { recipientId, enqueuedAt });
  /** When one comes back, after the breaker is half open. */
  const backAt = (enqueuedAt = 0, recipientId = 'somebody') => until(recipientId, enqueuedAt) - openOf(worker).until;
  return { clock, worker, until, backAt };
}

it('brings one back when the breaker is half open, and all others when the trial has been answered', () => {
  const { backAt } = openAtClock(refused);
  expect([backAt(), backAt(), backAt()]).toEqual([FIRST_MS, OTHERS_MS, OTHERS_MS]);
});

it('does not bring back the recipient whose trial failed as the next one', async () => {
  const { clock, worker, backAt } = openAtClock(unreached, 5);
  clock.at = openOf(worker).until;
  worker.breakers.report({ ...unreached(), recipientId: 'poison' }, await trialOf(worker, 'poison'));
  expect([backAt(0, 'poison'), backAt(0, 'poison')]).toEqual([STAND_BACK_MS + FIRST_MS, STAND_BACK_MS + OTHERS_MS]);
  expect(backAt(0, 'another')).toBeLessThan(0); // an early trial
});

it('keeps the order of enqueuing, an hour in three minutes, and nobody waits for more than ten', () => {
  const { backAt } = openAtClock(refused);
  backAt(7_000_000);
  const places = [-60_000, 0, 60_000, 3_600_000, 86_400_000].map((after) => backAt(7_000_000 + after) - OTHERS_MS);
  expect(places).toEqual([0, 3_000, 6_000, 183_000, 590_000]);
});

it('keeps the order of enqueuing also of what comes when it has been open for hours, without a longer wait', async () => {
  const { clock, worker, backAt } = openAtClock(unreached, 5);
  clock.at += 4 * 3_600_000;
  backAt(0);
  worker.breakers.report({ ...unreached(), recipientId: 'a' }, await trialOf(worker, 'a'));
  for (const first of [0, 1]) backAt(clock.at + first, 'a');
  const places = [0, 20_000, 40_000].map((after) => backAt(clock.at + after, 'a') - STAND_BACK_MS - OTHERS_MS);
  expect(places).toEqual([0, 1_000, 2_000]);
});

it('lets nobody wait for longer because of one that was enqueued long before it opened', () => {
  const { clock, backAt } = openAtClock(refused);
  const since = clock.at;
  expect(backAt(since - 20 * 3_600_000)).toBe(FIRST_MS);
  const places = [-60_000, 0, 20_000, 40_000].map((after) => backAt(since + after) - OTHERS_MS);
  expect(places).toEqual([0, 0, 1_000, 2_000]);
});

it('has all notifications back before Redis forgets it', async () => {
  const script = await readFile('src/breaker/breaker.lua', 'utf8');
  const keptMs = Number(/KEPT_MS = (\d+)/.exec(script)?.[1]);
  const { backAt } = openAtClock(refused);
  backAt();
  expect(backAt(86_400_000)).toBeLessThan(keptMs);
});

it('stays open for ten minutes at most if a quota is only suspected, and else as long as the provider says', () => {
  const dayMs = 86_400_000;
  const openMs = ({ clock, worker }: ReturnType<typeof openAtClock>) => openOf(worker).until - clock.at;
  expect(openMs(openAtClock(() => overQuota(dayMs), 20))).toBe(600_000);
  expect(openMs(openAtClock(() => overQuota(120_000), 20))).toBe(120_000);
  expect(openMs(openAtClock(() => wanted(dayMs)))).toBe(dayMs);
});

it('stays open for ten minutes at most after a trial too, if a quota is only suspected', async () => {
  const dayMs = 86_400_000;
  const worker = openBreakers(testPrefix(), { ...LONG, baseMs: 100 });
  reportTimes(20, worker, () => overQuota(100));
  worker.breakers.report({ ...overQuota(dayMs), recipientId: 'odd' }, await trialOf(worker, 'odd'));
  const openMs = openOf(worker).until - Date.now();
  expect(openMs).toBeLessThanOrEqual(600_000);
  expect(openMs).toBeGreaterThan(500_000);
});

it('never brings anybody back in the past', async () => {
  const { clock, worker, until } = openAtClock(unreached, 5);
  clock.at = openOf(worker).until + 500_000;
  for (const one of ['a', 'b', 'c', 'd', 'e']) expect(until(one, 0)).toBeGreaterThanOrEqual(clock.at);
  worker.breakers.report(accepted(), await trialOf(worker));
  expect(until('f', 0)).toBeGreaterThanOrEqual(clock.at);
});

it('brings twelve that have not failed back early where the trouble is only suspected, four in a second', () => {
  const { clock, until, backAt } = openAtClock(unreached, 5);
  const early = Array.from({ length: 12 }, (_, place) => until(`odd-${place}`, 0) - clock.at);
  // With four odd devices before it, a good one is sent within two seconds.
  expect(early).toEqual([250, 500, 750, 1_000, 1_250, 1_500, 1_750, 2_000, 2_250, 2_500, 2_750, 3_000]);
  expect([backAt(0, 'd'), backAt(0, 'e')]).toEqual([FIRST_MS, OTHERS_MS]);
  clock.at += 1_000;
  expect(until('f', 0) - clock.at).toBe(2_250);
});

it('keeps one that failed until the breaker is half open', async () => {
  const { clock, worker, backAt } = openAtClock(unreached, 5);
  worker.breakers.report({ ...unreached(), recipientId: 'odd' }); // was under way
  clock.at += 5_000;
  expect((await worker.breakers.enter('apns', 'odd')).kind).toBe('open');
  expect(backAt(0, 'odd')).toBe(STAND_BACK_MS + FIRST_MS);
});

const teacher = 'apns~teacher' as const;
const trialApp = 'apns~trial' as const; // would be the key of another trial, if it were written with a colon

it('each app has a breaker of its own, which all workers share', async () => {
  const prefix = testPrefix();
  const [one, other] = [openBreakers(prefix, LONG), openBreakers(prefix, LONG)];
  for (const { breakers } of [one, other]) breakers.use([teacher, trialApp]);
  one.breakers.report({ ...refused(), service: teacher });
  await waitFor(() => expect(other.breakers.current(teacher)).toMatchObject({ service: teacher, trouble: 'auth' }));
  for (const { breakers } of [one, other]) {
    expect([breakers.current('apns'), breakers.current('fcm'), breakers.current(trialApp)]).toEqual([
      ...[undefined, undefined, undefined],
    ]);
    expect([...breakers.all()].map(([account, open]) => [account, open?.trouble])).toEqual([
      ...[...PLATFORMS.map((platform) => [platform, undefined]), [teacher, 'auth'], [trialApp, undefined]],
    ]);
  }
  expect(await connectRedis().keys(`${prefix}:breaker:*`)).toEqual([`${prefix}:breaker:apns~teacher`]);
});

it('an app that is gone has none, and one that comes back learns of it anew', async () => {
  const { breakers } = openBreakers(testPrefix(), LONG);
  breakers.use([teacher]);
  breakers.report({ ...refused(), service: teacher });
  expect(breakers.current(teacher)).toBeDefined();
  await breakers.close();
  breakers.use([]);
  expect(breakers.current(teacher)).toBeUndefined();
  expect(await breakers.enter(teacher, 'msg')).toEqual({ kind: 'closed' });
  breakers.report({ ...refused(), service: teacher }); // an answer that was under way
  expect(breakers.current(teacher)).toBeUndefined();
  breakers.use([teacher]);
  await waitFor(() => expect(breakers.current(teacher)).toBeDefined());
});

it('many closed breakers are read in one call', async () => {
  const connection = countAnswers();
  const { breakers } = openBreakers(testPrefix(), LONG, connection.redis);
  const before = connection.answered();
  breakers.use(Array.from({ length: 900 }, (_, number) => `fcm~app-${number}` as const));
  await waitFor(() => expect(connection.answered()).toBeGreaterThan(before + 1));
  expect(connection.answered() - before).toBeLessThan(20);
});

it('only the worker whose trial closed it says so', async () => {
  const prefix = testPrefix();
  const [one, other, third] = [openBreakers(prefix), openBreakers(prefix), openBreakers(prefix)];
  one.breakers.report(refused());
  await waitFor(() => [openOf(other), openOf(third)]);
  other.breakers.report(accepted(), await trialOf(other));
  for (const worker of [one, other, third]) await untilClosed(worker);
  expect([one, other, third].map(({ changes }) => changes.at(-1)?.byTrial)).toEqual([undefined, true, undefined]);
});

it('of two workers only one gets the trial', async () => {
  const prefix = testPrefix();
  const [one, other] = [openBreakers(prefix), openBreakers(prefix)];
  one.breakers.report(refused());
  await waitFor(() => openOf(other));
  await trialOf(one);
  await waitFor(() => expect(Date.now()).toBeGreaterThan(openOf(other).until));
  expect((await other.breakers.enter('apns', 'somebody-else')).kind).toBe('open');
});

it('breakers are shared, tried and closed on a cluster, also under a prefix without a hash tag', async () => {
  const plain = testPrefix().slice(1, -1);
  const worker = openBreakers(plain, {}, connectCluster());
  const other = openBreakers(plain, {}, connectCluster());
  worker.breakers.report(refused());
  await waitFor(() => openOf(other));
  other.breakers.report(accepted(), await trialOf(other));
  await untilClosed(worker);
  expect(worker.changes.map(({ open }) => open?.trouble)).toEqual(['auth', undefined]);
});
