import { accountOf, namesOf, type Account } from '../domain/account.ts';
import { serviceOfDevice } from '../domain/device.ts';
import { asDigest } from '../domain/digest.ts';
import { formatFault, type Fault } from '../domain/faults.ts';
import { laterPayloadFault } from '../domain/notification-rules.ts';
import type { Device, Platform } from '../domain/notification.ts';
import type { FailedAttempt } from '../domain/outcome.ts';
import { pushId } from '../domain/push-id.ts';
import type { Context, ReadyDevice } from './context.ts';
import { openDevices } from './devices.ts';
import type { DeliverParts } from './parts.ts';
import { withAttempts, type DeviceState } from './progress.ts';
import { replyText, STATE_OF } from './replies.ts';

/**
 * Encodes the alert for each open device whose provider may be sent to: `context.ready`. It takes time, so it is done
 * before the ask for a slot. A device that cannot be sent to at all (no credentials, a payload over the limit) ends here, also
 * where only the silent form or the digest would be over the limit: what is found after the ask would have cost the wait.
 */
export function encode(context: Context, parts: DeliverParts): void {
  const faults = new Map<Platform, Fault | undefined>(); // each form is measured once, however many devices there are
  context.ready = encodeOpen(context, false, parts, ({ platform }) => {
    if (!faults.has(platform)) faults.set(platform, laterPayloadFault(context.notification, platform));
    const fault = faults.get(platform);
    return fault && `payload-too-large: ${formatFault(fault)}`;
  });
}

/** Encodes again what is ready: without a sound, or as a digest. The streams that were set aside are kept. */
export function encodeAgain(context: Context, silent: boolean, parts: DeliverParts): void {
  const before = context.ready;
  context.ready = encodeOpen(context, silent, parts).flatMap((again) => {
    const same = before.find(({ label }) => label === again.label);
    return same === undefined ? [] : [{ ...again, ...(same.permit && { permit: same.permit }) }];
  });
}

/** Whether it goes as a digest: for others, not for itself alone. */
export function isDigest({ progress: { digest } }: Pick<Context, 'progress'>): boolean {
  return digest !== undefined && !(digest.own && digest.count === 1);
}

/** @param refusal why the device is not sent to although it could be now */
function encodeOpen(
  context: Context,
  silent: boolean,
  parts: DeliverParts,
  refusal: (device: Device) => string | undefined = () => undefined,
): ReadyDevice[] {
  const { progress, breakerAnswers } = context;
  const notification = isDigest(context)
    ? asDigest(context.notification, progress.digest?.count ?? 1)
    : context.notification;
  const ready: ReadyDevice[] = [];
  let ended: Record<string, DeviceState> | undefined;
  const failures: FailedAttempt[] = [];
  const fail = (label: string, state: DeviceState, error: string): void => {
    ended = { ...ended, [label]: state };
    failures.push({ at: parts.now(), device: label, error });
  };
  for (const { label, device, index } of openDevices(context)) {
    const account = accountOf(device);
    const provider = parts.providers.get(account);
    if (provider === undefined) {
      fail(label, 'provider-not-configured', noCredentials(account));
      continue;
    }
    const service = serviceOfDevice(device);
    if (breakerAnswers?.get(service)?.kind === 'open') continue;
    const prepared = provider.prepare({ notification, device, pushId: pushId(notification.id, index), silent });
    if (prepared.kind === 'refused') {
      fail(label, STATE_OF[prepared.reply.meaning] ?? 'rejected', replyText(prepared.reply));
      continue;
    }
    const refused = refusal(device);
    if (refused === undefined) ready.push({ label, device, account, service, provider, encoded: prepared.encoded });
    else fail(label, 'rejected', refused);
  }
  if (failures.length > 0) {
    context.progress = withAttempts({ ...progress, devices: { ...progress.devices, ...ended } }, failures);
  }
  return ready;
}

function noCredentials(account: Account): string {
  const { platform, app } = namesOf(account);
  return app === undefined ? `no credentials for ${platform}` : `no credentials for ${platform} of the app "${app}"`;
}
