import { accountOf, type Service } from '../domain/account.ts';
import { serviceOfDevice, tokenOf } from '../domain/device.ts';
import type { Device, Notification } from '../domain/notification.ts';
import type { Progress } from './progress.ts';

interface LabelledDevice {
  /** `apns#0`: the first of `devices`, which is on APNs. Never the token. */
  readonly label: string;
  readonly device: Device;
  readonly index: number;
}

/** A notification, and how far it has come. */
interface Standing {
  readonly notification: Notification;
  readonly progress: Pick<Progress, 'devices'>;
}

/** The devices that have not ended: neither delivered nor failed. */
export function openDevices({ notification, progress }: Standing): LabelledDevice[] {
  return labelledDevices(notification).filter(({ label }) => !(label in progress.devices));
}

/** The labels of those devices. */
export function openLabels(standing: Standing): string[] {
  return openDevices(standing).map(({ label }) => label);
}

/** What has the circuit breakers of those devices. */
export function openServices(standing: Standing): Service[] {
  return [...new Set(openDevices(standing).map(({ device }) => serviceOfDevice(device)))];
}

/** A device that is listed twice counts once. */
function labelledDevices({ devices }: Notification): LabelledDevice[] {
  const labelled = devices.map((device, index) => ({ label: `${device.platform}#${index}`, device, index }));
  if (labelled.length === 1) return labelled; // most notifications have one device
  const isSame = (a: Device, b: Device) => accountOf(a) === accountOf(b) && tokenOf(a) === tokenOf(b);
  return labelled.filter(({ device, index }) => devices.findIndex((other) => isSame(other, device)) === index);
}
