import { expect, test } from 'vitest';
import { readProgress } from '../../src/delivery/progress.ts';
import type { StoryPass } from '../../src/notification/story.ts';
import type { RetractionSeen } from '../../src/operations/retractions.ts';
import { whySentences, type Facts, type NamedReason } from '../../src/operations/why.ts';
import type { NotificationStatus } from '../../src/queue/status.ts';
import type { SeenWorker } from '../../src/queue/workers.ts';

const NOW = Date.parse('2026-11-23T09:14:00Z');
const progress = readProgress(0);

function why(status: NotificationStatus, facts: Partial<Facts> = {}): string {
  const known = {
    passes: [],
    passesLeftOut: 0,
    workersAlive: 1,
    breakers: [],
    lacked: [],
    hasHistory: true,
    retractions: [],
    losses: [],
  };
  return whySentences({ now: NOW, status, ...known, ...facts }).join(' ');
}

const ended = (fields: object): NotificationStatus => ({
  ...{ state: 'ended', outcome: 'delivered', endedAt: NOW, waitMs: 5_000, devices: {} },
  ...fields,
});
const waits = (fields: object = {}): NotificationStatus => ({ state: 'waiting', until: NOW + 60_000, ...fields });
const LIMITS_END = { rule: 'limits', until: NOW + 60_000 } as const;
const held = { ...progress, heldSince: NOW - 60_000 };
const breaker = (trouble: string, code: string) => ({
  service: 'apns',
  trouble,
  code,
  since: NOW - 60_000,
  until: NOW + 5_000,
});
const worker = { host: 'web-1', pid: 7, alive: true, silentMs: 100 } as SeenWorker;
const passAt = (secondsAgo: number, fields: Partial<StoryPass>): StoryPass => ({
  ...{ at: NOW - secondsAgo * 1_000, worker: 'web-1:7', result: 'requeued' },
  ...fields,
});

/** One that waits a minute for the slot that the limits gave it. */
const inLine = (slotReason: Partial<NamedReason>): Partial<Facts> => ({
  job: { progress },
  slotReason: { now: NOW, at: NOW + 60_000, rule: 'gap', before: 0, ...slotReason },
});
const gap = { rule: 'gap', max: 1, perMs: 3_000, after: { at: NOW + 57_000, isSent: false } };
const window = { rule: '2/1h', max: 2, perMs: 3_600_000, after: { at: NOW - 3_540_000, isSent: true } };

test.each<readonly [what: string, facts: Partial<Facts>, sentence: RegExp]>([
  [
    'a window, for one that was sent',
    inLine({ rule: '2/1h', fixed: window, after: 'msg-1' }),
    /^It waits until 09:15:00Z \(in 1m\) for the rule 2\/1h \(2 in 1h\): first msg-1, which was sent at 08:15:00Z, has to be 1h old\. It is the next one in its line\.$/,
  ],
  [
    'the gap, for one that waits itself, before others',
    inLine({ fixed: gap, after: 'msg-1', before: 2, goesBefore: 3 }),
    /for the gap of 3s after msg-1, which goes at 09:14:57Z\. 2 are before it in its line\. It is of high priority, so it goes before 3 of normal priority\.$/,
  ],
  [
    'a block, with its reason',
    inLine({ rule: 'block', fixed: { rule: 'block', until: NOW + 60_000 }, block: { until: 1, reason: 'exam week' } }),
    /, when the block of its recipient ends \("exam week"\)\. It is the next one in its line\.$/,
  ],
  [
    'quiet hours',
    inLine({ rule: 'quiet', fixed: { rule: 'quiet', until: NOW + 60_000 } }),
    /, when its quiet hours end\. It is the next one in its line\.$/,
  ],
  [
    'the gap, behind the end of a block',
    inLine({ rule: 'block', ruleUntil: NOW + 50_000, fixed: gap, block: { until: 1, reason: 'exam week' } }),
    /after another one, which goes at .* The block ends at 09:14:50Z \("exam week"\), and it stands in the line behind that\.$/,
  ],
  [
    'the gap, behind the end of quiet hours',
    inLine({ rule: 'quiet', ruleUntil: NOW + 50_000, fixed: gap }),
    / The quiet hours end at 09:14:50Z, and it stands in the line behind that\.$/,
  ],
  [
    'the gap, although a window is the longest cause',
    inLine({ rule: '2/1h', fixed: gap, longest: window, longestAfter: 'msg-0' }),
    / The longest cause is another one: it waits for the rule 2\/1h \(2 in 1h\): first msg-0, which was sent at .*\.$/,
  ],
  [
    'a slot whose cause has ended since',
    inLine({}),
    /: the slot that it was given for the gap\. Something before it has ended since, so the limits would allow an earlier one by now\./,
  ],
])('one that waits for %s', (_, facts, sentence) => expect(why(waits({ rule: 'gap' }), facts)).toMatch(sentence));

test.each<readonly [what: string, status: NotificationStatus, facts: Partial<Facts>, sentence: RegExp]>([
  [
    'a block that is not in the limiter any more',
    waits({ rule: 'block', ruleUntil: NOW + 9_000 }),
    {},
    /: its recipient is blocked, and the block ends at 09:14:09Z\.$/,
  ],
  [
    'quiet hours that are not in the limiter any more',
    waits({ rule: 'quiet' }),
    {},
    /, when the quiet hours of its recipient end\.$/,
  ],
  [
    'another attempt',
    waits(),
    {
      workersAlive: 0,
      job: {
        progress: {
          ...progress,
          tries: 1,
          attempts: [{ at: NOW, device: 'apns#0', error: 'Shutdown' }],
          devices: { 'fcm#1': 'delivered' },
        },
      },
    },
    /, for another attempt: attempt 1 failed at apns#0 at 09:14:00Z with Shutdown\..* Delivered already: fcm#1\.$/,
  ],
  [
    'due',
    waits({ until: NOW - 5_000 }),
    {},
    /^It is due since 09:13:55Z \(5s ago\), and no worker has taken it\. 1 worker is alive\.$/,
  ],
  [
    'new',
    { state: 'waiting' },
    { job: { progress, ahead: 3 } },
    /^It waits for a worker; 3 jobs are taken before it\.$/,
  ],
  [
    'in hand',
    { state: 'sending' },
    { job: { progress, worker, takenAt: NOW - 20 } },
    /^The worker web-1, process 7, has it since 09:13:59Z/,
  ],
  [
    'in the hand of a worker that is gone',
    { state: 'sending' },
    { job: { progress, worker: { ...worker, alive: false, silentMs: 20_000 } } },
    /not seen for 20s: another one takes it when its lock has run out \(LOCK_DURATION\)/,
  ],
  [
    'a quota',
    waits({ rule: 'fcm:600000/1m' }),
    { job: { progress: { ...progress, quotaAt: { fcm: NOW + 60_000 } } } },
    /^It waits until 09:15:00Z \(in 1m\) for the quota fcm:600000\/1m, which all recipients share, to have room\.$/,
  ],
  [
    'a slot that others took before it',
    waits({ rule: 'gap' }),
    {
      job: { progress },
      slotReason: { now: NOW, at: NOW + 60_000, rule: 'gap', before: 2, overtaken: 2 },
      mostOvertaken: 20,
    },
    / 2 are before it in its line\. Of high priority, 2 went before it that came later; at most 18 more can\.$/,
  ],
  [
    'the end of stored limits',
    waits({ rule: '1/1h' }),
    {
      job: { progress },
      slotReason: { ...{ now: NOW, at: NOW + 60_000, rule: '1/1h', before: 0 }, fixed: LIMITS_END },
    },
    /^It waits until 09:15:00Z \(in 1m\), when the limits that are stored for its recipient end\. It is the next one in its line\. The longest cause is the rule 1\/1h\.$/,
  ],
  [
    "a provider's quota",
    waits(),
    { job: { progress: held }, breakers: [breaker('quota', 'TooManyRequests')] },
    /, because its provider asks for fewer sends; it is put back .* Nothing is sent to apns since .*: quota, TooManyRequests\.$/,
  ],
  [
    'an outage',
    waits(),
    { job: { progress: held }, breakers: [breaker('outage', 'http-503')] },
    /, because its provider is down, or cannot be reached; /,
  ],
  [
    'a provider that cannot be reached, without a breaker',
    waits(),
    { job: { progress: { ...held, unreached: 2 } }, passes: [passAt(1, { result: 'deferred', code: 'ENOTFOUND' })] },
    /, because its provider is down, or cannot be reached; .* The last answer: ENOTFOUND\.$/,
  ],
  [
    'a push service that takes no more, without a breaker',
    waits(),
    { job: { progress: { ...held, limited: 2 } }, passes: [passAt(1, { result: 'deferred', code: 'http-429' })] },
    /, because its provider asks for fewer sends; .* The last answer: http-429\.$/,
  ],
  [
    'a provider that is down, without a breaker',
    waits(),
    {
      job: { progress: { ...held, limited: 2 } },
      passes: [passAt(1, { result: 'deferred', code: 'ServiceUnavailable' })],
    },
    /, because its provider is down, or cannot be reached; .* The last answer: ServiceUnavailable\.$/,
  ],
  [
    'a refusal, when the breaker has closed since',
    waits(),
    { job: { progress: held }, passes: [passAt(1, { result: 'deferred', code: 'TooManyRequests' })] },
    /, because its provider took nothing at the last try; .* The last answer: TooManyRequests\.$/,
  ],
  [
    'stalls',
    waits(),
    { job: { progress }, passes: [passAt(1, { result: 'deferred', code: 'stalled-before' })] },
    /its workers did not renew their lock on it in time/,
  ],
  [
    'a newer worker',
    waits(),
    { job: { progress, newer: { what: 'job data', format: 2 } } },
    /: a newer version of pushpacer wrote it, .*\. Found: job data in format 2; this version reads format 1\.$/,
  ],
  [
    'a part of a digest',
    waits({ rule: 'gap' }),
    { job: { progress, ending: { how: 'merged', by: 'msg-1' } } },
    /^It waits for the digest msg-1, of which it is a part; its job ends when a worker takes it, at 09:15:00Z \(in 1m\)\.$/,
  ],
  [
    'one that a newer one replaces',
    waits({ until: NOW - 1, rule: 'gap' }),
    { job: { progress, ending: { how: 'superseded', by: 'msg-2' } } },
    /^A newer one, msg-2, goes in its place \(onThrottle: latest\); its job ends when a worker takes it\.$/,
  ],
  [
    'one that was just canceled',
    { state: 'sending' },
    { job: { progress, worker, takenAt: NOW - 20, ending: { how: 'canceled' } } },
    /^It was canceled; the worker web-1, process 7, ends its job now\.$/,
  ],
  ['a broadcast', waits(), { job: { progress } }, /no worker has looked at it, because its producer delayed it/],
  [
    'its end',
    waits({ rule: 'gap' }),
    { job: { progress, expiresAt: NOW + 90_000 } },
    /It expires at 09:15:30Z \(in 1m 30s\)\.$/,
  ],
  [
    'another day',
    waits({ until: NOW + 3 * 86_400_000, rule: 'sendAfter' }),
    {},
    /until 2026-11-26T09:14:00Z \(in 3d\): its producer/,
  ],
  ['expired', ended({ outcome: 'expired' }), {}, /^It expired at 09:14:00Z, before it could be sent\.$/],
  [
    'expired after its worker was lost',
    ended({ outcome: 'expired', maybeShown: true }),
    {},
    /^It expired at 09:14:00Z, .*It may have been shown: an earlier attempt was interrupted, or had no answer\.$/,
  ],
  [
    'dropped',
    ended({ outcome: 'dropped' }),
    { passes: [passAt(0, { result: 'dropped', rule: '10/1m' })] },
    /because the rule 10\/1m would/,
  ],
  ['superseded', ended({ outcome: 'superseded', by: 'msg-2' }), {}, /^A newer one, msg-2, went in its place/],
  ['merged', ended({ outcome: 'merged', by: 'msg-2' }), {}, /^It went as a part of the digest msg-2\.$/],
  [
    'silenced',
    ended({ silenced: true, sentAt: NOW }),
    {},
    /^It was delivered without a sound at 09:14:00Z, 5s after it was enqueued\.$/,
  ],
  [
    'some devices',
    ended({ devices: { 'apns#0': 'delivered', 'fcm#1': 'unregistered' } }),
    {},
    /Not to all devices: fcm#1 unregistered\.$/,
  ],
])('%s', (_, status, facts, sentence) => expect(why(status, facts)).toMatch(sentence));

const taking = (fields: Partial<RetractionSeen>): Partial<Facts> => ({
  retractions: [{ id: 'retract-7', state: 'ended', ...fields }],
});

test.each<readonly [what: string, status: NotificationStatus, facts: Partial<Facts>, sentence: RegExp]>([
  [
    'waits',
    ended({}),
    taking({ state: 'waiting', until: NOW + 3_000 }),
    / It is being taken back: the retraction retract-7 waits until 09:14:03Z \(in 3s\)\.$/,
  ],
  ['is due', ended({}), taking({ state: 'waiting', until: NOW }), /the retraction retract-7 waits for a worker\.$/],
  ['is being sent', ended({}), taking({ state: 'sending' }), /the retraction retract-7 is being sent\.$/],
  [
    'took it',
    ended({}),
    taking({ outcome: 'retracted', endedAt: NOW, devices: { 'apns#0': 'delivered', 'fcm#1': 'unregistered' } }),
    / The retraction retract-7 took it from its devices at 09:14:00Z\.$/,
  ],
  [
    'took it from some',
    ended({}),
    taking({ outcome: 'retracted', endedAt: NOW, devices: { 'apns#0': 'delivered', 'fcm#1': 'rejected' } }),
    / The retraction retract-7 reached only some of the devices at 09:14:00Z\.$/,
  ],
  ['failed', ended({}), taking({ state: 'dead-lettered' }), /is a dead letter: the devices may still show it\.$/],
  ['was canceled', ended({}), taking({ outcome: 'canceled' }), /ended as canceled: the devices may still show it\.$/],
  [
    'took its id before',
    ended({ outcome: 'canceled' }),
    { idTaken: 'before' },
    /^It was retracted before it was enqueued, so it is not sent\.$/,
  ],
  [
    'came too late',
    ended({}),
    { idTaken: 'later' },
    /^It was delivered .* It was retracted when the queue had forgotten/,
  ],
  [
    'itself waits',
    waits({ rule: '3/1h' }),
    { retracts: ['msg-1', 'msg-2'] },
    /^It is a retraction, which takes msg-1, msg-2 from devices\. It waits until/,
  ],
  [
    'itself has ended',
    ended({ outcome: 'retracted', devices: { 'apns#0': 'delivered', 'fcm#1': 'unregistered' } }),
    { retracts: Array.from({ length: 12 }, (_, at) => `m-${at}`) },
    /^It took m-0, .*m-9 and 2 more from devices at 09:14:00Z, 5s after .* Not to all devices: fcm#1 unregistered\.$/,
  ],
  ['only brings a badge', ended({ outcome: 'retracted' }), { retracts: [] }, /^It brought a badge to devices at /],
])('a retraction %s', (_, status, facts, sentence) => expect(why(status, facts)).toMatch(sentence));

test('what a wait was made of, the longest part first; after a replay only what came since', () => {
  const passes = [
    passAt(99, { result: 'dead-letter', reason: 'rejected' }),
    passAt(50, { result: 'replayed' }),
    passAt(29.8, { rule: 'quiet', until: NOW - 20_000 }),
    passAt(19, { result: 'retried', code: 'timeout', until: NOW - 10_000, wokenLateMs: 1_000 }),
    passAt(10, { result: 'deferred', code: 'connection-refused', until: NOW - 4_000 }),
    passAt(4, { rule: 'messages:gap', until: NOW }),
    passAt(0.1, { result: 'delivered' }),
  ];
  const status = ended({ sentAt: NOW, waitMs: 30_000 });
  const text = why(status, { passes, from: NOW - 30_000, replayedAt: NOW - 30_000, sentAfter: 'msg-7' });
  expect(text).toContain('delivered at 09:14:00Z, 30s after it was replayed; of these ');
  expect(text).toContain(
    '9.8s for the quiet hours, 9s for another attempt after timeout, 6s because nothing could be sent (connection-refused), ' +
      '3.9s for the gap of the category messages after msg-7.',
  );
  // Where the first passes are not kept, nobody can say what the whole wait was made of.
  expect(why(status, { passes: passes.slice(2), passesLeftOut: 3, from: NOW - 30_000 })).toBe(
    'It was delivered at 09:14:00Z, 30s after it was enqueued.',
  );
});

test('after a replay whose passes were not recorded, since when it waited', () => {
  expect(why(ended({ sentAt: NOW }), { replayedAt: NOW - 5_000 })).toMatch(
    /^It was delivered .*, 5s after it was replayed\.$/,
  );
});

test('one whose queue is paused says so', () => {
  expect(why({ state: 'waiting' }, { job: { progress, ahead: 0, isPaused: true } })).toMatch(
    /^It waits for a worker; .*\. Its queue is paused: workers take nothing from it\.$/,
  );
});

test('no word of others turns the text of the terminal', () => {
  const hostile = 'x\u001b[31m\u202e';
  const message = { state: 'dead-lettered', reason: 'rejected', message: hostile, deadAt: NOW, generation: 1 } as const;
  const facts = {
    job: { progress: { ...progress, tries: 1, attempts: [{ at: NOW, device: hostile, error: hostile }] } },
  };
  const texts = [
    why(message),
    why(waits(), facts),
    why(waits({ rule: hostile })),
    why(ended({ outcome: 'merged', by: hostile })),
    why(ended({ devices: { [hostile]: 'rejected' } })),
    why(ended({ outcome: 'retracted' }), { retracts: [hostile] }),
    why(ended({}), { retractions: [{ id: hostile, state: 'sending' }] }),
  ];
  for (const text of texts) {
    expect(text).toContain('\\u{1b}');
    for (const never of ['\u001b', '\u202e']) expect(text).not.toContain(never);
  }
});
