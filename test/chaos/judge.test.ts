import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { findLeaks, secretsOf } from '../../chaos/run.ts';
import type { ToDevices } from '../../src/notification/notification.ts';
import { openSandbox } from '../support/sandbox.ts';
import {
  again,
  alerts,
  APNS,
  breaker,
  cancel,
  close,
  completedOf,
  cut,
  dead,
  denied,
  ended,
  enqueue,
  entryOf,
  FCM,
  frozen,
  frozenUnasked,
  judged,
  killed,
  lostLock,
  nothing,
  passed,
  queued,
  request,
  reset,
  seen,
  standstill,
  uncounted,
  WEB,
  type Excused,
  type Seeded,
} from './facts.ts';

// The judge of a run: facts in which all was well, then one fault in each row, with the check that must report it.

const BOTH = { recipientId: 'both', devices: [APNS, FCM] };
const [NEWS, URGENT, PUSH] = [{ category: 'news' }, { category: 'urgent' }, { pushType: 'background' }];
const PASSIVE = { payload: { aps: { 'interruption-level': 'passive' } } };
const SHOWN_BY_FCM = { ...FCM, payload: { android: { notification: {} } } };
const ANDROID_LOW = { ...FCM, payload: { android: { notification: { notification_priority: 'PRIORITY_LOW' } } } };
const SILENT_WEB = { ...WEB, payload: { silent: true } };
const UNASKED = 'requests that nobody asked for';
const WAITED = 'faults of what waited together';
const [GAP, WINDOW] = ['gap violations', 'window violations'];
const [TWICE, OTHER_ID] = ['unexplained duplicates', 'duplicates under other ids'];

test('a run in which all was struck and nothing broke is clean', () => {
  const { result, named, broken } = judged();
  expect([broken, named]).toEqual([[], []]);
  expect(result).toMatchObject({
    ...{ notifications: 18, delivered: 10, deadLettered: 2, deadLetters: { unregistered: 1, invalid: 1 }, expired: 1 },
    ...{ dropped: 1, superseded: 1, merged: 2, digests: 1, canceled: 1, quietAlerts: 1, backgroundPushes: 1 },
    ...{ browserPushes: 1, minGapMs: 500, requeues: 1, refusals: 1, breakersOpened: { auth: 1 } },
    ...{ duplicates: 1, duplicateBound: 1, duplicatesBy: { kill: 1 } },
  });
});

const ENDS: readonly Seeded[] = [
  ['one left no trace', [enqueue('z')], 'lost'],
  ['no provider has seen one', [seen('b')], 'lost'],
  ['and so it has no end that it can have', [seen('b')], 'unaccounted'],
  ['a provider only refused it', [seen('b', entryOf('b', 1, { accepted: false, status: 503 }))], 'lost'],
  ['one of two devices never got it', [seen('both', entryOf('both', 1))], 'lost'],
  [
    'its job says that this device got it',
    [
      enqueue('both', { ...BOTH, expiresAt: 1 }),
      seen('both', entryOf('both', 1)),
      ended('both', completedOf('both', 'delivered', { devices: { 'fcm#1': 'delivered' } })),
    ],
    'lost',
  ],
  ['one has two ends', [dead('b')], 'unaccounted'],
  ['one has an end and a job', [queued('b')], 'unaccounted'],
  ...['expired', 'dropped', 'none'].map((outcome): Seeded => [
    `one cannot be ${outcome}`,
    [ended('b', completedOf('b', outcome))],
    'unaccounted',
  ]),
  ['one cannot be superseded', [ended('b', completedOf('b', 'superseded', { by: 'a' }))], 'unaccounted'],
  ['one cannot be merged', [ended('b', completedOf('b', 'merged', { by: 'a' }))], 'unaccounted'],
  ['the queue has one that nobody enqueued', [queued('z')], 'unaccounted'],
  ['a job has not ended', [ended('expired'), queued('expired')], 'still queued'],
  ['a request of no notification', [request('a', 1, { data: {}, accepted: false })], UNASKED],
  ['a request of one that nobody enqueued', [request('z', 1)], UNASKED],
  ['a request for a device of another', [request('a', 1, { token: 'cd' })], UNASKED],
  ['a request at another provider', [request('a', 1, { platform: 'fcm', accepted: false })], UNASKED],
  ['a request of a malformed one', [request('malformed', 1, { accepted: false })], UNASKED],
];

const TOGETHER: readonly Seeded[] = [
  ['a digest counts one less', [seen('l', entryOf('l', 1, { body: '2 new' }))], WAITED],
  ['a digest counts one more', [seen('l', entryOf('l', 1, { body: '4 new' }))], WAITED],
  ['a digest is no digest', [seen('l', entryOf('l', 1))], WAITED],
  ['a digest counts one that was canceled', [cancel('p', true)], WAITED],
  [
    'a digest counts one that expired in another',
    [
      enqueue('expired', { expiresAt: 1, digest: { key: 'other', body: '' } }),
      seen('l', entryOf('l', 1, { body: '4 new' })),
    ],
    WAITED,
  ],
  ['one that was merged was sent too', [request('p', 130_000)], WAITED],
  ['one that was superseded was sent too', [request('old', 130_000)], WAITED],
  [
    'one gave way to what has no end',
    [enqueue('z', { recipientId: 'latest' }), ended('old', completedOf('old', 'superseded', { by: 'z' }))],
    WAITED,
  ],
  ['one gave way to one of another recipient', [ended('old', completedOf('old', 'superseded', { by: 'a' }))], WAITED],
  ['one was sent after its cancel', [request('canceled', 130_000)], WAITED],
  ['one is canceled, though it was too late', [cancel('canceled', false)], WAITED],
  ['one was canceled by nobody', [({ cancels }) => cancels.delete('canceled')], WAITED],
  ['one sounded in quiet hours', [seen('night', entryOf('night', 1))], WAITED],
];

const PACE: readonly Seeded[] = [
  ['two are closer than the gap', [close], GAP],
  ['the same, though the answer was an error', [seen('b', entryOf('b', 100_440, { status: 500 }))], GAP],
  ['a sixth in a window of five', [alerts(6, 700)], WINDOW],
  ['two of a category are closer than its gap', [alerts(2, 700, NEWS)], GAP],
  ['a fourth in the window of a category', [alerts(4, 1_600, NEWS)], WINDOW],
  ['two exempt ones are closer than their own gap', [alerts(2, 300, URGENT)], GAP],
  ['a fourth background push in its window', [alerts(4, 1_900, {}, PUSH)], WINDOW],
  ['the same on FCM', [alerts(4, 1_900, {}, { ...FCM, payload: { data: {} } })], WINDOW],
  ['two on FCM are too close', [alerts(2, 440, {}, SHOWN_BY_FCM)], GAP],
  ['two in a browser are too close', [alerts(2, 440, {}, WEB)], GAP],
  ['a delay explains less than was missing', [seen('a', entryOf('a', 100_000, { delayMs: 9 })), close], GAP],
  [
    'another worker stood still than that which sent it',
    [close, standstill('2', 99_900, 100_050), passed('1'), passed('2', 'requeued')],
    GAP,
  ],
  ['the worker had stood still long before', [close, standstill('1', 99_000, 99_989), passed('1')], GAP],
  ['the worker stood still only later', [close, standstill('1', 100_001, 100_400), passed('1')], GAP],
  [
    'it stood still on purpose',
    [
      close,
      standstill('1', 99_900, 100_050),
      passed('1'),
      ({ delays }) => delays.forget('1', { from: 99_950, until: 100_000 }),
    ],
    GAP,
  ],
  [
    'the worker was killed long after it',
    [close, standstill('1', 99_900, 100_050), killed(100_250, 'k', { log: '1' })],
    GAP,
  ],
  ['a frozen worker had another in hand', [close, frozen(99_500, 'both')], GAP],
  [
    'another worker than the frozen one had it',
    [close, frozen(99_500, 'a', { holders: new Map([['a', 'second']]) })],
    GAP,
  ],
  ['it came before the thaw', [close, frozen(99_501, 'a')], GAP],
  ['it came too long after the thaw', [close, frozen(99_229, 'a')], GAP],
  ['what came after the thaw is not in this window', [alerts(6, 700), frozen(302_900, 'b')], WINDOW],
  [
    'more were late after a freeze than had been in hand',
    [alerts(3, 440), frozen(299_800, 'own-1')],
    'late after a freeze',
  ],
];

const DUPLICATES: readonly Seeded[] = [
  ['one came twice', [again()], TWICE],
  ['one came twice to one of two devices', [request('both', 130_000, FCM)], TWICE],
  ['a browser got one twice', [request('web', 130_000, { ...WEB, status: 201 })], TWICE],
  ['a worker that was killed had another', [again(), killed(100_200, 'b')], TWICE],
  ['the kill came before the first', [again(), killed(99_499, 'a')], TWICE],
  ['the kill came after the second', [again(), killed(109_000, 'a')], TWICE],
  ['a frozen worker had another', [again(), frozen(99_500, 'b')], TWICE],
  ['the worker went on after the first', [again(), frozen(99_501, 'a')], TWICE],
  ['the worker went on too long before the first', [again(), frozen(99_229, 'a')], TWICE],
  ['the freeze was too short to lose a lock', [again(), frozenUnasked(100_100, 1_999, [102_200, 'a'])], TWICE],
  [
    'the frozen worker logged it before, or long after',
    [again(), frozenUnasked(100_100, 5_000, [105_098, 'a'], [117_121, 'a'])],
    TWICE,
  ],
  ['a worker lost the lock of another', [again(), lostLock('b', 109_500)], TWICE],
  ['a worker lost its lock long before', [again(), lostLock('a', 99_499)], TWICE],
  ['a worker lost its lock long after', [again(), lostLock('a', 129_000)], TWICE],
  ['only the provider says that the answer was cut off', [again(), cut('apns', 100_100)], TWICE],
  ['only the job says so', [again(), reset(100_150)], TWICE],
  ['another provider was cut off', [again(), reset(100_150), cut('fcm', 100_100)], TWICE],
  ['it was cut off long before', [again(), reset(100_150), cut('apns', 99_499)], TWICE],
  ['it was cut off long after', [again(), reset(101_600), cut('apns', 101_501)], TWICE],
  ['the attempt that failed came before', [again(), reset(99_999), cut('apns', 100_100)], TWICE],
  ['the attempt failed too late', [again(), reset(103_101), cut('apns', 100_100)], TWICE],
  [
    'the attempt that failed is the second',
    [again(100_120), reset(100_120), cut('apns', 100_100), killed(99_000, 'b')],
    TWICE,
  ],
  [
    'more came than one in hand can make',
    [again(104_000), again(108_000), killed(100_200, 'a', { until: 110_000 })],
    'duplicates',
  ],
  ['it has another apns-id', [request('k', 101_000, { accepted: false, apnsId: 'x' })], OTHER_ID],
  ['it has another collapse id', [request('k', 101_000, { accepted: false, collapseId: 'x' })], OTHER_ID],
  ['it has another tag', [request('k', 101_000, { accepted: false, tag: 'x' })], OTHER_ID],
];

/** What a run must have: one in which nothing happened would be clean. */
const NEEDED: readonly Seeded[] = [
  ...(
    [
      ['kill-worker', 'workers killed'],
      ['stop-worker', 'workers frozen'],
      ['restart-worker', 'workers restarted'],
      ['kill-redis', 'restarts of a killed Redis'],
      ['pause-redis', 'pauses of Redis'],
      ['cut-clients', 'times that Redis cut every connection'],
    ] as const
  ).map(([kind, check]): Seeded => [`there was no ${kind}`, [uncounted(kind)], check]),
  ...['delivered', 'superseded by a newer one', 'merged into a digest', 'digests', 'canceled', 'requeues'].map(
    (check): Seeded => [`nothing happened: not ${check}`, [nothing], check],
  ),
  ...['silent alerts in quiet hours', 'background pushes', 'alerts to browsers', 'breakers opened'].map(
    (check): Seeded => [`nothing happened: no ${check}`, [nothing], check],
  ),
  ['nothing was refused', [nothing], 'requests that a provider did not accept'],
  [
    'the odd device got no odd answer',
    [({ injected }) => (injected.oddDevices = [{ ...APNS, word: 'x' }])],
    'odd devices among thousands',
  ],
];

const RUN: readonly Seeded[] = [
  [
    'an answer about one device opened a breaker',
    [breaker('THIRD_PARTY_AUTH_ERROR')],
    'breakers that one device opened',
  ],
  ['a worker crashed', [({ crashes }) => crashes.push(7)], 'workers that crashed'],
  ['a process is left', [({ left }) => left.push(7)], 'processes left'],
  ['a secret was found', [({ leaks }) => leaks.push({ where: 'a log', name: 'a JWT', times: 1 })], 'secrets leaked'],
];

test.each([...ENDS, ...TOGETHER, ...RUN])('%s: it is reported, and named', (_, changes, check) => {
  const { broken, named } = judged(...changes);
  expect(broken).toContain(check);
  expect(named).not.toEqual([]);
});

test.each([...DUPLICATES, ...NEEDED])('%s: it is reported', (_, changes, check) => {
  expect(judged(...changes).broken).toContain(check);
});

test.each(PACE)('%s: that alone is reported', (_, changes, check) => {
  const { broken, named } = judged(...changes);
  expect(broken).toEqual([check]);
  expect(named).not.toEqual([]);
});

const FAILED = { 'apns#0': 'delivered', 'fcm#1': 'unregistered' } as const;
/** A worker that was killed had this in hand, so that one more may come. */
const spare = killed(1, 'b');
const oneOfBoth = seen('both', entryOf('both', 100_000, PASSIVE));
const LEFT_OUT: readonly Partial<ToDevices>[] = [
  { expiresAt: 1 },
  { onThrottle: 'drop' },
  { onThrottle: 'latest' },
  { onQuiet: 'drop' },
];

test.each<Excused>([
  [
    'one of two devices failed, as its end says',
    [oneOfBoth, ended('both', completedOf('both', 'delivered', { devices: FAILED }))],
    { lost: 0 },
  ],
  [
    'the same, as its last pass says',
    [oneOfBoth, ended('both', completedOf('both', 'delivered', { ran: { devices: FAILED } }))],
    { lost: 0 },
  ],
  ...LEFT_OUT.map((how): Excused => [
    `one device was alerted, and then ${JSON.stringify(how)}`,
    [oneOfBoth, enqueue('both', { ...BOTH, ...how })],
    { lost: 0 },
  ]),
  ['one was dropped since it was quiet', [enqueue('dropped', { onQuiet: 'drop' })], { dropped: 1 }],
  ['a part was canceled', [cancel('p', true), seen('l', entryOf('l', 1, { body: '2 new' }))], { digests: 1 }],
  [
    'a part expired before it could say that it joined',
    [
      enqueue('expired', { expiresAt: 1, digest: { key: 'k', body: '' } }),
      seen('l', entryOf('l', 1, { body: '4 new' })),
    ],
    { digests: 1 },
  ],
  ['a worker that was killed may have sent it', [request('old', 1), killed(99_000, 'old')], { superseded: 1 }],
  [
    'a provider took it, and said otherwise',
    [
      request('old', 1),
      ended('old', completedOf('old', 'superseded', { by: 'new', ran: { attempts: [{ at: 1, error: '' }] } })),
    ],
    { superseded: 1 },
  ],
  ['the one that it gave way to is a dead letter', [ended('new'), dead('new')], { superseded: 1 }],
  ['the limits were used up', [alerts(5, 450)], { minGapMs: 450 }],
  ['a refused one came too early', [request('b', 100_100, { accepted: false, status: 503 })], { refusals: 2 }],
  ['exempt ones are apart from the others', [alerts(2, 400, URGENT)], { gapViolations: 0 }],
  ...[PASSIVE, ANDROID_LOW, SILENT_WEB].map((how): Excused => [
    `a silent one takes no slot on ${'platform' in how ? how.platform : 'apns'}`,
    [alerts(2, 1, {}, how)],
    { backgroundPushes: 1 },
  ]),
  ['background pushes are apart from alerts', [alerts(3, 1, {}, PUSH)], { minGapMs: 500, backgroundPushes: 4 }],
  [
    'it was seen late',
    [seen('a', entryOf('a', 100_000, { delayMs: 10 })), close],
    { lateAfterStall: 1, minGapMs: 450 },
  ],
  ['its worker stood still', [close, standstill('1', 99_990, 99_995), passed('1')], { lateAfterStall: 1 }],
  [
    'its worker stood still for two turns',
    [close, standstill('1', 99_985, 99_995), standstill('1', 99_995, 99_999), passed('1')],
    { lateAfterStall: 1 },
  ],
  [
    'a worker stood still that was killed with it',
    [close, standstill('1', 99_900, 100_050), killed(200_000, 'a', { log: '1' })],
    { lateAfterStall: 1 },
  ],
  [
    'a worker stood still that was killed just after',
    [close, standstill('1', 99_900, 100_050), killed(100_249, 'k', { log: '1' })],
    { lateAfterStall: 1 },
  ],
  [
    'the first was sent after a freeze',
    [close, frozen(99_500, 'a')],
    { lateAfterFreeze: 1, lateAfterFreezeBound: 1, lateAfterStall: 0 },
  ],
  ['the second was sent after a freeze', [close, frozen(99_670, 'b')], { lateAfterFreeze: 1 }],
  ['one in the middle was sent after a freeze', [alerts(6, 700), frozen(302_300, 'own-4')], { lateAfterFreeze: 1 }],
  ['the frozen worker logged it later', [close, frozenUnasked(99_500, 500, [100_000, 'a'])], { lateAfterFreeze: 1 }],
  ['it was in hand at a kill', [again(), killed(99_500, 'a')], { duplicatesBy: { kill: 2 }, duplicateBound: 2 }],
  [
    'it was in hand while Redis was away',
    [again(), killed(90_000, 'a', { kind: 'redis', until: 99_500 })],
    { duplicatesBy: { redis: 1 } },
  ],
  [
    'a worker that was frozen for long logged it',
    [again(), frozenUnasked(100_100, 2_000, [102_099, 'a'])],
    { duplicatesBy: { stop: 1 } },
  ],
  ['its worker lost the lock', [again(), lostLock('a#r1', 119_500)], { duplicatesBy: { lock: 1 } }],
  [
    'the first was answered with an error',
    [again(), denied({ status: 500 })],
    { duplicatesBy: { answer: 1 }, duplicateBound: 2 },
  ],
  [
    'the first was not answered',
    [again(), denied({ status: undefined, reason: 'hang' })],
    { duplicatesBy: { answer: 1 } },
  ],
  [
    'the answer was cut off',
    [again(), reset(103_100), cut('apns', 100_100)],
    { duplicatesBy: { cut: 1 }, duplicateBound: 2 },
  ],
  [
    'the answer was cut off by a reset of others',
    [again(), reset(100_150), request('b', 101_500, { accepted: false, status: undefined, reason: 'reset' })],
    { duplicatesBy: { cut: 1 } },
  ],
  ['a frozen worker sent the first', [again(), frozen(99_230, 'a'), spare], { duplicatesBy: { stop: 1 } }],
  ['a frozen worker sent the second', [again(), frozen(108_230, 'a'), spare], { duplicatesBy: { stop: 1 } }],
])('%s: it is no fault, and is counted', (_, changes, counts) => {
  const { result, broken } = judged(...changes);
  expect(broken).toEqual([]);
  expect(result).toMatchObject(counts);
});

const MARKER = '0123456789ab';
type Env = Readonly<Record<string, string>>;

test.each<[kind: string, text: (env: Env) => string | Promise<string>]>([
  ['a token or a text', () => `token 00${MARKER.toUpperCase()}00`],
  [
    'the key of APNS_KEY_FILE',
    async (env) => (await readFile(env['APNS_KEY_FILE'] ?? '', 'utf8')).split('\n')[1] ?? '',
  ],
  ['the key of GOOGLE_APPLICATION_CREDENTIALS', (env) => readFile(env['GOOGLE_APPLICATION_CREDENTIALS'] ?? '', 'utf8')],
  ['a bearer token', () => 'authorization: Bearer owner'],
  ['a JWT', () => 'eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJTQU5EQk9YIn0.c2ln'],
])('a log with %s: it is reported as a leak, and the line of a delivery is not', async (name, text) => {
  const env = (await openSandbox()).env();
  const secrets = await secretsOf(MARKER, env);
  expect(findLeaks('a log', '{"id":"n17","recipientId":"recipient-3","msg":"delivered"}', secrets)).toEqual([]);
  expect(findLeaks('a log', await text(env), secrets)).toMatchObject([{ where: 'a log', name }]);
});
