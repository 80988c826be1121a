import { accountOf, namesOf, type Account, serviceOfDevice, pushId } from '../domain/device.ts';
import { formatFault, type Fault } from '../domain/faults.ts';
import { laterPayloadFault } from '../domain/notification-rules.ts';
import { asDigest } from '../domain/notification-schema.ts';
import type { Device, Platform } from '../domain/notification.ts';
import type { FailedAttempt } from '../domain/outcome.ts';
import {
  type Context,
  type ReadyDevice,
  openDevices,
  type DeliverParts,
  withAttempts,
  type DeviceState,
} from './context.ts';
import { replyText, STATE_OF, noteReply } from './replies.ts';

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
function isDigest({ progress: { digest } }: Pick<Context, 'progress'>): boolean {
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

/**
 * Sets a stream aside at each server, before the ask for a slot: a notification that waits for a connection then waits
 * without a slot, and is not late for it. The devices of a server without a connection are tried and unsent.
 *
 * Every notification asks the servers in the same order, so that no two wait for a stream that the other one has.
 */
export async function reserveStreams(context: Context, parts: DeliverParts): Promise<void> {
  let unreachable: Set<string> | undefined;
  for (const first of firstOfEachServer(context.ready)) {
    const { service } = first;
    const asking = first.provider.reserve(first.encoded);
    const reserved = asking instanceof Promise ? await asking : asking;
    if (reserved.kind === 'permit') {
      first.permit = reserved.permit;
      context.permits.push(reserved.permit);
      continue;
    }
    (unreachable ??= new Set()).add(service);
    for (const device of context.ready) {
      if (device.service === service) await noteReply(context, device, reserved.reply, 0, parts);
    }
  }
  if (unreachable !== undefined) context.ready = context.ready.filter((device) => !unreachable.has(device.service));
}

/** One device of each server, in the order of the servers' names. */
function firstOfEachServer(ready: readonly ReadyDevice[]): readonly ReadyDevice[] {
  if (ready.length === 1) return ready;
  const first = new Map(ready.toReversed().map((device) => [device.service, device]));
  return [...first].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, device]) => device);
}
