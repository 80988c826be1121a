import { expect, test } from 'vitest';
import { errorChain } from '../../src/domain/redact.ts';

test('tells an error and what caused it, outermost first', () => {
  const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  const hangUp = new Error('socket hang up', { cause: reset });
  expect(errorChain(new Error('write failed', { cause: hangUp }))).toBe(
    'write failed < socket hang up < read ECONNRESET',
  );
});

test('tells a code that the message does not tell', () => {
  expect(errorChain(Object.assign(new Error('the stream was closed'), { code: 'ERR_HTTP2_STREAM_CANCEL' }))).toBe(
    'the stream was closed (ERR_HTTP2_STREAM_CANCEL)',
  );
});

test('leaves out what an outer error has said already', () => {
  const cause = new Error('read ECONNRESET');
  expect(errorChain(new Error('write failed: read ECONNRESET', { cause }))).toBe('write failed: read ECONNRESET');
});

test('tells all of several errors at once, each once', () => {
  const errors = [new Error('connect ECONNREFUSED ::1:443'), new Error('connect ECONNREFUSED 127.0.0.1:443')];
  expect(errorChain(new AggregateError([...errors, errors[0]]))).toBe(
    'AggregateError < (connect ECONNREFUSED ::1:443; connect ECONNREFUSED 127.0.0.1:443)',
  );
});

test("follows VError's cause, which is a method", () => {
  const cause = (): Error => new Error('the deepest');
  expect(errorChain(Object.assign(new Error('the outer'), { cause }))).toBe('the outer < the deepest');
});

test('ends where a chain leads back to itself, or is very long', () => {
  const circle: { message: string; cause?: unknown } = { message: 'round' };
  circle.cause = { message: 'and round', cause: circle };
  expect(errorChain(circle)).toBe('round < and round');
  let long = new Error('0');
  for (let depth = 1; depth < 1_000; depth++) long = new Error(`${depth}`, { cause: long });
  expect(errorChain(long).split(' < ')).toHaveLength(10);
});

test('tells whatever was thrown', () => {
  expect(errorChain('words')).toBe('words');
  expect(errorChain(new TypeError(''))).toBe('TypeError');
  expect(errorChain({ code: 14 })).toBe('14');
  for (const nothing of [undefined, null, {}, '', Symbol('x')]) expect(errorChain(nothing)).toBe('');
});
