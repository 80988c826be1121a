import { expect, test } from 'vitest';
import { pushId } from '../../src/domain/device.ts';
import { entryText, Journal, type JournalEntry } from '../../sandbox/journal.ts';

function entry(token: string, accepted = true): JournalEntry {
  return { platform: 'apns', token, at: 0, accepted, data: {} };
}

test('tells all requests, and apart from them the accepted ones', () => {
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

test('keeps only the latest where it is told to', () => {
  const journal = new Journal({ keep: 2 });
  for (const token of ['a', 'b', 'c', 'd']) journal.record(entry(token, token < 'c'));
  expect(journal.all.map(({ token }) => token)).toEqual(['c', 'd']);
  expect(journal.accepted.map(({ token }) => token)).toEqual(['a', 'b']);
});

test('tells how many it dropped, until it is cleared', () => {
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
