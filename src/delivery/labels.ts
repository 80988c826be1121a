import type { Device, Notification, Platform } from '../domain/notification.ts';
import type { Progress } from './progress.ts';

interface Labelled {
  /** `apns#0`: the first of `devices`, which is on APNs. Never the token. */
  readonly label: string;
  readonly device: Device;
  readonly index: number;
}

/** A device that is listed twice is one. */
export function labelledDevices({ devices }: Notification): Labelled[] {
  const labelled = devices.map((device, index) => ({ label: `${device.platform}#${index}`, device, index }));
  if (labelled.length === 1) return labelled; // most have one: nothing to compare
  const isSame = (a: Device, b: Device) => a.platform === b.platform && a.token === b.token;
  return labelled.filter(({ device, index }) => devices.findIndex((other) => isSame(other, device)) === index);
}

/** A notification and how far it has come. */
interface Standing {
  readonly notification: Notification;
  readonly progress: Pick<Progress, 'devices'>;
}

/** The labels of the devices that are neither delivered nor failed. */
export function openDevices(standing: Standing): string[] {
  return open(standing).map(({ label }) => label);
}

/** The platforms of those devices. */
export function openPlatforms(standing: Standing): Platform[] {
  return [...new Set(open(standing).map(({ device }) => device.platform))];
}

function open({ notification, progress }: Standing): Labelled[] {
  return labelledDevices(notification).filter(({ label }) => !(label in progress.devices));
}
