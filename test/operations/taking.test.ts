import { describe, expect, test } from 'vitest';
import { createOutlook } from '../../src/dead-letters/outlook.ts';
import { InputError } from '../../src/domain/faults.ts';
import { fieldsOf } from '../../src/operations/fields.ts';
import {
  askToTake,
  choiceFields,
  choiceText,
  FILTER,
  filterFrom,
  outlookSentences,
  TAKE,
  toWhomText,
} from '../../src/operations/taking.ts';
import { deadLetter } from '../dead-letters/letters.ts';
import { notification } from '../queue/support.ts';

describe('what a replay comes to', () => {
  const now = Date.UTC(2026, 10, 21, 12);
  const policy = { rules: [{ max: 2, perMs: 60_000 }], minGapMs: 3_000 };
  const outlookOf = (perSecond: number, notifications: readonly unknown[]) => {
    const outlook = createOutlook({ perSecond, policy, now });
    for (const each of notifications)
      outlook.add({ id: 'x', buriedAt: now, letter: deadLetter('x', { notification: each }) });
    const forecast = outlook.forecast();
    return {
      fields: forecast,
      toWhom: toWhomText(forecast),
      sentences: outlookSentences(forecast, { perSecond, policy }),
    };
  };
  const to = (recipientId: string, fields: object = {}) => ({ ...notification({ recipientId }), ...fields });

  test('the last goes out when the recipient with the most has room for it', () => {
    const outlook = outlookOf(50, [...Array.from({ length: 5 }, () => to('busy')), to('a'), to('b')]);
    expect(outlook.fields).toMatchObject({ recipients: 3, expired: 0, lastAfterMs: 120_000 });
    expect(outlook.toWhom).toBe(', to 3 recipients (5 to busy)');
    expect(outlook.sentences).toEqual(['At 50/s, and under 2/1m, gap 3s, the last goes out in about 2m.']);
  });

  test('or when the rate has come to it', () => {
    const many = Array.from({ length: 31 }, (_, n) => to(`r${n}`));
    expect(outlookOf(0.5, many).sentences).toEqual(['At 30/m, and under 2/1m, gap 3s, the last goes out in about 1m.']);
    expect(outlookOf(0.5, many).toWhom).toBe(', to 31 recipients');
    expect(outlookOf(Infinity, many).sentences).toEqual([
      'Without a rate, and under 2/1m, gap 3s, the last goes out at once.',
    ]);
  });

  test('what will have expired is not sent, and makes nobody wait', () => {
    const gone = to('busy', { expiresAt: now - 1 });
    const soon = to('busy', { expiresAt: new Date(now + 2_000).toISOString() });
    expect(outlookOf(50, [gone, to('busy'), soon, to('busy')]).fields).toMatchObject({
      ...{ recipients: 1, expired: 2, lastAfterMs: 3_020 },
    });
    expect(outlookOf(50, [gone, to('busy')]).sentences.at(-1)).toBe(
      'About 1 will have expired by then, and will not be sent.',
    );
    expect(outlookOf(50, [gone]).sentences).toEqual(['All of them have expired: none will be sent.']);
    expect(outlookOf(50, [gone]).fields).toEqual({
      count: 1,
      recipients: 1,
      busiest: { recipientId: 'busy', count: 1 },
      expired: 1,
    });
  });

  test('what is not sent before an instant makes it later; any value is taken', () => {
    const later = to('a', { sendAfter: now + 3_600_000 });
    expect(outlookOf(50, [later, 'text', null, { recipientId: 7 }]).fields).toMatchObject({
      ...{ recipients: 1, expired: 0, lastAfterMs: 3_600_000 },
    });
    expect(outlookOf(50, ['text']).toWhom).toBe('');
    expect(outlookOf(50, []).sentences).toEqual([]);
  });
});

const NOW = Date.UTC(2026, 10, 21, 12);

test('a filter means what was written, with times from now', () => {
  const given = { reason: 'rejected', recipient: 'r', platform: 'fcm', app: "''", category: 'c', id: 'i' };
  const filter = filterFrom({ ...given, since: '2h', until: NOW - 60_000 }, NOW);
  expect(filter).toEqual({
    ...{ reason: 'rejected', recipientId: 'r', platform: 'fcm', app: '', category: 'c', id: 'i' },
    ...{ sinceMs: NOW - 7_200_000, untilMs: NOW - 60_000 },
  });
  expect(Object.keys(given).concat('since', 'until')).toEqual(fieldsOf({ fields: FILTER }).map(({ name }) => name));
  // As fields again it means the same later.
  expect(filterFrom(choiceFields(filter), NOW + 3_600_000)).toEqual(filter);
});

test.each([
  [{ reason: 'rejected' }, { which: { reason: 'rejected' }, perSecond: 50, buriedUntilMs: NOW }, 'reason rejected'],
  [{ all: true, rate: 'off', before: NOW - 5 }, { which: {}, perSecond: Infinity, buriedUntilMs: NOW - 5 }, 'all'],
  [{ pick: '0:a', before: NOW + 5 }, { which: [{ shard: 0, id: 'a' }], buriedUntilMs: NOW }, 'a'],
  [
    { pick: ['0:a', '12:b:c'] },
    {
      which: [
        { shard: 0, id: 'a' },
        { shard: 12, id: 'b:c' },
      ],
    },
    '2 chosen ones',
  ],
])('%j chooses, and is told by it', (given, wish, told) => {
  const asked = askToTake('replay', given, NOW);
  expect(asked).toMatchObject({ verb: 'replay', ...wish });
  expect(choiceText(asked.which)).toBe(told);
  expect(askToTake('replay', choiceFields(asked.which), NOW).which).toEqual(asked.which);
});

test.each([
  [
    {},
    'all: expected a filter (reason, recipient, platform, app, category, id, since, until), or all of them with all',
  ],
  [{ all: false }, 'all: expected a filter ('],
  [{ all: true, id: 'a' }, 'all: expected no filter beside it, since it means all dead letters, found one'],
  [{ pick: ['0:a'], reason: 'rejected' }, 'pick: expected nothing else that chooses, found reason'],
  [{ pick: 'a' }, 'pick: expected a shard and an id, such as 0:msg-1, or several of these, found "a"'],
  [{ pick: Array.from({ length: 201 }, () => '0:a') }, 'pick: expected 1 to 200 of them'],
  [{ pick: Array(1_000_000).fill(1) }, 'pick: expected at most 1000 values and 65536 characters in all, found more'],
  [{ pick: [] }, 'pick: expected 1 to 200 of them, found an array of 0'],
  [{ pick: 5 }, 'pick: expected a shard and an id, such as 0:msg-1, or several of these, found 5'],
  [{ all: true, rate: '0' }, 'rate: expected a rate such as 50/s, 30/m or 500/h, or off, found "0"'],
  [{ all: true, before: 'noon' }, 'before: expected an RFC 3339 date-time or epoch milliseconds, found "noon"'],
  [{ reason: 'bored' }, 'reason: expected invalid, '],
  [{ recipient: 7 }, 'recipient: expected '],
  [{ since: 'noon' }, 'since: expected an RFC 3339 date-time or epoch milliseconds, or a duration ago such as 2h'],
  [
    { since: '1h', until: '2h' },
    'since: expected an instant before until, 2026-11-21T10:00:00Z, found 2026-11-21T11:00',
  ],
  [{ reasn: 'rejected', all: true }, 'reasn: '],
])('%j is refused by name', (given, fault) => {
  const ask = () => askToTake('discard', given, NOW);
  expect(ask).toThrow(InputError);
  expect(ask).toThrow(fault);
});

test('every field says what it is', () => {
  for (const { label, description } of fieldsOf({ fields: TAKE })) expect([label, description]).not.toContain('');
});
