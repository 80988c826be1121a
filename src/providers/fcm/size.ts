import { isObject, type JsonObject, type JsonValue } from '../../domain/json.ts';

/**
 * The bytes that count for the payload limit. For Android: names and values of the data, the alert, and how to show it. For
 * an iPhone: its part of the message as JSON. FCM looks only at the part of the device that it is sent to, which is not known
 * here: the larger one counts.
 */
export function fcmPayloadBytes({ data, notification, android, apns }: JsonObject): number {
  const { data: androidData, notification: shown } = objectOr(android);
  const onAndroid = [data, notification, androidData, shown].reduce<number>((sum, map) => sum + textBytes(map), 0);
  return Math.max(onAndroid, jsonBytes(objectOr(apns)['payload']));
}

/** The bytes of names and texts, however deep. */
function textBytes(value: JsonValue | undefined): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, each) => sum + textBytes(each), 0);
  let bytes = 0;
  for (const name in value) bytes += Buffer.byteLength(name) + textBytes(value[name]);
  return bytes;
}

function jsonBytes(value: JsonValue | undefined): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}

function objectOr(value: JsonValue | undefined): JsonObject {
  return isObject(value) ? value : {};
}
