import { expect, test } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { tokenOf } from '../../src/domain/device.ts';
import { parseNotification } from '../../src/domain/notification.ts';
import { sandboxSubscription } from '../../sandbox/webpush/subscription.ts';
import { makeNotification } from '../support/push.ts';

const subscription = sandboxSubscription('https://fcm.googleapis.com', 'ana');

function faultsOf(device: unknown): string[] {
  const parsed = parseNotification({ ...makeNotification(), devices: [device] });
  return parsed.ok ? [] : parsed.faults.map(formatFault);
}

test.each([
  ['as a browser gives it', subscription],
  ['with the expirationTime of a browser', { ...subscription, expirationTime: null }],
  ['with an instant there', { ...subscription, expirationTime: 1_795_284_000_000.5 }],
])('a subscription %s fits', (_name, fields) => {
  expect(faultsOf({ platform: 'webpush', ...fields })).toEqual([]);
});

const ENDPOINT = 'devices[0].endpoint: expected';
const HTTPS = `${ENDPOINT} an https:// URL of at most 2048 visible ASCII characters, found`;
const PLAIN = `${ENDPOINT} a URL without a user, a password and a fragment, found`;

test.each([
  ['http', 'http://fcm.googleapis.com/a', `${HTTPS} a string of 27 characters`],
  ['no URL', 'ana', `${HTTPS} a string of 3 characters`],
  ['a space', 'https://fcm.googleapis.com/a b', `${HTTPS} a string of 30 characters`],
  ['too long', `https://fcm.googleapis.com/${'a'.repeat(2_022)}`, `${HTTPS} a string of 2049 characters`],
  ['a user', 'https://ana:geheim@fcm.googleapis.com/a', `${PLAIN} a string of 39 characters`],
  ['a fragment', 'https://fcm.googleapis.com/a#b', `${PLAIN} a string of 30 characters`],
  ['a host that is none', 'https://[/a', `${PLAIN} a string of 11 characters`],
  ['a number', 5, `${ENDPOINT} a string, found 5`],
])('an endpoint with %s is a fault, which does not show it', (_name, endpoint, fault) => {
  expect(faultsOf({ platform: 'webpush', ...subscription, endpoint })).toEqual([fault]);
});

test('each fault of the keys has its path, all at once', () => {
  const keys = { p256dh: subscription.keys.p256dh.slice(1), auth: 'a+/=', extra: 1 };
  expect(faultsOf({ platform: 'webpush', endpoint: subscription.endpoint, keys, token: 'abc' })).toEqual([
    'devices[0].keys.p256dh: expected a public key on P-256: 87 characters of base64url, beginning with B, found a string of 86 characters',
    'devices[0].keys.auth: expected a secret of 16 bytes: 22 characters of base64url, found a string of 4 characters',
    'devices[0].keys.extra: expected no such field, found one',
    'devices[0].token: expected no such field, found one',
  ]);
  expect(faultsOf({ platform: 'webpush' })).toEqual([
    'devices[0].endpoint: expected a string, found nothing',
    'devices[0].keys: expected an object, found nothing',
  ]);
});

test('a subscription is known by its endpoint', () => {
  expect(tokenOf({ platform: 'webpush', ...subscription })).toBe(subscription.endpoint);
});
