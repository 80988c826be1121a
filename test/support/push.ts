import {
  notificationSchema,
  type Device,
  type Notification,
  type NotificationInput,
} from '../../src/domain/notification.ts';
import { pushId } from '../../src/domain/push-id.ts';
import type { Push } from '../../src/providers/provider.ts';

let made = 0;

/** A device with a token that no other one has. */
export function makeDevice(platform: Device['platform'] = 'apns'): Device {
  const id = crypto.randomUUID().replaceAll('-', '');
  return platform === 'apns' ? { platform, token: `${id}${id}` } : { platform, token: `${id}:APA91b${id}` };
}

/** A checked notification to one APNs device; every field can be set. */
export function makeNotification(fields: Partial<NotificationInput> = {}): Notification {
  made += 1;
  return notificationSchema.parse({
    id: `msg-${made}-${crypto.randomUUID().slice(0, 8)}`,
    recipientId: 'teacher-42',
    devices: [makeDevice()],
    alert: { title: 'Room 12', body: 'Field trip forms are due' },
    ...fields,
  });
}

export interface PushFields extends Partial<NotificationInput> {
  /** `apns` unless told; a device of its own is made. */
  readonly platform?: Device['platform'];
  readonly silent?: boolean;
}

/** One alert for one device, as the pipeline hands it to a provider. */
export function makePush({ platform = 'apns', silent = false, ...fields }: PushFields = {}): Push {
  const device = makeDevice(platform);
  const notification = makeNotification({ devices: [device], ...fields });
  return { notification, device: notification.devices[0] ?? device, pushId: pushId(notification.id, 0), silent };
}
