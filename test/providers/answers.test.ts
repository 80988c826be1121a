import { expect, test } from 'vitest';
import type { ReplyTable } from '../../src/providers/provider.ts';
import { TRANSPORT_REPLIES } from '../../src/providers/replies.ts';
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

test.each([
  ['ECONNREFUSED', 'connection-refused'],
  ['ENOTFOUND', 'host-not-found'],
  ['EPROTO', 'tls-failed'],
  ['CERT_HAS_EXPIRED', 'tls-failed'],
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
