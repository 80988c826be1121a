import { formatFault } from '../../src/domain/faults.ts';
import {
  notificationSchema,
  parseNotification,
  type Device,
  type Notification,
  type NotificationInput,
  type Platform,
} from '../../src/notification/notification.ts';
import { pushId } from '../../src/notification/device.ts';
import type { Push } from '../../src/providers/provider.ts';
import { sandboxSubscription } from '../../sandbox/webpush/subscription.ts';

let made = 0;

/** A device of one platform; on FCM one with a registration token. */
export type DeviceOn<P extends Platform> = P extends 'fcm'
  ? Extract<Device, { platform: P }> & { token: string }
  : Extract<Device, { platform: P }>;

/** Where subscriptions for web push lie, unless a loopback server is given. */
const PUSH_SERVICE = 'https://updates.push.services.mozilla.com';

const MAKERS: { readonly [P in Platform]: (id: string, server: string) => DeviceOn<P> } = {
  apns: (id) => ({ platform: 'apns', token: `${id}${id}` }),
  fcm: (id) => ({ platform: 'fcm', token: `${id}:APA91b${id}` }),
  webpush: (id, server) => ({ platform: 'webpush', ...sandboxSubscription(server, id) }),
};

/** A device with a token, or an endpoint at this server, that no other one has. */
export function makeDevice<P extends Platform = 'apns'>(platform?: P, server = PUSH_SERVICE): DeviceOn<P> {
  const id = crypto.randomUUID().replaceAll('-', '');
  return MAKERS[platform ?? ('apns' as P)](id, server);
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

/** The same with its id in its data, by which a journal shows which one it was, and the judge knows how long it was under way. */
export function makeTraced(fields: Partial<NotificationInput> = {}): Notification {
  const notification = makeNotification(fields);
  return { ...notification, data: { ref: notification.id } };
}

/** What is wrong with a notification, a line for each fault. */
export function faultsOf(raw: unknown): string[] {
  const parsed = parseNotification(raw);
  return parsed.ok ? [] : parsed.faults.map(formatFault);
}

/** The fields of an update of one Live Activity, of which the newest is enough. */
export const liveActivity = (goals: number) => ({
  pushType: 'liveactivity' as const,
  alert: undefined,
  collapseId: 'match-12',
  onThrottle: 'latest' as const,
  liveActivity: { event: 'update' as const, contentState: { goals } },
});

export interface PushFields<P extends Platform = Platform> extends Partial<NotificationInput> {
  /** Default: `apns`; a device of its own is made. */
  readonly platform?: P;
  /** The push service of a subscription for web push: `https://127.0.0.1:41873`. */
  readonly server?: string;
  readonly silent?: boolean;
}

/** One alert for one device, as the pipeline hands it to a provider. */
export function makePush<P extends Platform = 'apns'>({
  platform,
  server,
  silent = false,
  ...fields
}: PushFields<P> = {}): Push & { readonly device: DeviceOn<P> } {
  const device = makeDevice<P>(platform, server);
  const notification = makeNotification({ devices: [device], ...fields });
  return {
    notification,
    device: (notification.devices[0] ?? device) as DeviceOn<P>,
    pushId: pushId(notification.id, 0),
    silent,
  };
}
