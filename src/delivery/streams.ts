import type { Account } from '../domain/account.ts';
import type { Context, ReadyDevice } from './context.ts';
import type { DeliverParts } from './parts.ts';
import { noteReply } from './replies.ts';

/**
 * Sets a stream aside at each account, before the ask for a slot: a notification that waits for a connection then waits
 * without a slot, and is not late for it. The devices of an account without a connection are tried and unsent.
 *
 * Every notification asks the accounts in the same order, so that no two wait for a stream that the other one has.
 */
export async function reserveStreams(context: Context, parts: DeliverParts): Promise<void> {
  let unreachable: Set<Account> | undefined;
  for (const first of firstOfEachAccount(context.ready)) {
    const { account } = first;
    const asking = first.provider.reserve();
    const reserved = asking instanceof Promise ? await asking : asking;
    if (reserved.kind === 'permit') {
      first.permit = reserved.permit;
      context.permits.push(reserved.permit);
      continue;
    }
    (unreachable ??= new Set()).add(account);
    for (const device of context.ready) {
      if (device.account === account) await noteReply(context, device, reserved.reply, 0, parts);
    }
  }
  if (unreachable !== undefined) context.ready = context.ready.filter(({ account }) => !unreachable.has(account));
}

/** One device of each account, in the order of the accounts' names. */
function firstOfEachAccount(ready: readonly ReadyDevice[]): readonly ReadyDevice[] {
  if (ready.length === 1) return ready;
  const first = new Map(ready.toReversed().map((device) => [device.account, device]));
  return [...first.values()].toSorted((a, b) => (a.account < b.account ? -1 : 1));
}
