import { createHash } from 'node:crypto';

/** The namespace of push ids: any UUID will do, as long as it never changes. */
const NAMESPACE = Buffer.from('5f1c7a0e9b5d4e0c8d3a6c2f7be41d90', 'hex');

/**
 * The same UUID for every try at one device of a notification, also after a crash: `pushId('msg-8841', 0)`.
 * Version 5 of RFC 9562, section 5.5. A notification's id holds no `#`, so two pairs never share a name.
 *
 * @param deviceIndex the device's place in the notification's `devices`, from 0
 */
export function pushId(notificationId: string, deviceIndex: number): string {
  const hash = createHash('sha1').update(NAMESPACE).update(`${notificationId}#${deviceIndex}`).digest();
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x50, 6);
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8);
  return hash.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
