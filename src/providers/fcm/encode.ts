import { tokenOf } from '../../domain/device.ts';
import type { Prepared, Push } from '../provider.ts';
import { FCM_MAX_PAYLOAD_BYTES, fcmMessage, type FcmMessageOptions } from './message.ts';
import { fcmPayloadBytes } from './size.ts';

export interface FcmEncodeOptions extends Pick<FcmMessageOptions, 'silentChannelId' | 'nowMs'> {
  readonly projectId: string;
}

/** A push as a request to FCM. */
export function encodeFcm(push: Push, { projectId, silentChannelId, nowMs }: FcmEncodeOptions): Prepared {
  const { notification, device, pushId, silent } = push;
  const message = fcmMessage(notification, { token: tokenOf(device), pushId, silent, silentChannelId, nowMs });
  const body = JSON.stringify({ message });
  // The payload is a part of the body, so it is counted only if the whole body is larger than that.
  const bytes = Buffer.byteLength(body) > FCM_MAX_PAYLOAD_BYTES ? fcmPayloadBytes(message) : 0;
  if (bytes > FCM_MAX_PAYLOAD_BYTES) {
    const detail = `payload: expected at most ${FCM_MAX_PAYLOAD_BYTES} bytes, found ${bytes}`;
    return { kind: 'refused', reply: { meaning: 'rejected', alerted: 'no', code: 'payload-too-large', detail } };
  }
  return {
    kind: 'ready',
    encoded: {
      push,
      path: `/v1/projects/${projectId}/messages:send`,
      headers: { 'content-type': 'application/json' },
      body,
    },
  };
}
