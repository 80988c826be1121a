import { describe, expect, it } from 'vitest';
import type { Inspection, ReservedView } from '../../src/limiter/limiter.ts';
import { describe as describeRecipient } from '../../scripts/recipient/describe.ts';
import type { DelayedJobs, FoundJobs, SendingJob, WaitingJob } from '../../src/operations/jobs.ts';
import { fromNow, span } from '../../src/terminal/text.ts';
import { policyText } from '../../src/domain/limits.ts';

const NOW = Date.parse('2026-11-21T12:00:03.300Z');
const QUIET: Inspection = {
  now: NOW,
  policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 },
  source: 'limiter',
  sent: [],
  reserved: [],
  nextAt: NOW,
  rule: 'gap',
};
const JOB: WaitingJob = {
  id: 'msg-1',
  priority: 'high',
  enqueuedAt: NOW - 4_000,
  attempts: 2,
  requeues: 1,
  waitsFor: 'gap',
};
const NONE: DelayedJobs = { found: [], lookedAt: 0, of: 0 };
/** Nothing but what waits for a slot is known of the recipient. */
const BARE = {
  ...{ others: [], kept: [], delayed: NONE, notTaken: NONE, sending: [] },
  ...{ categories: {}, limitsOf: undefined, most: 20 },
};

/** `count` slots, the first `fromMs` after now and each `stepMs` after the one before. */
function slots(count: number, fromMs: number, stepMs: number): ReservedView[] {
  return Array.from({ length: count }, (_, n) => ({
    at: NOW + fromMs + n * stepMs,
    id: `msg-${n}/0`,
    rule: 'gap',
    before: n,
  }));
}

interface Options {
  readonly most?: number;
  readonly job?: WaitingJob;
  /** The notification's, where its job has another one. */
  readonly id?: string;
  readonly recipientId?: string;
  readonly delayed?: DelayedJobs;
  readonly notTaken?: FoundJobs<WaitingJob>;
  readonly sending?: readonly SendingJob[];
  readonly limitsOf?: typeof WORKERS & { readonly mostOvertaken?: number };
}

function lines(change: Partial<Inspection>, options: Options = {}) {
  const inspection = { ...QUIET, ...change };
  const { most = 20, job, recipientId = 'teacher-42', delayed = NONE, notTaken = NONE, sending = [] } = options;
  const waiting = inspection.reserved.map((slot) => ({
    ...slot,
    notification: job ?? { ...JOB, id: options.id ?? slot.id?.replace(/\/\d+$/, '') ?? '' },
  }));
  const categories = { messages: { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 10_000 } };
  return describeRecipient({
    ...BARE,
    ...{ recipientId, inspection, waiting, delayed, notTaken, sending, categories, most },
    limitsOf: options.limitsOf ?? WORKERS,
  });
}

const WORKERS = { workers: 4, others: 0 };

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

  it('who waits is shown with limits, block, slots and notifications', () => {
    const shown = lines({
      source: 'stored',
      policyUntil: NOW + 7_200_000,
      block: { until: NOW + 31_000, reason: "parents' evening" },
      sent: slots(3, -9_000, 3_000),
      reserved: slots(2, 31_000, 3_000),
      nextAt: NOW + 37_000,
    });
    expect(shown).toEqual([
      'teacher-42 at 2026-11-21T12:00:03Z',
      '',
      'policy     10/1m, gap 3s; stored until 2026-11-21T14:00:03Z (in 2h)',
      '           messages: 5/1m, gap 10s; from LIMITS_FILE',
      "block      until 2026-11-21T12:00:34Z (in 31s): parents' evening",
      'sent       3 within 1m, the last 3s ago',
      'reserved   2, the next in 31s (gap), the last in 34s (gap; 1 before it)',
      'delayed    none without a slot',
      'next free  2026-11-21T12:00:40Z (in 37s), by gap',
      '',
      '           -9s         now                                            +34s',
      'sent       1···1···1····│·················································',
      'reserved   ·············│············································1···1',
      'block      ·············│============================================·····',
      'A column is 694ms; a digit counts its slots, + is more than nine.',
      '',
      'due     at         why  enqueued  attempts  priority  category  notification',
      'in 31s  12:00:34Z  gap  4s ago    2         high      -         msg-0',
      'in 34s  12:00:37Z  gap  4s ago    2         high      -         msg-1',
    ]);
  });

  it('is shown who goes first, who was overtaken, and how often each still can be', () => {
    const [first, second, third] = slots(3, 31_000, 3_000) as [ReservedView, ReservedView, ReservedView];
    const reserved = [
      { ...first, goesBefore: 2 },
      { ...second, overtaken: 1 },
      { ...third, overtaken: 2 },
    ];
    const causes = (mostOvertaken?: number) => {
      const limitsOf = { ...WORKERS, ...(mostOvertaken !== undefined && { mostOvertaken }) };
      return lines({ reserved }, { limitsOf }).flatMap((line) => /^in \S+ +\S+ +(gap.*?) {2,}4s/.exec(line)?.[1] ?? []);
    };
    expect(causes(20)).toEqual([
      'gap, goes first',
      'gap, overtaken once, at most 19 more',
      'gap, overtaken 2 times, at most 18 more',
    ]);
    expect(causes(1).at(-1)).toBe('gap, overtaken 2 times, at most 0 more');
    // Workers of an older version do not say how often.
    expect(causes()).toEqual(['gap, goes first', 'gap, overtaken once', 'gap, overtaken 2 times']);
  });

  it('who has no limits is shown as such', () => {
    const shown = lines({ policy: { rules: [], minGapMs: 0 }, source: 'stored', rule: 'none' });
    expect(shown).toContain('policy     no limits; stored, without an end');
    expect(shown).toContain('sent       not counted');
    expect(shown.join()).not.toContain('Nothing is stored');
  });
});

it('lists what waits up to a number, and counts the rest', () => {
  const reserved = slots(200, 1_000, 3_000);
  const shown = lines({ reserved });
  expect(shown.filter((line) => /^in .* msg-\d+$/.test(line))).toHaveLength(20);
  expect(shown.at(-1)).toBe('and 180 more; --all shows them');
  expect(lines({ reserved }, { most: Infinity }).filter((line) => /^in .* msg-\d+$/.test(line))).toHaveLength(200);
});

describe('why notifications wait', () => {
  function reservedLine(...causes: readonly Partial<ReservedView>[]): string | undefined {
    const reserved = causes.map((cause) => ({ at: NOW + 9_000_000, id: 'msg-1/0', rule: 'gap', before: 0, ...cause }));
    return lines({ reserved }).find((line) => line.startsWith('reserved'));
  }

  it('is shown with the end of a quiet time or a block, and with the place in line', () => {
    const until = Date.parse('2026-11-22T07:00:00Z');
    const quiet = { rule: 'quiet', ruleUntil: until };
    expect(reservedLine(quiet)).toBe('reserved   1, in 2h 30m (quiet until 07:00:00Z)');
    expect(reservedLine(quiet, { ...quiet, before: 1 })).toBe(
      'reserved   2, the next in 2h 30m (quiet until 07:00:00Z), the last in 2h 30m (quiet until 07:00:00Z; 1 before it)',
    );
    const block = { rule: 'block', ruleUntil: until + 86_400_000 };
    expect(reservedLine(block)).toBe('reserved   1, in 2h 30m (block until 2026-11-23T07:00:00Z)');
    expect(reservedLine({ rule: '10/1m', before: 19 })).toBe('reserved   1, in 2h 30m (10/1m; 19 before it)');
  });
});

describe('notifications without a slot', () => {
  const retried = { ...JOB, id: 'msg-9', waitsFor: 'retry', dueAt: NOW + 2_000 };
  const new3 = { found: [1, 2, 3].map((n) => ({ ...JOB, id: `msg-${n}` })), lookedAt: 3, of: 3 };

  it.each<[string, Options]>([
    ['not taken yet', { notTaken: new3 }],
    [
      'perhaps not taken yet, among more than were looked for',
      { notTaken: { found: [], lookedAt: 20_000, of: 90_000 } },
    ],
    ['delayed', { delayed: { found: [retried], lookedAt: 1, of: 1 } }],
    ['being sent', { sending: [{ ...JOB, id: 'msg-7', at: NOW, takenAt: NOW }] }],
  ])('make a recipient known: %s', (_, options) => {
    expect(lines({}, options).join()).not.toContain('Nothing is stored');
  });

  it('are shown as waiting while no worker has taken them', () => {
    const shown = lines({}, { notTaken: new3 });
    expect(shown).toContain('waiting    3 not taken yet');
    expect(shown.slice(-3).map((line) => line.split(/ {2,}/))).toEqual(
      [1, 2, 3].map((n) => ['now', '-', 'not taken yet', '4s ago', '2', 'high', '-', `msg-${n}`]),
    );
  });

  it('may be more than were looked for', () => {
    const more = { found: [], lookedAt: 20_000, of: 90_000 };
    expect(lines({}, { notTaken: more, delayed: more })).toEqual(
      expect.arrayContaining([
        'waiting    none not taken yet, among the first 20000 of 90000 that no worker has taken',
        'delayed    none without a slot among the first 20000 of 90000 delayed jobs',
      ]),
    );
  });

  it('are listed among the others, by when they are due, where they are delayed', () => {
    const delayed = { found: [retried], lookedAt: 3, of: 3 };
    const shown = lines({ reserved: slots(2, 1_000, 3_000) }, { delayed });
    expect(shown).toContain('delayed    1 without a slot, the next in 2s');
    expect(shown.slice(-3).map((line) => line.replace(/ .* /, ' '))).toEqual(['in msg-0', 'in msg-9', 'in msg-1']);
    expect(shown.at(-2)).toContain('  retry  ');
  });

  it('are not sent while a provider still has to answer', () => {
    const sending = [{ ...JOB, id: 'msg-7', at: NOW - 12_000, takenAt: NOW - 12_050 }];
    const shown = lines({ sent: slots(5, -24_000, 3_000) }, { sending });
    expect(shown).toContain('sent       4 within 1m, the last 15s ago');
    expect(shown).toContain('sending    1, for 12s');
    expect(shown.at(-1)).toMatch(/^now +- +being sent .* msg-7$/);
    // Without a gap two may have the same instant: one of them is being sent, and the other one is sent.
    const [same] = slots(1, -12_000, 0);
    expect(lines({ sent: [same, same].flatMap((slot) => slot ?? []) }, { sending })).toContain(
      'sent       1 within 1m, the last 12s ago',
    );
  });
});

it('a notification is named by its own id, not by that of its job', () => {
  const reserved = [{ at: NOW + 1_000, id: 'msg-1#r2/0', rule: 'gap', before: 0 }];
  expect(lines({ reserved }, { job: { ...JOB, id: 'msg-1', replay: 2 } }).at(-1)).toMatch(/ msg-1 \(replay 2\)$/);
  const without = { ...BARE, inspection: { ...QUIET, reserved }, waiting: reserved };
  expect(describeRecipient({ recipientId: 'teacher-42', ...without }).at(-1)).toMatch(/ no job .* msg-1 \(replay 2\)$/);
  const integer = [{ at: NOW + 1_000, id: '#123/0', rule: 'gap', before: 0 }];
  expect(describeRecipient({ recipientId: 'teacher-42', ...without, waiting: integer }).at(-1)).toMatch(/ 123$/);
});

it('what another program asked for over HTTP has no job, but a rule that makes it wait', () => {
  const reserved = [{ at: NOW + 1_000, id: 'http:email:msg-1', rule: 'email:1/1h', before: 0 }];
  const known = { ...BARE, inspection: { ...QUIET, reserved }, waiting: reserved };
  expect(describeRecipient({ recipientId: 'teacher-42', ...known }).at(-1)).toMatch(
    / email:1\/1h .* http:email:msg-1$/,
  );
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

it.each([
  [[{ max: 10, perMs: 60_000 }], 3_000, '10/1m, gap 3s'],
  [[{ max: 10, perMs: 60_000 }], 0, '10/1m, no gap'],
  [[], 3_000, 'gap 3s'],
  [[], 0, 'no limits'],
])('writes limits as they are given', (rules, minGapMs, text) => expect(policyText({ rules, minGapMs })).toBe(text));
