import type { Device } from '../domain/notification.ts';
import type { FailedAttempt } from '../domain/outcome.ts';
import { pushId, type Encoded, type Permit, type Provider, type Reply } from '../providers/provider.ts';
import type { Context, DeliverParts } from './context.ts';
import { labelledDevices } from './labels.ts';
import { withAttempts, type DeviceState } from './progress.ts';

/** One device that can be tried now: its alert is encoded, and its provider may be sent to. */
export interface Ready {
  readonly label: string;
  readonly device: Device;
  readonly provider: Provider;
  readonly encoded: Encoded;
  /** A stream that is set aside for it; the first send to a platform has one. */
  permit?: Permit;
}

/**
 * Encodes for every device that is still open and whose provider may be sent to, ahead of the ask for a slot. Settles
 * those that cannot be sent to at all: no credentials, a payload over the limit.
 */
export function prepareDevices(context: Context, silent: boolean, parts: DeliverParts): Ready[] {
  const { notification, progress } = context;
  const ready: Ready[] = [];
  let settled: Record<string, DeviceState> | undefined;
  const failures: FailedAttempt[] = [];
  const fail = (label: string, state: DeviceState, error: string): void => {
    settled = { ...settled, [label]: state };
    failures.push({ at: parts.now(), device: label, error });
  };
  for (const { label, device, index } of labelledDevices(notification)) {
    if (label in progress.devices) continue;
    const provider = parts.providers.get(device.platform);
    if (provider === undefined) {
      fail(label, 'provider-not-configured', `no credentials for ${device.platform}`);
      continue;
    }
    if (context.entries?.get(device.platform)?.kind === 'open') continue;
    const prepared = provider.prepare({ notification, device, pushId: pushId(notification.id, index), silent });
    if (prepared.kind === 'ready') ready.push({ label, device, provider, encoded: prepared.encoded });
    else fail(label, 'rejected', replyText(prepared.reply));
  }
  if (failures.length > 0) {
    context.progress = withAttempts({ ...progress, devices: { ...progress.devices, ...settled } }, failures);
  }
  return ready;
}

/** A reply as an attempt of a dead letter tells it. */
export function replyText({ code, detail }: Reply): string {
  return detail === undefined || detail === code ? code : `${code}: ${detail}`;
}
