import { describe, expect, it } from 'vitest';
import type { Inspection, ReservedView } from '../../src/limiter/limiter.ts';
import { describe as describeRecipient } from '../../scripts/recipient/describe.ts';
import type { WaitingJob } from '../../src/operations/jobs.ts';
import { fromNow, span } from '../../src/terminal/text.ts';
import { policyText } from '../../src/domain/limits.ts';

type Described = Parameters<typeof describeRecipient>[0];

const NOW = Date.parse('2026-11-21T12:00:03.300Z');
const HOUR = 3_600_000;
const QUIET: Inspection = {
  now: NOW,
  policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 },
  source: 'limiter',
  sent: [],
  reserved: [],
  nextAt: NOW,
  rule: 'gap',
};
const job = (id: string, fields: Partial<WaitingJob> = {}): WaitingJob => ({
  ...{ id, priority: 'high', enqueuedAt: NOW - 4_000, attempts: 2, requeues: 1, waitsFor: 'gap' },
  ...fields,
});
const NONE = { found: [], lookedAt: 0, of: 0 };

/** `count` slots, the first `fromMs` after now and each `stepMs` after the one before. */
function slots(count: number, fromMs: number, stepMs: number): ReservedView[] {
  return Array.from({ length: count }, (_, n) => ({
    at: NOW + fromMs + n * stepMs,
    id: `msg-${n}/0`,
    rule: 'gap',
    before: n,
  }));
}

/** What is shown of a recipient of whom no more is known than this. */
function lines(inspection: Partial<Inspection>, more: Partial<Described> = {}): string[] {
  const { reserved = [] } = inspection;
  return describeRecipient({
    ...{ recipientId: 'teacher-42', inspection: { ...QUIET, ...inspection }, most: 20 },
    ...{ others: [], kept: [], delayed: NONE, notTaken: NONE, sending: [] },
    ...{ categories: { messages: { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 10_000 } } },
    waiting: reserved.map((slot) => ({ ...slot, notification: job(slot.id?.replace(/\/\d+$/, '') ?? '') })),
    ...{ limitsOf: { workers: 4, others: 0 }, ...more },
  });
}

describe('a recipient', () => {
  it('who was never seen is said to be that, with the limits that would apply', () => {
    expect(lines({})).toEqual([
      'teacher-42 at 2026-11-21T12:00:03Z',
      'Nothing is stored: no alert lately, none waits, no limits or block of its own.',
      '',
      'policy     10/1m, gap 3s; from LIMIT_RULES and LIMIT_MIN_GAP of 4 workers',
      '           messages: 5/1m, gap 10s; from LIMITS_FILE',
      'block      none',
      'sent       0 within 1m',
      'reserved   none',
      'delayed    none without a slot',
      'next free  now',
    ]);
  });

  it('who has everything is shown with all of it, and whose is nearest comes first', () => {
    const slot = { rule: 'gap', before: 0 };
    const reserved = [
      { ...slot, at: NOW + 31_000, id: 'msg-1/0', goesBefore: 2 },
      { ...slot, at: NOW + 34_000, id: '#17/0', before: 1, overtaken: 1 },
      { ...slot, at: NOW + 37_000, id: 'msg-3#r2/0', rule: '10/1m', before: 2, overtaken: 25 },
      { ...slot, at: NOW + 40_000, id: 'http:email:mail-1', rule: 'email:1/1h' },
      { ...slot, at: NOW + 43_000, id: 'gone#r1/0' },
      { ...slot, at: NOW + 58_000, id: '#123/0', rule: 'quiet', ruleUntil: NOW + HOUR, before: 5 },
    ];
    const notifications = [job('msg-1', { category: 'messages' }), job('form-12'), job('msg-3', { replay: 2 })];
    const at = NOW - 12_000;
    const shown = lines(
      {
        ...{ source: 'stored', policyUntil: NOW + 2 * HOUR, nextAt: NOW + 37_000 },
        block: { until: NOW + 31_000, reason: "parents' evening" },
        // One of them is being sent, and counts already.
        sent: [...slots(3, -21_000, 3_000), { at }, { at }],
        reserved,
        quiet: {
          hours: { timezone: 'Europe/Paris', quietHours: [{ from: '21:00', until: '07:00' }] },
          source: 'stored',
          until: NOW + HOUR,
        },
      },
      {
        waiting: reserved.map((each, place) => {
          const notification = notifications[place];
          return { ...each, ...(notification && { notification }) };
        }),
        kept: [{ label: 'Note', text: 'call first (olga, 2026-11-20T09:00:00Z)', fields: {} }],
        others: [
          {
            ...{ ...QUIET, kind: 'background', policy: { rules: [{ max: 3, perMs: HOUR }], minGapMs: 0 } },
            ...{ sent: [{ at: NOW - 60_000 }], reserved: [{ ...slot, at: NOW + 32_000, id: 'p/0', rule: '3/1h' }] },
          },
        ],
        delayed: { found: [{ ...job('retried', { waitsFor: 'retry' }), dueAt: NOW + 25 * HOUR }], lookedAt: 3, of: 3 },
        notTaken: { found: [job('new')], lookedAt: 20_000, of: 90_000 },
        sending: [{ ...job('sending'), at, takenAt: at - 50 }],
        limitsOf: { workers: 2, others: 1, mostOvertaken: 20 },
      },
    );
    expect(shown).toEqual([
      'teacher-42 at 2026-11-21T12:00:03Z',
      '',
      'note        call first (olga, 2026-11-20T09:00:00Z)',
      'policy      10/1m, gap 3s; stored until 2026-11-21T14:00:03Z (in 2h)',
      '            messages: 5/1m, gap 10s; from LIMITS_FILE',
      "block       until 2026-11-21T12:00:34Z (in 31s): parents' evening",
      'quiet       21:00-07:00, Europe/Paris; stored; quiet now, until 2026-11-21T13:00:03Z (in 1h)',
      'sent        4 within 1m, the last 12s ago',
      'sending     1, for 12s',
      'reserved    6, the next in 31s (gap), the last in 58s (quiet until 13:00:03Z; 5 before it)',
      'background  sent 1 within 1h, the last 1m ago',
      '            reserved 1, in 32s (3/1h)',
      'delayed     1 without a slot, the next in 1d 1h',
      'waiting     1 not taken yet, among the first 20000 of 90000 that no worker has taken',
      'next free   2026-11-21T12:00:40Z (in 37s), by gap',
      '',
      '           -21s            now                                         +58s',
      'sent       1·1··1·2·········│··············································',
      'reserved   ·················│························1·1··1·1·1···········1',
      'block      ·················│========================······················',
      'A column is 1.3s; a digit counts its slots, + is more than nine.',
      '',
      'due       at                    why                                      enqueued  attempts  priority  category  notification',
      'now       -                     being sent                               4s ago    2         high      -         sending',
      'now       -                     not taken yet                            4s ago    2         high      -         new',
      'in 31s    12:00:34Z             gap, goes first                          4s ago    2         high      messages  msg-1',
      'in 32s    12:00:35Z             no job (background)                      -         -         -         -         p',
      'in 34s    12:00:37Z             gap, overtaken once, at most 19 more     4s ago    2         high      -         form-12 (job #17)',
      'in 37s    12:00:40Z             gap, overtaken 25 times, at most 0 more  4s ago    2         high      -         msg-3 (replay 2)',
      'in 40s    12:00:43Z             email:1/1h                               -         -         -         -         http:email:mail-1',
      'in 43s    12:00:46Z             no job                                   -         -         -         -         gone (replay 1)',
      'in 58s    12:01:01Z             no job                                   -         -         -         -         123',
      'in 1d 1h  2026-11-22T13:00:03Z  retry                                    4s ago    2         high      -         retried',
    ]);
  });

  it('who has no limits is shown as such', () => {
    const shown = lines({ policy: { rules: [], minGapMs: 0 }, source: 'stored', rule: 'none' });
    expect(shown).toContain('policy     no limits; stored, without an end');
    expect(shown).toContain('sent       not counted');
    expect(shown.join()).not.toContain('Nothing is stored');
  });

  it('is known by what waits for it alone, also if not all was looked through', () => {
    const some = { found: [], lookedAt: 20_000, of: 90_000 };
    expect(lines({}, { notTaken: some, delayed: some })).toEqual([
      'teacher-42 at 2026-11-21T12:00:03Z',
      '',
      expect.stringMatching(/^policy/),
      expect.stringMatching(/messages/),
      ...['block      none', 'sent       0 within 1m', 'reserved   none'],
      'delayed    none without a slot among the first 20000 of 90000 delayed jobs',
      'waiting    none not taken yet, among the first 20000 of 90000 that no worker has taken',
      'next free  now',
    ]);
    expect(lines({}, { sending: [{ ...job('a'), at: NOW, takenAt: NOW }] }).join()).not.toContain('Nothing is stored');
  });
});

it('workers of an older version do not say how often one may be overtaken', () => {
  const [slot] = slots(1, 31_000, 0);
  const reserved = slot === undefined ? [] : [{ ...slot, overtaken: 2 }];
  expect(lines({ reserved }).at(-1)).toMatch(/ gap, overtaken 2 times {2,}/);
});

it('lists what waits up to a number, and counts the rest', () => {
  const reserved = slots(200, 1_000, 3_000);
  const listed = (all: readonly string[]) => all.filter((line) => /^in .* msg-\d+$/.test(line));
  const shown = lines({ reserved });
  expect(listed(shown)).toHaveLength(20);
  expect(shown.at(-1)).toBe('and 180 more; --all shows them');
  expect(listed(lines({ reserved }, { most: Infinity }))).toHaveLength(200);
});

it.each([
  [
    [{ rule: 'quiet' }, { rule: 'quiet', before: 1 }],
    '2, the next in 2h 30m (quiet until 07:00:00Z), the last in 2h 30m (quiet until 07:00:00Z; 1 before it)',
  ],
  [[{ rule: 'block', before: 19 }], '1, in 2h 30m (block until 07:00:00Z; 19 before it)'],
])('says what sets the slots of those that wait: %j', (causes, text) => {
  const ruleUntil = Date.parse('2026-11-22T07:00:00Z');
  const reserved = causes.map((cause) => ({ at: NOW + 2.5 * HOUR, id: 'msg-1/0', before: 0, ruleUntil, ...cause }));
  expect(lines({ reserved })).toContain(`reserved   ${text}`);
});

describe('the timeline', () => {
  /** The three lines of it, without their names. */
  function drawn(change: Partial<Inspection>) {
    const all = lines(change);
    const at = all.findIndex((line) => line.startsWith('sent   ') && line.includes('│'));
    const [labels = '', sent = '', reserved = ''] = all.slice(at - 1, at + 2).map((line) => line.slice(11));
    return { labels, sent, reserved };
  }
  const counted = (row: string) => Array.from(row).reduce((sum, cell) => sum + (Number(cell) || 0), 0);

  it.each([
    ['one sent a while ago', slots(1, -50_000, 0), []],
    ['one sent a moment ahead', slots(1, 40, 0), []],
    ['ten and five', slots(10, -29_000, 3_000), slots(5, 31_000, 3_000)],
    ['two hundred of each', slots(200, -59_900, 299), slots(200, 300, 299)],
    ['a day ago and in a moment', slots(9, -86_399_000, 1_000), slots(2, 900, 1_000)],
    ['overdue', slots(2, -5_000, 3_000), slots(3, -700, 3_000)],
    ['a millisecond apart', slots(3, -1, 1), slots(2, 1, 1)],
  ])('fits 80 columns and counts every slot: %s', (_, sent, reserved) => {
    const all = lines({ sent, reserved });
    expect(all.filter((line) => line.length > 80)).toEqual([]);
    const timeline = drawn({ sent, reserved });
    expect(timeline.sent.length).toBe(timeline.reserved.length);
    expect(timeline.sent.indexOf('│')).toBe(timeline.reserved.indexOf('│'));
    expect(timeline.labels).toContain('now');
    expect(counted(timeline.sent)).toBe(sent.length);
    expect(counted(timeline.reserved)).toBe(reserved.length);
    const mark = timeline.sent.indexOf('│');
    const past = [...sent, ...reserved].filter(({ at }) => at < NOW).length;
    expect(counted(timeline.sent.slice(0, mark)) + counted(timeline.reserved.slice(0, mark))).toBe(past);
  });

  it('says + for more than nine in one column', () => {
    expect(drawn({ reserved: [...slots(50, 100, 1), ...slots(1, 100_000, 0)] }).reserved).toMatch(/^│\+·+1$/);
  });
});

it.each([
  [0, '0ms'],
  [950, '950ms'],
  [999.6, '1s'],
  [12_340, '12.3s'],
  [59_940, '59.9s'],
  [59_960, '1m'],
  [61_400, '1m 1s'],
  [3_599_600, '1h'],
  [86_399_999, '1d'],
  [90_000_000, '1d 1h'],
  [31_622_400_000, '366d'],
])('%d ms are %s', (ms, text) => expect(span(ms)).toBe(text));

it('counts both ways from now', () => {
  expect([fromNow(5, 5), fromNow(0, 2_000), fromNow(2_000, 0)]).toEqual(['now', 'in 2s', '2s ago']);
});

it.each([
  [[{ max: 10, perMs: 60_000 }], 3_000, '10/1m, gap 3s'],
  [[{ max: 10, perMs: 60_000 }], 0, '10/1m, no gap'],
  [[], 3_000, 'gap 3s'],
  [[], 0, 'no limits'],
])('writes limits as they are given', (rules, minGapMs, text) => expect(policyText({ rules, minGapMs })).toBe(text));
