import type { ApnsReason } from './reasons.ts';
import { ignoredByDevice, ignoredByLiveActivity } from '../aps.ts';
import { isRecord } from '../loopback/exchange.ts';
import type { JournalEntry } from '../journal.ts';

/** The largest payload, in bytes. */
const MAX_BYTES = 4_096;
const MAX_VOIP_BYTES = 5_120;
/** It is enough to read this much of a body, and one byte more, to check its size. */
export const MAX_READ_BYTES = MAX_VOIP_BYTES;

/** What is wrong with a payload. APNs has no reason for invalid JSON, so that counts as empty. */
export function payloadFault(
  body: Buffer,
  payload: Readonly<Record<string, unknown>> | undefined,
  pushType: string | undefined,
): ApnsReason | undefined {
  if (body.length > (pushType === 'voip' ? MAX_VOIP_BYTES : MAX_BYTES)) return 'PayloadTooLarge';
  return payload === undefined || Object.keys(payload).length === 0 ? 'PayloadEmpty' : undefined;
}

/** The alert and the app's own data in a payload. */
export function readAlert(
  payload: Readonly<Record<string, unknown>> | undefined,
  pushType?: string,
): Pick<JournalEntry, 'title' | 'body' | 'data' | 'payload' | 'ignored'> {
  const { aps, ...rest } = payload ?? {};
  const alert = isRecord(aps) ? aps['alert'] : undefined;
  const { title, body } = isRecord(alert) ? alert : { title: undefined, body: alert };
  const data = Object.entries(rest).map(([key, value]) => [key, textOf(value)]);
  const ignored = pushType === 'liveactivity' ? ignoredByLiveActivity(payload) : ignoredByDevice(payload);
  return {
    title: typeof title === 'string' ? title : undefined,
    body: typeof body === 'string' ? body : undefined,
    data: Object.fromEntries(data) as Record<string, string>,
    payload,
    ...(ignored.length > 0 && { ignored }),
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
