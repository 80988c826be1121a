import { accountOf, pushId, serviceOfDevice, type Account, type Service } from '../notification/device.ts';
import { formatFault, type Fault } from '../domain/faults.ts';
import { laterPayloadFault } from '../notification/rules.ts';
import { asDigest } from '../notification/schema.ts';
import type { Device, Platform } from '../notification/notification.ts';
import { hasOthers, type DeviceState, type FailedAttempt } from '../notification/outcome.ts';
import { openDevices, type Context, type ReadyDevice } from './context.ts';
import type { DeliverParts } from './parts.ts';
import { withAttempts } from './progress.ts';
import { noteReply, replyText, STATE_OF } from './replies.ts';

/**
 * Encodes the alert for each open device whose breaker lets it through. Answers the devices that can be sent to. Encoding takes
 * time, so it is done before the ask for a slot. A device whose payload is too large ends here, even if only the silent form or
 * the digest is too large: after the ask, the slot would be lost, and the recipient's next alert would wait. A device for which
 * this worker has no credentials goes to `context.lacking`.
 */
export function encode(context: Context, parts: DeliverParts): readonly ReadyDevice[] {
  const faults = new Map<Platform, Fault | undefined>(); // measured once for each platform
  return encodeOpen(context, false, parts, ({ platform }) => {
    if (!faults.has(platform)) faults.set(platform, laterPayloadFault(context.notification, platform));
    const fault = faults.get(platform);
    return fault && `payload-too-large: ${formatFault(fault)}`;
  });
}

/**
 * Encodes the alert of the ready devices again: without a sound, or as a digest. Keeps the streams that were set aside and
 * their providers, since new credentials may not be used on connections of the old ones.
 */
export function encodeAgain(
  context: Context,
  before: readonly ReadyDevice[],
  silent: boolean,
  parts: DeliverParts,
): readonly ReadyDevice[] {
  const ofAccount = new Map(before.map(({ account, provider }) => [account, provider]));
  const providers = { get: (account: Account) => ofAccount.get(account) ?? parts.providers.get(account) };
  return encodeOpen(context, silent, { ...parts, providers }).flatMap((again) => {
    const same = before.find(({ label }) => label === again.label);
    return same === undefined ? [] : [{ ...again, ...(same.permit && { permit: same.permit }) }];
  });
}

/** @param refusal why a device is not sent to, although this form of the alert would fit */
function encodeOpen(
  context: Context,
  silent: boolean,
  parts: DeliverParts,
  refusal: (device: Device) => string | undefined = () => undefined,
): ReadyDevice[] {
  const { progress, breakerAnswers } = context;
  const { digest } = progress;
  const notification = hasOthers(digest) ? asDigest(context.notification, digest.count) : context.notification;
  const ready: ReadyDevice[] = [];
  const lacking: Context['lacking'][number][] = [];
  const ended: Record<string, DeviceState> = {};
  const failures: FailedAttempt[] = [];
  const fail = (label: string, state: DeviceState, error: string): void => {
    ended[label] = state;
    failures.push({ at: parts.now(), device: label, error });
  };
  for (const { label, device, index } of openDevices(context)) {
    const account = accountOf(device);
    const provider = parts.providers.get(account);
    if (provider === undefined) {
      lacking.push({ label, account });
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
  context.lacking = lacking;
  if (failures.length > 0) {
    context.progress = withAttempts({ ...progress, devices: { ...progress.devices, ...ended } }, failures);
  }
  return ready;
}

/**
 * True if this worker lacks credentials for some open devices, and another living worker has them for all: the job is for that
 * worker, and nothing is sent here. Else this worker sends to the devices that it can, and the others are deferred.
 */
export async function isForAnother(context: Context, { others }: DeliverParts): Promise<boolean> {
  const { lacking } = context;
  if (lacking.length === 0) return false;
  const open = openDevices(context).map(({ device }) => accountOf(device));
  const isForOne = await others.have(open);
  const found = await Promise.all(lacking.map(({ account }) => others.have([account])));
  context.isElsewhere = isForOne || found.includes(true);
  return isForOne;
}

/**
 * Sets a stream aside at each server, before the ask for a slot: a notification that waits for a connection then misses no
 * slot. If a server cannot be reached, its devices count as tried and unsent. Answers the other devices, without those of a server
 * whose breaker opened while this pass waited.
 *
 * Every notification asks the servers in the same order, so that no two notifications wait for each other's streams.
 */
export async function reserveStreams(
  context: Context,
  ready: readonly ReadyDevice[],
  parts: DeliverParts,
): Promise<readonly ReadyDevice[]> {
  const leftOut = new Set<string>();
  const firsts = firstOfEachServer(ready);
  let hasWaited = false;
  for (const first of firsts) {
    const { service } = first;
    const found = first.provider.reserve(first.encoded);
    hasWaited ||= found instanceof Promise;
    const reserved = found instanceof Promise ? await withoutPlace(found, context) : found;
    if (reserved.kind === 'permit') {
      first.permit = reserved.permit;
      context.permits.push(reserved.permit);
      continue;
    }
    leftOut.add(service);
    for (const device of ready) {
      if (device.service === service) await noteReply(context, device, reserved.reply, performance.now(), parts);
    }
  }
  for (const { service, permit } of hasWaited ? firsts : []) {
    if (permit === undefined || !isStopped(context, service, parts)) continue;
    permit.release();
    leftOut.add(service);
  }
  return leftOut.size > 0 ? ready.filter(({ service }) => !leftOut.has(service)) : ready;
}

/** After so long, a pass that waits for a stream leaves its place to another job. */
const LONG_WAIT_MS = 1_000;

async function withoutPlace<T>(waiting: Promise<T>, { place }: Context): Promise<T> {
  let comeBack: (() => void) | undefined;
  const timer = setTimeout(() => (comeBack = place.leave()), LONG_WAIT_MS);
  try {
    return await waiting;
  } finally {
    clearTimeout(timer);
    comeBack?.();
  }
}

/** Whether the breaker of the service is not closed any more, and this pass is not its trial. */
function isStopped({ breakerAnswers }: Context, service: Service, { breakers }: DeliverParts): boolean {
  return breakers.current(service) !== undefined && breakerAnswers?.get(service)?.kind !== 'trial';
}

/** One device of each server, in the order of the servers' names. */
function firstOfEachServer(ready: readonly ReadyDevice[]): readonly ReadyDevice[] {
  if (ready.length === 1) return ready;
  const first = new Map(ready.toReversed().map((device) => [device.service, device]));
  return [...first].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, device]) => device);
}
