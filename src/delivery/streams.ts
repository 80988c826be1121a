import type { Context, ReadyDevice } from './context.ts';
import type { DeliverParts } from './parts.ts';
import { noteReply } from './replies.ts';

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
