import type { Device, Notification, Platform } from '../domain/notification.ts';
import type { FailedAttempt } from '../domain/outcome.ts';
import type { Provider, Push, Reply, SendOptions } from '../providers/provider.ts';
import { pushId } from '../providers/push-id.ts';
import type { Entries } from './entries.ts';
import type { DeviceState, Progress } from './progress.ts';

/** One device that can be tried now. */
export interface Ready {
  readonly label: string;
  readonly device: Device;
  readonly send: (options?: SendOptions) => Promise<Reply>;
}

/** What is to be done about each device that is still open. */
export interface Plan {
  readonly ready: readonly Ready[];
  /** Settled without a try: no credentials, a payload over the limit. */
  readonly settled: Readonly<Record<string, DeviceState>>;
  readonly failures: readonly FailedAttempt[];
}

export interface PlanParts {
  readonly providers: ReadonlyMap<Platform, Provider>;
  readonly now: () => number;
}

/** `apns#0`: the first of `devices`, which is on APNs. Never the token. A device that is listed twice is one. */
export function labelledDevices({ devices }: Notification): { label: string; device: Device; index: number }[] {
  const isSame = (a: Device, b: Device) => a.platform === b.platform && a.token === b.token;
  return devices
    .map((device, index) => ({ label: `${device.platform}#${index}`, device, index }))
    .filter(({ device, index }) => devices.findIndex((other) => isSame(other, device)) === index);
}

/** The platforms of the devices that are still open. */
export function openPlatforms(notification: Notification, progress: Progress): Platform[] {
  const open = labelledDevices(notification).filter(({ label }) => !(label in progress.devices));
  return [...new Set(open.map(({ device }) => device.platform))];
}

/** Encodes for every device that is still open and whose provider is, ahead of the ask for a slot. */
export function planDevices(
  notification: Notification,
  progress: Progress,
  entries: Pick<Entries, 'isPaused'>,
  silent: boolean,
  parts: PlanParts,
): Plan {
  const ready: Ready[] = [];
  const settled: Record<string, DeviceState> = {};
  const failures: FailedAttempt[] = [];

  for (const { label, device, index } of labelledDevices(notification)) {
    if (label in progress.devices) continue;
    const fail = (state: DeviceState, error: string) => {
      settled[label] = state;
      failures.push({ at: parts.now(), device: label, error });
    };

    const provider = parts.providers.get(device.platform);
    if (provider === undefined) {
      fail('provider-not-configured', `no credentials for ${device.platform}`);
      continue;
    }
    if (entries.isPaused(device.platform)) continue;
    const push: Push = { notification, device, pushId: pushId(notification.id, index), silent };
    const prepared = provider.prepare(push);
    if (prepared.kind === 'ready') ready.push({ label, device, send: prepared.send });
    else fail('rejected', replyText(prepared.reply));
  }
  return { ready, settled, failures };
}

/** A reply as an attempt of a dead letter tells it. */
export function replyText({ code, detail }: Reply): string {
  return detail === undefined || detail === code ? code : `${code}: ${detail}`;
}
