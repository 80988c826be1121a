import { describe, expect, it } from 'vitest';
import { InputError, type Fault } from '../../src/domain/faults.ts';
import { DAYS, quietHoursText } from '../../src/domain/quiet-hours.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { operationOf, OPERATIONS, readDays } from '../../src/operations/catalogue.ts';
import { fieldsOf, PLAIN_NAMES, type Names } from '../../src/operations/fields.ts';
import { ask, type Operation, type Plan } from '../../src/operations/operation.ts';

const NOW = 1_795_269_600_000;
const POLICY = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 };

function named(name: string): Operation {
  const operation = operationOf(name);
  if (operation === undefined) throw new TypeError(`no operation ${name}`);
  return operation;
}

function plan(operation: Operation, input: unknown, now = NOW): Plan {
  const { fields, recipientId, names } = ask(operation, 'teacher-42', input);
  return operation.plan(fields, { recipientId, now, policy: POLICY, names });
}

it.each([
  ['block', { for: '2h', reason: "parents' evening" }],
  ['limit', { rules: '5/1m,50/1h' }],
  ['limit', { minGap: '0', for: '7d' }],
  ['limit', { rules: 'none', until: new Date(NOW + 1_000).toISOString() }],
  ['quiet', { timezone: 'Europe/Paris', from: '21:00', until: '07:00' }],
  ['quiet', { timezone: 'UTC', from: '21:00', until: '24:00', days: ['mon', 'fri'] }],
  ['cancel', { key: 'trip-77' }],
  ['cancel', { notification: 'msg-1' }],
])('%s %j is settled so that the same is done a moment later, as a form does', (name, input) => {
  const operation = named(name);
  const { deed, settled } = plan(operation, input);
  const texts = Object.fromEntries(Object.entries(settled).map(([field, value]) => [field, String(value)]));
  expect(plan(operation, texts, NOW + 500).deed).toEqual(deed);
});

/* What is hostile */

const faultsOf = (name: string, input: unknown): readonly Fault[] => {
  try {
    ask(named(name), 'teacher-42', input);
    return [];
  } catch (error) {
    return (error as InputError).faults;
  }
};
const names = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`name${at}`, 1]));

it('lists 20 faults at most, and counts the others', () => {
  const faults = faultsOf('unblock', names(100));
  expect(faults).toHaveLength(21);
  expect(faults.at(-1)).toEqual({ path: '', expected: 'no more faults', found: '80' });
});

it.each([
  ['200,000 fields', 'unblock', '', names(200_000)],
  ['a million quiet hours', 'quiet', 'quietHours', { timezone: 'UTC', quietHours: Array(1_000_000).fill(1) }],
  ['a million days', 'quiet', 'days', { days: Array(1_000_000).fill('mon') }],
  ['a text of a million characters', 'note', 'text', { text: 'x'.repeat(1_000_000) }],
])('does not look at %s', (_, name, path, input) => {
  const expected = 'at most 1000 values and 65536 characters in all';
  expect(faultsOf(name, input)).toEqual([{ path, expected, found: 'more' }]);
});

const HOUR = 3_600_000;
/** What the limiter says after it; and before it, when one was sent. */
const THEN = { policy: POLICY, source: 'stored', policyUntil: NOW, quiet: 'those' };
const RESULT = { wasThere: true, moved: 0, canceled: 2, tooLate: 0, before: { sent: [{ at: 1 }] }, after: THEN };
const NIGHT = { timezone: 'Europe/Paris', from: '21:00', until: '07:00' };
const HOURS = { timezone: 'Europe/Paris', quietHours: [{ from: '21:00', until: '07:00' }] };
const LIMITED = { policy: POLICY, source: 'stored', until: NOW };

it.each<readonly [name: string, input: object, text: string, fields: object, result: object]>([
  [
    'block',
    { for: '2h', reason: 'exam' },
    'teacher-42 is blocked until 2026-11-21T16:00:00Z (in 2h): exam',
    { until: NOW + 2 * HOUR, reason: 'exam' },
    {},
  ],
  ['unblock', {}, 'teacher-42 is not blocked any more', { wasBlocked: true }, {}],
  ['unblock', {}, 'teacher-42 was not blocked', { wasBlocked: false }, { wasThere: false }],
  [
    'limit',
    { rules: '5/1m,50/1h', minGap: '10s', for: '7d' },
    'teacher-42 is limited to 5/1m, 50/1h, gap 10s until 2026-11-28T14:00:00Z (in 7d)',
    LIMITED,
    {},
  ],
  ['limit', { rules: '5/1m' }, 'teacher-42 is limited to 5/1m, gap 3s, without an end', LIMITED, {}],
  ['limit', { minGap: '0' }, 'teacher-42 is limited to 10/1m, no gap, without an end', LIMITED, {}],
  ['unlimit', {}, 'teacher-42 has no limits of its own any more; in force is 10/1m, gap 3s', LIMITED, {}],
  ['unlimit', {}, 'teacher-42 had no limits of its own; in force is 10/1m, gap 3s', LIMITED, { wasThere: false }],
  [
    'quiet',
    { ...NIGHT, days: 'mon-fri' },
    'teacher-42 has quiet hours: mon,tue,wed,thu,fri 21:00-07:00, Europe/Paris',
    { quiet: 'those' },
    {},
  ],
  ['quiet', { none: true }, 'teacher-42 has quiet hours: none', { quiet: 'those' }, {}],
  ['unquiet', {}, 'teacher-42 has no quiet hours of its own any more', { wasQuiet: true }, { after: {} }],
  [
    'unquiet',
    {},
    'teacher-42 had no quiet hours of its own; in force is 21:00-07:00, Europe/Paris',
    { wasQuiet: false, quiet: { hours: HOURS } },
    { wasThere: false, after: { quiet: { hours: HOURS } } },
  ],
  ['reset', {}, 'forgot 1 sent to teacher-42', { wasKnown: true, sent: 1 }, {}],
  [
    'reset',
    {},
    'nothing was sent to teacher-42 lately',
    { wasKnown: false, sent: 0 },
    { wasThere: false, before: { sent: [] } },
  ],
  ['cancel', { key: 'trip' }, 'canceled 2', { canceled: 2, tooLate: 0 }, {}],
  ['cancel', { key: 'trip' }, 'canceled 2; too late for 1', { canceled: 2, tooLate: 1 }, { tooLate: 1 }],
])('%s %j says what it did: %s', (name, input, text, fields, result) => {
  const did = plan(named(name), input).did({ ...RESULT, ...result } as never);
  expect(did.text).toBe(text);
  expect(did.fields).toEqual(fields);
});

it('each form begins with fields that are usable, but for what a person must say', async () => {
  const recipient = await createMemoryLimiter({ policy: POLICY }).inspect('teacher-42');
  let begun = 0;
  for (const operation of OPERATIONS) {
    const initial = operation.initial?.(recipient);
    if (initial === undefined) continue;
    const wanted = fieldsOf(operation).filter(({ isOptional }) => !isOptional);
    const said = Object.fromEntries(wanted.map(({ name }) => [name, 'exam']));
    expect(() => ask(operation, 'teacher-42', { ...initial, ...said })).not.toThrow();
    begun++;
  }
  expect(begun).toBeGreaterThan(2);
});

it.each([
  ['mon-fri', ['mon', 'tue', 'wed', 'thu', 'fri']],
  ['sat,sun', ['sat', 'sun']],
  ['fri-mon, wed', ['fri', 'sat', 'sun', 'mon', 'wed']],
  ['mon,mon', ['mon']],
])('the days %s are read', (text, days) => expect(readDays(text)).toEqual({ value: days }));

it('every day is written without naming the days', () => {
  const quietHours = [{ days: DAYS, from: '21:00', until: '24:00' }];
  expect(quietHoursText({ timezone: 'UTC', quietHours })).toBe('21:00-24:00, UTC');
});

describe('faults', () => {
  function faultsOf(name: string, input: unknown, names: Names = PLAIN_NAMES): readonly string[] {
    try {
      ask(named(name), 'teacher-42', input, names);
    } catch (error) {
      return (error as InputError).faults.map(({ path, expected, found }) => `${path}: ${expected}, ${found}`);
    }
    return [];
  }

  it.each<readonly [name: string, input: unknown, faults: readonly string[]]>([
    ['block', null, [': an object, null']],
    ['block', {}, ['reason: ', 'for: for or until, neither']],
    [
      'block',
      { for: 'soon', reason: 'x\u0000', nap: 1 },
      [
        'for: a duration such as 250ms, 3s, 1m, 2h or 1d, at most 366d, "soon"',
        'reason: 1 to 500 printable characters, ',
        'nap: no such field',
      ],
    ],
    ['block', { for: '367d', reason: '' }, ['for: a duration', 'reason: 1 to 500 printable characters, ""']],
    [
      'block',
      { for: '1h', until: 1, reason: 'a' },
      ['until: an RFC 3339 date-time or epoch milliseconds, 1', 'until: until or for, both'],
    ],
    ['block', { until: '24h', reason: 'a' }, ['milliseconds (a duration from now goes into "for"), "24h"']],
    ['block', { until: '2026-02-30T00:00:00Z', reason: 'a' }, ['until: an RFC 3339 date-time or epoch milliseconds, ']],
    ['limit', {}, ['rules: rules or minGap, neither']],
    ['limit', { rules: 5 }, ['rules: ']],
    [
      'limit',
      { rules: '0/1m,x', minGap: '32d' },
      ['rules[1]: ', 'rules[0].max: an integer from 1 to 100000, 0', 'minGap: 0 or a duration such as 250ms, '],
    ],
    ['limit', { rules: 'none', gap: '0' }, ['gap: no such field']],
    ['limit', { rule: '1/1m', minGap: '0' }, ['rule: no such field (did you mean rules?), one']],
    ['quiet', {}, ['timezone, from, until: timezone, from and until (or quietHours, or none), nothing']],
    [
      'quiet',
      { timezone: 'Europe/Pari', from: '25:00', until: '07:00', days: 'mon-fry' },
      [
        'days: days such as mon-fri or sat,sun (did you mean fri?), "mon-fry"',
        'timezone: a time zone such as Europe/Paris (did you mean Europe/Paris?), "Europe/Pari"',
        'from: a time from 00:00 to 23:59, "25:00"',
      ],
    ],
    ['quiet', { ...NIGHT, days: 5 }, ['days: days such as ']],
    ['quiet', { ...NIGHT, days: [null] }, ['days: days such as ']],
    ['quiet', { ...NIGHT, days: ['mon', 'x'] }, ['days: days such as ']],
    ['quiet', { timezone: 'UTC', quietHours: [{ from: '9', until: '10:00' }] }, ['quietHours[0].from: ']],
    ['quiet', { none: true, from: '21:00' }, ['none: no other field, from']],
    [
      'quiet',
      { timezone: 'UTC', from: '00:00', until: '24:00' },
      ['from, until: some time in the week that is not quiet, none'],
    ],
    ['unblock', { for: '1h' }, ['for: no such field']],
    ['unblock', [], [': ']],
    ['cancel', {}, ['key: key (a cancellationKey) or notification, neither']],
    ['cancel', { key: 'a', notification: 'b' }, ['key: key (a cancellationKey) or notification, both']],
    ['note', {}, ['text: ']],
  ])('of %s %j are found, all at once', (name, input, faults) => {
    expect(faultsOf(name, input)).toEqual(faults.map((fault) => expect.stringContaining(fault) as string));
  });

  it('are named as the fields are where they were given', () => {
    const names = { word: 'flag', of: (field: string) => `--${field}`, others: ['--clear'] } as const;
    expect(faultsOf('limit', {}, names)).toEqual(['--rules: --rules, --minGap or --clear, none of them']);
    expect(faultsOf('limit', { rules: '0/1m', rule: '1/1m' }, names)).toEqual([
      '--rules[0].max: an integer from 1 to 100000, 0',
      '--rule: no such field (did you mean rules?), one',
    ]);
    expect(faultsOf('block', null, names)).toEqual(['--: an object, null']);
  });

  it('of an end that has passed are found when the clock is known', () => {
    expect(() => plan(named('block'), { until: NOW - 1, reason: 'exam' })).toThrow(
      /until: expected an instant ahead of now/,
    );
    expect(() => plan(named('limit'), { rules: 'none', until: NOW })).toThrow(InputError);
    expect(() => plan(named('block'), { until: NOW + 367 * 86_400_000, reason: 'exam' })).toThrow(/by 366d at most/);
  });
});
