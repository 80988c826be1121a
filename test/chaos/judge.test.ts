import { expect, it, describe } from 'vitest';
import { lostLocks, type Thaw } from '../../chaos/fleet.ts';
import {
  checks,
  type ChaosResult,
  type ClusterResult,
  countDuplicates,
  type DuplicatesParts,
  judgePacing,
} from '../../chaos/judge.ts';
import { parseLog } from '../../chaos/logs.ts';
import { completedOf, enqueuedOf, entryOf, OTHER_TOKEN, TOKEN } from './facts.ts';

const good: ChaosResult = {
  notifications: 100,
  delivered: 90,
  deadLettered: 5,
  deadLetters: { unregistered: 5 },
  expired: 3,
  dropped: 2,
  superseded: 4,
  merged: 6,
  canceled: 3,
  digests: 4,
  quietAlerts: 3,
  waitingFaults: 0,
  stillQueued: 0,
  unaccounted: 0,
  lost: 0,
  gapViolations: 0,
  windowViolations: 0,
  lateAfterFreeze: 2,
  lateAfterFreezeBound: 2,
  lateAfterStall: 0,
  backgroundPushes: 20,
  browserPushes: 25,
  minGapMs: 500,
  duplicates: 2,
  duplicateBound: 2,
  unexplainedDuplicates: 0,
  changedIds: 0,
  duplicatesBy: { answer: 1, kill: 1, stop: 0, redis: 0, lock: 0, cut: 0 },
  unknownRequests: 0,
  breakersOpened: { auth: 2, outage: 0 },
  breakersByOneDevice: 0,
  secretsLeaked: 0,
  processesLeft: 0,
  crashes: 0,
  requeues: 40,
  kills: 3,
  stops: 3,
  restarts: 2,
  redisRestarts: 1,
  redisPauses: 1,
  redisCuts: 1,
  oddDevices: 3,
  refusals: 30,
  drainMs: 10_000,
  longestStallMs: 0,
  seed: 1,
  seconds: 20,
};

const passes = (result: ChaosResult) => checks(result).every(({ ok }) => ok);

describe('the verdict', () => {
  it('passes where everything was struck and nothing broke', () => expect(passes(good)).toBe(true));

  /** What a run may not have. */
  const FAULTS = {
    ...{ lost: 1, unaccounted: 1, stillQueued: 1, gapViolations: 1, windowViolations: 1, lateAfterFreeze: 3 },
    ...{ waitingFaults: 1, unknownRequests: 1, breakersByOneDevice: 1, unexplainedDuplicates: 1, duplicates: 3 },
    ...{ changedIds: 1, secretsLeaked: 1, processesLeft: 1, crashes: 1 },
  };
  /** What a run must have, or it proves nothing. */
  const NEEDED = [
    ...['delivered', 'superseded', 'merged', 'digests', 'canceled', 'quietAlerts', 'backgroundPushes', 'browserPushes'],
    ...[
      'requeues',
      'kills',
      'stops',
      'restarts',
      'redisRestarts',
      'redisPauses',
      'redisCuts',
      'oddDevices',
      'refusals',
    ],
  ];

  it.each([
    ...Object.entries(FAULTS).map(([name, count]) => ({ [name]: count })),
    ...NEEDED.map((name) => ({ [name]: 0 })),
    { breakersOpened: { auth: 0 } },
  ])('fails on %j', (fault) => expect(passes({ ...good, ...fault })).toBe(false));

  describe('of a run on a cluster', () => {
    const kill = { at: '2026-03-01T07:30:00.123Z', lagMs: 200, windowMs: 1_200, awayMs: 3_000, admissions: 3 };
    const cluster = {
      ...{ failovers: 1, slotsMoved: 2, keysMoved: 7, waitReplicas: 0, lostBeforeWindow: 0 },
      kills: [kill],
    };
    const replicationLost = { notifications: 5, admissions: 3, violations: 1, ends: 2, waiting: 1, windowMs: 1_200 };

    it('passes with what replication lost', () => expect(passes({ ...good, cluster, replicationLost })).toBe(true));

    it.each<Partial<ClusterResult>>([
      { failovers: 0 },
      { slotsMoved: 0 },
      { keysMoved: 0 },
      { lostBeforeWindow: 1 },
      { waitReplicas: 1 },
      { kills: [kill, { ...kill, windowMs: 1_201 }] },
    ])('fails on %j', (fault) => {
      expect(passes({ ...good, cluster: { ...cluster, ...fault }, replicationLost })).toBe(false);
    });
  });
});

const twice = [entryOf('a', 1_000), entryOf('a', 9_000)];
const parts: DuplicatesParts = {
  enqueued: enqueuedOf({ id: 'a' }, { id: 'b' }),
  entries: twice,
  ends: { completed: [], dead: [] },
  incidents: [],
  thaws: [],
  cuts: [],
};
const count = (more: Partial<DuplicatesParts>) => countDuplicates({ ...parts, ...more });
const incident = (ids: readonly string[], at = 1_200) => ({ kind: 'kill' as const, at, until: at, ids: new Set(ids) });

describe('a second acceptance', () => {
  it('is one for each device', () => {
    const devices = [
      { platform: 'apns' as const, token: TOKEN },
      { platform: 'fcm' as const, token: OTHER_TOKEN },
    ];
    const other = { platform: 'fcm' as const, token: OTHER_TOKEN };
    const entries = [entryOf('a', 0), entryOf('a', 1, other)];
    expect(count({ enqueued: enqueuedOf({ id: 'a', devices }), entries })).toMatchObject({ duplicates: 0 });
    expect(count({ entries: [...entries, entryOf('a', 2, other)] })).toMatchObject({ duplicates: 1 });
  });

  const answered = (status: number) => [entryOf('a', 0, { status }), entryOf('a', 1, { status })];
  const afterAnswer = (said: object) => [entryOf('a', 1_000, said), entryOf('a', 9_000)];
  const thaw = (id: string, from: number): Thaw => ({ ids: new Set([id]), from, until: from + 250 });
  /** What a worker logs that did not renew the locks of these jobs in time. */
  const lost = (jobId: string, time: number) => {
    const line = {
      ...{ level: 'warn', time: new Date(time).toISOString(), jobs: 1, jobIds: [jobId] },
      msg: 'locks were not renewed in time, since Redis did not answer or this process was busy: 1 job went to other workers, or will',
    };
    return lostLocks(new Map([['worker-0.log', parseLog(JSON.stringify(line))]]));
  };
  const outage = { kind: 'redis' as const, at: 200, until: 1_500, ids: new Set(['a']) };
  const cuts = [{ platform: 'apns' as const, at: 1_100 }];
  const attempts = [{ at: 1_150, device: 'apns#0', error: 'reset: socket hang up' }];
  const ends = { completed: [completedOf('a', 'delivered', { attempts })], dead: [] };

  it.each<[why: string, more: Partial<DuplicatesParts>, counts: object]>([
    ['nothing happened', {}, { duplicates: 1, duplicateBound: 0 }],
    ['both got 201, with which push services for browsers accept', { entries: answered(201) }, { duplicateBound: 0 }],
    ['another one was in hand at a kill', { incidents: [incident(['b'])] }, { duplicateBound: 1 }],
    ['the kill came before the first', { incidents: [incident(['a'], 100)] }, {}],
    ['the kill came after the second', { incidents: [incident(['a'], 9_001)] }, {}],
    ['a frozen worker sent another one', { thaws: [thaw('b', 900)] }, {}],
    ['the worker went on after the first', { thaws: [thaw('a', 1_001)] }, {}],
    ['the worker went on too long before the first', { thaws: [thaw('a', 700)] }, {}],
    ['a worker lost the lock of another one', { incidents: lost('b', 9_500) }, {}],
    ['a worker lost its lock long before', { incidents: lost('a', 400) }, {}],
    ['only the provider says that the answer was cut off', { cuts }, {}],
    ['only the job says so', { ends }, {}],
    ['it was cut off at another provider', { ends, cuts: [{ platform: 'fcm', at: 1_100 }] }, {}],
  ])('has no reason where %s', (_, more, counts) => {
    expect(count(more)).toMatchObject({ unexplainedDuplicates: 1, ...counts });
  });

  it.each<[why: string, more: Partial<DuplicatesParts>, explainedBy: object, counts?: object]>([
    ['it was in hand at a kill', { incidents: [incident(['a'])] }, { kill: 1 }, { duplicates: 1, duplicateBound: 1 }],
    ['a frozen worker sent the first when it went on', { thaws: [thaw('a', 900)] }, { stop: 1 }],
    ['a frozen worker sent the second when it went on', { thaws: [thaw('a', 8_900)] }, { stop: 1 }],
    ['its worker says that it did not renew its lock in time', { incidents: lost('a#r1', 9_500) }, { lock: 1 }],
    ['the first one fell into an outage of Redis', { incidents: [outage] }, { redis: 1 }],
    ['both were answered with an error', { entries: answered(500) }, { answer: 1 }, { duplicateBound: 2 }],
    [
      'the first was answered with an error',
      { entries: afterAnswer({ status: 500, reason: 'InternalServerError' }) },
      { answer: 1 },
      { duplicateBound: 1 },
    ],
    [
      'the first was answered with nothing',
      { entries: afterAnswer({ status: undefined, reason: 'hang' }) },
      { answer: 1 },
      { duplicateBound: 1 },
    ],
    ['the answer was cut off, as both say', { cuts, ends }, { cut: 1 }, { duplicateBound: 1 }],
  ])('is explained where %s', (_, more, explainedBy, counts = {}) => {
    expect(count(more)).toMatchObject({ unexplainedDuplicates: 0, explainedBy, ...counts });
  });

  it('goes out under the ids of the first', () => {
    expect(count({}).changedIds).toBe(0);
    expect(count({ entries: [entryOf('a', 0), entryOf('a', 1, { apnsId: 'another' })] }).changedIds).toBe(1);
    expect(count({ entries: [entryOf('a', 0), entryOf('a', 1, { collapseId: 'another' })] }).changedIds).toBe(1);
    expect(count({ entries: [entryOf('a', 0, { tag: 'x' }), entryOf('a', 1, { tag: 'y' })] }).changedIds).toBe(1);
  });
});

const policies = {
  policy: { rules: [{ max: 2, perMs: 1_000 }], minGapMs: 100 },
  categories: { news: { rules: [{ max: 1, perMs: 800 }], minGapMs: 0 } },
  background: { rules: [{ max: 1, perMs: 2_000 }], minGapMs: 0 },
};
const ENDPOINT = 'https://127.0.0.1/push/ana';
const enqueued = enqueuedOf(
  { id: 'a' },
  { id: 'b' },
  { id: 'c' },
  { id: 'n', category: 'news' },
  { id: 'o', category: 'news' },
);
const judged = (...entries: ReturnType<typeof entryOf>[]) => judgePacing(enqueued, entries, policies, []);

describe('the pace of the alerts', () => {
  it('finds nothing where the limits were kept', () => {
    expect(judged(entryOf('a', 0), entryOf('b', 500), entryOf('c', 1_000))).toEqual({
      gapViolations: 0,
      windowViolations: 0,
      lateAfterFreeze: 0,
      backgroundPushes: 0,
      lateAfterFreezeBound: 0,
      lateAfterStall: 0,
      minGapMs: 500,
      bursts: [],
      burstsAfterFreeze: [],
      burstsAfterFailover: [],
      burstsAfterStall: [],
    });
  });

  it('finds what was too many for a window', () => {
    const { windowViolations, bursts } = judged(entryOf('a', 0), entryOf('b', 500), entryOf('c', 900));
    expect(windowViolations).toBe(1);
    expect(bursts).toEqual(['r: 2/1s, 900 ms at 1970-01-01T00:00:00.900Z']);
  });

  it('judges a category by its own limits too', () => {
    expect(judged(entryOf('n', 0), entryOf('o', 500))).toMatchObject({ gapViolations: 0, windowViolations: 1 });
  });

  it('judges what was accepted alone, whatever was answered', () => {
    const refused = entryOf('b', 10, { accepted: false, status: 503 });
    expect(judged(entryOf('a', 0), refused)).toMatchObject({ gapViolations: 0, minGapMs: null });
    expect(judged(entryOf('a', 0), { ...refused, accepted: true })).toMatchObject({ gapViolations: 1 });
  });

  it.each([
    ['APNs', entryOf('b', 10, { payload: { aps: { 'interruption-level': 'passive' } } })],
    [
      'FCM',
      entryOf('b', 10, {
        platform: 'fcm',
        token: OTHER_TOKEN,
        payload: { android: { notification: { notification_priority: 'PRIORITY_LOW' } } },
      }),
    ],
    ['web push', entryOf('b', 10, { platform: 'webpush', token: ENDPOINT, payload: { silent: true } })],
  ])('leaves out what alerted nobody on %s', (_platform, silent) => {
    expect(judged(entryOf('a', 0), silent)).toMatchObject({ gapViolations: 0, minGapMs: null });
  });

  it.each([
    ['APNs', { pushType: 'alert' }],
    ['FCM', { platform: 'fcm', payload: { android: { notification: { title_loc_key: 'A' } } } }],
    ['web push', { platform: 'webpush', payload: { silent: false } }],
  ] as const)('judges what alerts on %s', (_platform, fields) => {
    const near = entryOf('b', 10, { token: OTHER_TOKEN, ...fields });
    expect(judged(entryOf('a', 0), near)).toMatchObject({ gapViolations: 1, backgroundPushes: 0 });
  });

  it.each([
    ['APNs', { pushType: 'background' }],
    ['FCM', { platform: 'fcm', payload: { data: {}, android: { priority: 'normal' } } }],
  ] as const)('judges background pushes on %s by their own limits alone', (_platform, fields) => {
    const push = (id: string, at: number) => entryOf(id, at, { token: OTHER_TOKEN, ...fields });
    const kept = judged(entryOf('a', 0), push('b', 10), entryOf('c', 500), push('d', 2_010));
    expect(kept).toMatchObject({ gapViolations: 0, windowViolations: 0, minGapMs: 500, backgroundPushes: 2 });
    const broken = judged(push('a', 0), push('b', 1_900));
    expect(broken).toMatchObject({ gapViolations: 0, windowViolations: 1, minGapMs: null });
    expect(broken.bursts).toEqual(['r: 1/2s, 1900 ms at 1970-01-01T00:00:01.900Z']);
    // One notification to two devices is one push.
    expect(judged(push('a', 0), { ...push('a', 400), token: 'cd' })).toMatchObject({ windowViolations: 0 });
  });

  describe('an alert that a frozen worker sent when it went on', () => {
    const thaw = (...ids: string[]): Thaw => ({ ids: new Set(ids), from: 1_000, until: 1_250 });
    const close = [entryOf('a', 1_010), entryOf('b', 1_030)];
    const judgedAfter = (entries: readonly ReturnType<typeof entryOf>[], ...thaws: Thaw[]) =>
      judgePacing(enqueued, entries, policies, thaws);
    const excused = { gapViolations: 0, windowViolations: 0, lateAfterFreeze: 1, bursts: [] };
    const unexcused = { gapViolations: 1, windowViolations: 0, lateAfterFreeze: 0, burstsAfterFreeze: [] };

    it('is counted apart, whichever of the two it is', () => {
      expect(judgedAfter(close, thaw('a'))).toMatchObject(excused);
      expect(judgedAfter(close, thaw('b'))).toMatchObject(excused);
      expect(judgedAfter(close, thaw('a')).burstsAfterFreeze).toEqual(['r: gap, 20 ms at 1970-01-01T00:00:01.030Z']);
    });

    it('is none where its notification was not in hand', () => {
      expect(judgedAfter(close, thaw('c'))).toMatchObject(unexcused);
      expect(judgedAfter(close)).toMatchObject(unexcused);
    });

    it('is none where it arrived before the thaw, or too long after it', () => {
      expect(judgedAfter([entryOf('a', 970), entryOf('b', 990)], thaw('a', 'b'))).toMatchObject(unexcused);
      expect(judgedAfter([entryOf('a', 1_260), entryOf('b', 1_270)], thaw('a', 'b'))).toMatchObject(unexcused);
    });

    it('is judged by its own arrival, and not by that of the other one', () => {
      expect(judgedAfter([entryOf('a', 980), entryOf('b', 1_005)], thaw('a'))).toMatchObject(unexcused);
    });

    it('excuses a window that it lies in the middle of, and no other window', () => {
      const crowd = [entryOf('a', 500), entryOf('b', 1_100), entryOf('c', 1_400)];
      expect(judgedAfter(crowd, thaw('b'))).toMatchObject(excused);
      const earlier = [entryOf('c', 0), entryOf('a', 300), entryOf('b', 600)];
      expect(judgedAfter(earlier, thaw('a', 'b', 'c'))).toMatchObject({ windowViolations: 1, lateAfterFreeze: 0 });
    });

    it('is bounded by the devices of what was in hand', () => {
      expect(judgedAfter(close, thaw('a', 'b'), thaw('c'), thaw())).toMatchObject({ lateAfterFreezeBound: 3 });
    });
  });

  it('counts apart an alert that was under way while a process did not run', () => {
    const late = judged(entryOf('a', 1_050, { delayMs: 40 }), entryOf('b', 1_060));
    expect(late).toMatchObject({ gapViolations: 0, lateAfterStall: 1, minGapMs: 50, bursts: [] });
    expect(late.burstsAfterStall).toEqual(['r: gap, 10 ms at 1970-01-01T00:00:01.060Z']);
  });
});
