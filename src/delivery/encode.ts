import { accountOf, namesOf, type Account } from '../domain/account.ts';
import type { FailedAttempt } from '../domain/outcome.ts';
import { pushId } from '../domain/push-id.ts';
import type { Context, ReadyDevice } from './context.ts';
import { openDevices } from './devices.ts';
import type { DeliverParts } from './parts.ts';
import { withAttempts, type DeviceState } from './progress.ts';
import { replyText, STATE_OF } from './replies.ts';

/**
 * Encodes the alert for each open device whose provider may be sent to: `context.ready`. It takes time, so it is done
 * before the ask for a slot. A device that cannot be sent to at all (no credentials, a payload over the limit) ends here.
 */
export function encode(context: Context, parts: DeliverParts): void {
  context.ready = encodeOpen(context, false, parts);
}

/** Encodes again what is ready, without a sound; the streams that were set aside are kept. */
export function encodeSilently(context: Context, parts: DeliverParts): void {
  const withSound = context.ready;
  context.ready = encodeOpen(context, true, parts).flatMap((silent) => {
    const same = withSound.find(({ label }) => label === silent.label);
    return same === undefined ? [] : [{ ...silent, ...(same.permit && { permit: same.permit }) }];
  });
}

function encodeOpen(context: Context, silent: boolean, parts: DeliverParts): ReadyDevice[] {
  const { notification, progress, breakerAnswers } = context;
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
    if (breakerAnswers?.get(account)?.kind === 'open') continue;
    const prepared = provider.prepare({ notification, device, pushId: pushId(notification.id, index), silent });
    if (prepared.kind === 'ready') ready.push({ label, device, account, provider, encoded: prepared.encoded });
    else fail(label, STATE_OF[prepared.reply.meaning] ?? 'rejected', replyText(prepared.reply));
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
