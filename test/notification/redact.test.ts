import { expect, it } from 'vitest';
import { errorChain, redact } from '../../src/notification/redact.ts';

const notification = {
  devices: [{ platform: 'apns', token: 'abcdef0123' }],
  alert: { title: 'Room 12', body: 'Field trip' },
  data: { threadId: 'thread-9' },
};

it('takes out tokens and what was written to the recipient', () => {
  const words = 'apns refused abcdef0123: "Room 12", Field trip, thread-9';
  expect(redact(words, notification)).toBe('apns refused [redacted]: "[redacted]", [redacted], [redacted]');
});

it('takes out what looks like a token, whoever it belongs to', () => {
  expect(redact(`Bearer ${'a1'.repeat(40)} is refused`, {})).toBe('Bearer [redacted] is refused');
});

it('copes with a notification that is none', () => {
  for (const raw of [undefined, null, 7, 'text', []]) expect(redact('secret-token', raw)).toBe('secret-token');
  expect(redact('secret-token', { devices: 'secret-token' })).toBe('[redacted]');
});

it('keeps it short', () => expect(redact('word '.repeat(999), {})).toHaveLength(300));

const error = (message: string, fields: object = {}) => Object.assign(new Error(message), fields);
const reset = error('read ECONNRESET', { code: 'ECONNRESET' });
const refused = error('connect ECONNREFUSED ::1:443');
const circle: { message: string; cause?: unknown } = { message: 'round' };
circle.cause = { message: 'and round', cause: circle };

it.each<[string, unknown, string]>([
  [
    'an error and what caused it, outermost first',
    error('write failed', { cause: error('socket hang up', { cause: reset }) }),
    'write failed < socket hang up < read ECONNRESET',
  ],
  ['a code that the message does not have', error('closed', { code: 'ERR_CANCEL' }), 'closed (ERR_CANCEL)'],
  ['once what an outer error has too', error('failed: read ECONNRESET', { cause: reset }), 'failed: read ECONNRESET'],
  [
    'all of several errors at once, each once',
    new AggregateError([refused, error('connect ECONNREFUSED 127.0.0.1:443'), refused]),
    'AggregateError < (connect ECONNREFUSED ::1:443; connect ECONNREFUSED 127.0.0.1:443)',
  ],
  [
    "VError's cause, which is a method",
    error('the outer', { cause: () => error('the deepest') }),
    'the outer < the deepest',
  ],
  ['a chain that leads back to itself', circle, 'round < and round'],
  ['a text', 'words', 'words'],
  ['an error without a message', new TypeError(''), 'TypeError'],
  ['a code alone', { code: 14 }, '14'],
  ...[undefined, null, {}, '', Symbol('x')].map((nothing): [string, unknown, string] => ['nothing', nothing, '']),
])('a chain of errors shows %s', (_, thrown, words) => expect(errorChain(thrown)).toBe(words));

it('a chain of errors ends where it is very long', () => {
  let long = new Error('0');
  for (let depth = 1; depth < 1_000; depth++) long = new Error(`${depth}`, { cause: long });
  expect(errorChain(long).split(' < ')).toHaveLength(10);
});
