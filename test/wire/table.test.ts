import { expect, test } from 'vitest';
import { shapeFaults, type Shape } from './table.ts';

/** Each shape takes good values, and refuses bad ones. */

const TEXT: Shape = { is: 'text' };
const FIELDS = { aB: TEXT, c: { is: 'flag' } } as const;

test.each<[name: string, Shape, good: unknown[], bad: unknown[]]>([
  ['a text', TEXT, ['', 'a'], [7, true, [], {}]],
  ['one of some', { is: 'text', oneOf: ['a', 'b'] }, ['a', 'b'], ['', 'A', 1]],
  ['a bound of bytes', { is: 'text', maxBytes: 4 }, ['aaaa', 'éé'], ['aaaaa', 'ééa']],
  ['a whole number in a text', { is: 'text', form: 'decimal', most: 90 }, ['0', '90'], ['91', '-1', '1.5', '01', 7]],
  ['a duration', { is: 'text', form: 'duration', most: 9 }, ['0s', '9s', '0.5s'], ['9.1s', '3.5', '1m', 's']],
  ['an instant', { is: 'text', form: 'instant' }, ['2026-11-21T18:00:00.5Z'], ['2026-11-21', '2026-13-21T18:00:00Z']],
  ['a color', { is: 'text', form: 'color' }, ['#1a73e8'], ['#1a73e', '1a73e8', 'red']],
  ['an https URL', { is: 'text', form: 'https' }, ['https://a'], ['http://a', 'https://', 'https://a b']],
  ['a label', { is: 'text', form: 'label' }, ['a~%'], ['', 'a b', 'x'.repeat(51)]],
  [
    'a UUID',
    { is: 'text', form: 'uuid' },
    ['5f1c7a0e-9b5d-5e0c-8d3a-6c2f7be41d90'],
    ['5f1c7a0e9b5d5e0c8d3a6c2f7be41d90'],
  ],
  ['a bundle id', { is: 'text', form: 'bundle' }, ['com.example.a'], ['com_example', '']],
  ['hexadecimal digits', { is: 'text', form: 'hex' }, ['aB9'], ['', 'xy', 'a ']],
  ['visible characters', { is: 'text', form: 'visible' }, ['a!~'], ['a b', 'é', '']],
  ['base64', { is: 'text', form: 'base64' }, ['a+/9', 'aA=='], ['', 'a_', 'a===', '=a']],
  ['base64url', { is: 'text', form: 'base64url' }, ['a_-'], ['a=', 'a+', '']],
  [
    'an installation id',
    { is: 'text', form: 'fid' },
    [`c${'-_aA9'.repeat(4)}b`, `f${'a'.repeat(21)}`],
    [`b${'a'.repeat(21)}`, `g${'a'.repeat(21)}`, `c${'a'.repeat(20)}`, `c${'a'.repeat(22)}`, `c${'a'.repeat(20)}:`],
  ],
  ['a number', { is: 'number', from: 0, to: 1 }, [0, 0.5, 1], [-0.1, 1.1, '1', true]],
  ['a whole number', { is: 'number', whole: true }, [-7], [0.5, NaN]],
  ['a flag', { is: 'flag' }, [true, false], ['true', 1]],
  ['a list', { is: 'list', of: TEXT }, [[], ['a']], ['a', [7], { 0: 'a' }]],
  ['a map', { is: 'map', of: TEXT, reserved: /^from$/ }, [{}, { a: 'b' }], [{ a: 7 }, { from: 'a' }, []]],
  [
    'an object',
    { is: 'object', fields: FIELDS, required: ['c'] },
    [{ c: true }],
    [{ aB: 'a' }, { c: 7 }, { c: true, d: 1 }, []],
  ],
  ['one with others', { is: 'object', fields: FIELDS, others: 'any' }, [{ d: 7 }], [{ d: 7, c: 1 }]],
  [
    'names of protobuf',
    { is: 'object', fields: FIELDS, proto: true },
    [{ aB: 'a' }, { a_b: 'a' }],
    [{ aB: 'a', a_b: 'a' }, { a_b: 7 }, { AB: 'a' }],
  ],
  [
    'names of headers',
    { is: 'object', fields: { ttl: TEXT }, anyCase: true },
    [{ TTL: 'a' }],
    [{ TTL: 'a', ttl: 'a' }, { TTL: 7 }],
  ],
  ['either', { is: 'either', of: [TEXT, { is: 'object', fields: FIELDS }] }, ['a', { aB: 'a' }], [7, { aB: 7 }]],
  ['anything', { is: 'any' }, [7, {}, 'a'], []],
])('%s', (_, shape, good, bad) => {
  for (const value of good) expect(shapeFaults(value, shape, 'at'), JSON.stringify(value)).toEqual([]);
  for (const value of bad) expect(shapeFaults(value, shape, 'at'), JSON.stringify(value)).not.toEqual([]);
});
