import { expect, it } from 'vitest';
import { unknownRequests } from '../../../chaos/balance.ts';
import { enqueuedOf, entryOf, OTHER_TOKEN } from './facts.ts';

const enqueued = enqueuedOf({ id: 'a' });

it('knows the requests of what was enqueued, the refused ones too', () => {
  expect(unknownRequests(enqueued, [entryOf('a', 0), entryOf('a', 1, { accepted: false, status: 503 })])).toEqual([]);
});

it.each([
  ['no notification', entryOf('a', 0, { data: {}, accepted: false })],
  ['notification b', entryOf('b', 0)],
  ['notification a', entryOf('a', 0, { token: OTHER_TOKEN })],
  ['notification a', entryOf('a', 0, { platform: 'fcm' })],
])('tells a request that nobody asked for: %s', (whose, entry) => {
  expect(unknownRequests(enqueued, [entry])).toEqual([`${entry.platform} at 1970-01-01T00:00:00.000Z, ${whose}`]);
});

it('knows no request of a malformed notification', () => {
  expect(unknownRequests(new Map([['m', { id: 'm' }]]), [entryOf('m', 0)])).toHaveLength(1);
});
