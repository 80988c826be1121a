import { expect, test, describe, it } from 'vitest';
import { entryText, Journal, type JournalEntry } from '../../sandbox/journal.ts';
import { idealMakespan, judge, type Arrival } from '../../sandbox/judge.ts';
import { pushId } from '../../src/notification/device.ts';

function entry(token: string, accepted = true): JournalEntry {
  return { platform: 'apns', token, at: 0, accepted, data: {} };
}

test('shows all requests, and apart from them the accepted ones', () => {
  const journal = new Journal();
  journal.record(entry('a'));
  journal.record(entry('b', false));
  expect(journal.all.map(({ token }) => token)).toEqual(['a', 'b']);
  expect(journal.accepted.map(({ token }) => token)).toEqual(['a']);
  journal.clear();
  expect([journal.all, journal.accepted]).toEqual([[], []]);
});

test('what was read before a clear stays as it was', () => {
  const journal = new Journal();
  journal.record(entry('a'));
  const before = journal.all;
  journal.clear();
  expect(before).toHaveLength(1);
});

test('calls its listeners with each entry until they have had enough', () => {
  const journal = new Journal();
  const heard: string[] = [];
  const stop = journal.on(({ token }) => heard.push(token));
  journal.record(entry('a'));
  journal.record(entry('b', false));
  stop();
  journal.record(entry('c'));
  expect(heard).toEqual(['a', 'b']);
});

test('keeps only the latest where an option says so', () => {
  const journal = new Journal({ keep: 2 });
  for (const token of ['a', 'b', 'c', 'd']) journal.record(entry(token, token < 'c'));
  expect(journal.all.map(({ token }) => token)).toEqual(['c', 'd']);
  expect(journal.accepted.map(({ token }) => token)).toEqual(['a', 'b']);
});

test('counts what it dropped, until it is cleared', () => {
  const journal = new Journal({ keep: 2 });
  for (const token of ['a', 'b', 'c']) journal.record(entry(token));
  expect(journal.dropped).toBe(1);
  journal.clear();
  expect(journal.dropped).toBe(0);
});

test("finds a notification's requests by its id, on both platforms", () => {
  const journal = new Journal();
  journal.record({ ...entry('a'), apnsId: pushId('msg-1', 0) });
  journal.record({ ...entry('b', false), platform: 'fcm', tag: pushId('msg-1', 19) });
  journal.record({ ...entry('c'), apnsId: pushId('msg-2', 0) });
  journal.record({ ...entry('d'), tag: 'msg-1' });
  expect(journal.of('msg-1').map(({ token }) => token)).toEqual(['a', 'b']);
  expect(journal.of('msg-3')).toEqual([]);
});

test('waits until so many alerts were accepted, also before the ask', async () => {
  const journal = new Journal();
  journal.record(entry('a'));
  const two = journal.waitFor(2);
  journal.record(entry('b', false));
  journal.record(entry('c'));
  expect((await two).map(({ token }) => token)).toEqual(['a', 'c']);
  expect(await journal.waitFor(1, { where: ({ accepted }) => !accepted })).toMatchObject([{ token: 'b' }]);
});

test('says what came instead', async () => {
  const journal = new Journal({ keep: 3 });
  await expect(journal.waitFor(1, { timeoutMs: 1 })).rejects.toThrow(
    'expected 1 accepted alerts within 1 ms, found 0: no request came at all',
  );
  journal.record({ ...entry('abcdef', false), status: 410, reason: 'Unregistered', title: 'Room 12' });
  await expect(journal.waitFor(1, { timeoutMs: 1 })).rejects.toThrow(
    'within 1 ms, found 0; the latest of 1 requests:\n  apns abc… refused 410 Unregistered "Room 12"',
  );
  await expect(journal.waitFor(4)).rejects.toThrow('count: expected at most 3, found 4');
});

const ID = '5f1c7a0e-9b5d-5e0c-8d3a-6c2f7be41d90';
test.each<[Partial<JournalEntry>, string]>([
  [{ status: 200, apnsId: ID, collapseId: ID }, 'apns abcd… accepted push id 5f1c7a0e'],
  [
    { platform: 'fcm', status: 200, tag: 'thread-7', collapseId: 'thread-7' },
    'fcm  abcd… accepted collapse id "thread-7"',
  ],
  [{ status: 200, title: 'Room\u001b[2J 12' }, 'apns abcd… accepted "Room\\u{1b}[2J 12"'],
  [{ status: 200, title: 'x'.repeat(100) }, `apns abcd… accepted "${'x'.repeat(59)}…"`],
  [{ accepted: false, status: 503 }, 'apns abcd… refused 503'],
  [{ accepted: false, reason: 'hang' }, 'apns abcd… no answer (hang)'],
  [{ status: 503, reason: 'Shutdown' }, 'apns abcd… accepted, but answered 503 Shutdown'],
  [{ reason: 'reset' }, 'apns abcd… accepted, but no answer (reset)'],
  [{ token: '', accepted: false, status: 404 }, 'apns (no token) refused 404'],
  [{ token: 'ab', status: 200 }, 'apns a… accepted'],
])('writes an entry as a line: %j', (more, line) => {
  expect(entryText({ ...entry('abcdef0123456789'), ...more })).toBe(line);
});

const policy = { rules: [{ max: 3, perMs: 1_000 }], minGapMs: 200 };

function arrivals(times: readonly number[], recipientId = 'teacher-1'): Arrival[] {
  return times.map((at, index) => ({ recipientId, notificationId: `${recipientId}-${index}`, device: 'd', at }));
}

describe('judge', () => {
  it('finds nothing wrong with an exact schedule', () => {
    expect(judge(arrivals([0, 200, 400, 1_000, 1_200]), policy)).toEqual({
      gapViolations: 0,
      windowViolations: 0,
      duplicates: 0,
      minGapMs: 200,
      maxInWindow: 3,
      makespanMs: 1_200,
      idealMakespanMs: 1_200,
      makespanRatio: 1,
    });
  });

  it('counts gaps that are short by more than the tolerance', () => {
    expect(judge(arrivals([0, 149, 350]), policy).gapViolations).toBe(1);
  });

  it('counts windows with too many by more than the tolerance', () => {
    expect(judge(arrivals([0, 300, 600, 950]), policy).windowViolations).toBe(0);
    expect(judge(arrivals([0, 300, 600, 949]), policy)).toMatchObject({ windowViolations: 1, maxInWindow: 4 });
  });

  it.each([
    ['the first alert may have left in time', [100, 0, 0], 0],
    ['the first may have left a little earlier, but not early enough', [99, 0, 0], 1],
    ['the second may have left before the first', [0, 150, 0], 0],
    ['a later one was late', [0, 0, 500], 1],
  ])('gives the benefit of the doubt where %s', (_, delays, gapViolations) => {
    const seen = arrivals([1_000, 1_050, 2_000]).map((one, index) => ({ ...one, delayMs: delays[index] }));
    expect(judge(seen, policy)).toMatchObject({ gapViolations, windowViolations: 0 });
  });

  it('counts a window that is too full by every instant at which the alerts may have left', () => {
    const seen = arrivals([0, 300, 600, 865]).map((one) => ({ ...one, delayMs: 84 }));
    expect(judge(seen, policy)).toMatchObject({ windowViolations: 1, maxInWindow: 4 });
    expect(
      judge(
        seen.map((one) => ({ ...one, delayMs: 85 })),
        policy,
      ),
    ).toMatchObject({
      windowViolations: 0,
      maxInWindow: 3,
    });
  });

  it('finds a burst whatever the doubt is, as long as that is less than the gap', () => {
    const seen = arrivals([0, 5, 10, 15, 20, 25]).map((one) => ({ ...one, delayMs: 100 }));
    expect(judge(seen, policy)).toMatchObject({ gapViolations: 5, windowViolations: 3, maxInWindow: 6 });
  });

  it('keeps recipients apart', () => {
    const two = [...arrivals([0, 200]), ...arrivals([100, 300], 'teacher-2')];
    expect(judge(two, policy)).toMatchObject({ gapViolations: 0, minGapMs: 200 });
  });

  it('takes the devices of one notification for one alert, and counts what came twice', () => {
    const first = { recipientId: 'r', notificationId: 'n', device: 'phone', at: 0 };
    expect(judge([first, { ...first, device: 'tablet', at: 5 }], policy)).toMatchObject({
      gapViolations: 0,
      duplicates: 0,
    });
    expect(judge([first, { ...first, at: 5 }], policy).duplicates).toBe(1);
    // A second device half a gap later is an alert of its own, unless its request may have left earlier.
    const late = { ...first, device: 'tablet', at: 130 };
    expect(judge([first, late], policy).gapViolations).toBe(1);
    expect(judge([first, { ...late, delayMs: 31 }], policy).gapViolations).toBe(0);
  });
});

it('knows the ideal makespan', () => {
  expect(idealMakespan(1, policy)).toBe(0);
  expect(idealMakespan(4, policy)).toBe(1_000);
  expect(idealMakespan(200, { rules: [], minGapMs: 100 })).toBe(19_900);
});
