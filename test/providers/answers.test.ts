import { expect, test } from 'vitest';
import type { ReplyTable } from '../../src/providers/provider.ts';
import { parseRetryAfter, TRANSPORT_REPLIES, transportReply } from '../../src/providers/replies.ts';
import { connectFailure } from '../../src/providers/sender/result.ts';
import { describeRow, readAnswers } from './answers-table.ts';

test('docs/provider-faults.md says what the code does where there is no answer', async () => {
  const documented = await readAnswers('No answer');
  const table: ReplyTable = TRANSPORT_REPLIES;
  expect(documented.map(({ code }) => code).sort()).toEqual(Object.keys(table).sort());
  for (const answer of documented) {
    const row = table[answer.code];
    expect(answer).toEqual(row && describeRow(answer.code, row));
  }
});

test('without an answer, what may have alerted is ambiguous, and what cannot have is unsent', () => {
  const rows = Object.entries<{ alerted: string; ambiguous?: boolean; unsent?: boolean }>(TRANSPORT_REPLIES);
  expect(rows.length).toBeGreaterThan(10);
  for (const [code, { alerted, ambiguous = false, unsent = false }] of rows) {
    expect([code, ambiguous, unsent]).toEqual([code, alerted === 'maybe', alerted === 'no']);
  }
});

test.each([
  ['ECONNREFUSED', 'connection-refused'],
  ['ENOTFOUND', 'host-not-found'],
  ['EAI_AGAIN', 'connection-failed'],
  ['EPROTO', 'tls-failed'],
  ['CERT_HAS_EXPIRED', 'tls-failed'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'tls-failed'],
  ['INVALID_PURPOSE', 'tls-failed'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls-failed'],
  ['ETIMEDOUT', 'connect-timeout'],
  ['ECONNRESET', 'connection-failed'],
  ['toString', 'connection-failed'],
  [undefined, 'connection-failed'],
])('a connection that ends with %s before it stands is %s, also among several addresses', (code, expected) => {
  const error = Object.assign(new Error('no connection'), { code });
  const cause = code === undefined ? {} : { cause: code };
  expect(connectFailure(error)).toEqual({ kind: 'unsent', code: expected, detail: 'no connection', ...cause });
  expect(connectFailure(new AggregateError([error], 'all addresses')).code).toBe(expected);
});

test.each([
  ['0', undefined],
  ['120', 120_000],
  ['999999999', 86_400_000],
  ['Sat, 21 Nov 2026 18:01:00 GMT', 60_000],
  ['Sat, 21 Nov 2026 17:59:00 GMT', undefined],
  ['soon', undefined],
  ['-5', undefined],
  [undefined, undefined],
  [['7', '8'], undefined],
])('Retry-After %s', (header, expected) => {
  expect(parseRetryAfter(header, Date.parse('2026-11-21T18:00:00Z'))).toBe(expected);
});

test('a code of our own comes with its row, and with words only where there are some', () => {
  expect(transportReply('timeout')).toEqual({ ...TRANSPORT_REPLIES.timeout, code: 'timeout' });
  expect(transportReply('reset', 'read ECONNRESET')).toMatchObject({ code: 'reset', detail: 'read ECONNRESET' });
});
