import { expect, test } from 'vitest';
import { Journal, type JournalEntry } from '../../src/sandbox/journal.ts';

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
