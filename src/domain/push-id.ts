import { hash } from 'node:crypto';

/** The namespace of push ids: an arbitrary UUID that must never change. */
const NAMESPACE = Buffer.from('5f1c7a0e9b5d4e0c8d3a6c2f7be41d90', 'hex');

/**
 * The same UUID for every attempt at one device of a notification, even after a crash: `pushId('msg-8841', 0)`.
 * A UUID of version 5 (RFC 9562, section 5.5). A notification's id contains no `#`, so two pairs never hash the same name.
 *
 * @param deviceIndex the device's place in the notification's `devices`, from 0
 */
export function pushId(notificationId: string, deviceIndex: number): string {
  const sha1 = hash('sha1', Buffer.concat([NAMESPACE, Buffer.from(`${notificationId}#${deviceIndex}`)]), 'hex');
  const variant = ((Number.parseInt(sha1.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return `${sha1.slice(0, 8)}-${sha1.slice(8, 12)}-5${sha1.slice(13, 16)}-${variant}${sha1.slice(17, 20)}-${sha1.slice(20, 32)}`;
}
