import { expect, test } from 'vitest';
import { waitsFrom } from '../../src/domain/time.ts';

test.each([
  ['without a sendAfter', {}, 1_000],
  ['with an earlier one', { sendAfter: 999 }, 1_000],
  ['with a later one', { sendAfter: 5_000 }, 5_000],
  ['with a later one as a text', { sendAfter: '1970-01-01T00:00:05Z' }, 5_000],
  ['with one that is none', { sendAfter: 'soon' }, 1_000],
  ['that is not even an object', null, 1_000],
])('a notification %s waits from then on', (_, data, from) => {
  expect(waitsFrom(1_000, data)).toBe(from);
});
