import type { Platform } from '../domain/notification.ts';
import type { Context, ReadyDevice } from './context.ts';
import type { DeliverParts } from './parts.ts';
import { noteReply } from './replies.ts';

/**
 * Sets a stream aside at each platform, before the ask for a slot: a notification that waits for a connection then waits
 * without a slot, and is not late for it. The devices of a platform without a connection are tried and unsent.
 *
 * Every notification asks the platforms in the same order, so that no two wait for a stream that the other one has.
 */
export async function reserveStreams(context: Context, parts: DeliverParts): Promise<void> {
  let unreachable: Set<Platform> | undefined;
  for (const first of firstOfEachPlatform(context.ready)) {
    const { platform } = first.device;
    const asking = first.provider.reserve();
    const reserved = asking instanceof Promise ? await asking : asking;
    if (reserved.kind === 'permit') {
      first.permit = reserved.permit;
      context.permits.push(reserved.permit);
      continue;
    }
    (unreachable ??= new Set()).add(platform);
    for (const device of context.ready) {
      if (device.device.platform === platform) await noteReply(context, device, reserved.reply, 0, parts);
    }
  }
  if (unreachable !== undefined)
    context.ready = context.ready.filter(({ device }) => !unreachable.has(device.platform));
}

/** One device of each platform, in the order of the platforms' names. */
function firstOfEachPlatform(ready: readonly ReadyDevice[]): readonly ReadyDevice[] {
  if (ready.length === 1) return ready;
  const first = new Map(ready.toReversed().map((device) => [device.device.platform, device]));
  return [...first.values()].toSorted((a, b) => (a.device.platform < b.device.platform ? -1 : 1));
}
