import type { Device, NotificationInput } from '../../src/domain/notification.ts';
import type { BenchPlatform } from './case.ts';

/** About 100 bytes of text, as a school writes it. */
const ALERT = {
  title: 'Room change for class 7b',
  body: 'The lesson at 10:15 takes place in room 204 today. Please tell the pupils.',
};
/** As long as FCM's registration tokens are. */
const FCM_TOKEN_LENGTH = 152;
/** Hexadecimal digits of an APNs token. */
const APNS_TOKEN_LENGTH = 64;

/** `count` alerts, each to another recipient with one device, so that no limit blocks any. `batch` makes the ids unique. */
export function makeJobs(
  platform: BenchPlatform,
  batch: string,
  count: number,
): (NotificationInput & { id: string })[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `${batch}-${index}`,
    recipientId: `teacher-${batch}-${index}`,
    devices: [deviceOf(platform, index)],
    alert: ALERT,
  }));
}

function deviceOf(platform: BenchPlatform, index: number): Device {
  if (platform === 'apns') return { platform, token: index.toString(16).padStart(APNS_TOKEN_LENGTH, '0') };
  return { platform, token: `f${index}:`.padEnd(FCM_TOKEN_LENGTH, 'APA91b') };
}
