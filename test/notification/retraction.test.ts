import { expect, test } from 'vitest';
import { retractionOf } from '../../src/notification/retraction.ts';
import { makeNotification } from '../support/push.ts';

const data = { pushpacer: { retract: ['msg-1'], tags: ['thread-77'], badge: 2 } };

test('a background push with these data is a retraction', () => {
  const background = makeNotification({ pushType: 'background', alert: undefined, data });
  expect(retractionOf(background)).toEqual({ retract: ['msg-1'], tags: ['thread-77'], badge: 2 });
  const badgeAlone = makeNotification({ pushType: 'background', alert: undefined, data: { pushpacer: { badge: 2 } } });
  expect(retractionOf(badgeAlone)).toBeUndefined();
});

test('an alert with the same data is none: it is delivered, and counted as an alert', () => {
  expect(retractionOf(makeNotification({ data }))).toBeUndefined();
});
