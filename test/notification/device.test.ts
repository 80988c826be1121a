import { expect, test } from 'vitest';
import { isSameDevice } from '../../src/notification/device.ts';
import type { Device } from '../../src/notification/notification.ts';

const activity = (liveActivityToken: string): Device => ({ platform: 'fcm', token: 'f1:APA91b', liveActivityToken });

test.each<[string, Device, Device, isSame: boolean]>([
  ['a token of Apple', { platform: 'apns', token: 'abcdef01' }, { platform: 'apns', token: 'ABCDEF01' }, true],
  ['the token of a Live Activity', activity('abcdef01'), activity('AbCdEf01'), true],
  ['the token of another Live Activity on the same phone', activity('abcdef01'), activity('abcdef02'), false],
  ['a token of FCM', { platform: 'fcm', token: 'f1:APA91b' }, { platform: 'fcm', token: 'f1:apa91b' }, false],
])('whether %s means the same device in capitals and in small letters', (_, a, b, isSame) => {
  expect(isSameDevice(a, b)).toBe(isSame);
});
