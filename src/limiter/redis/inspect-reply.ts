import type { Policy } from '../../domain/limits.ts';
import { idOf } from './keys.ts';
import type { Admission, Inspection, SlotView } from '../limiter.ts';
import type { InspectReply } from './scripts.ts';
import { toPolicy, type PolicyNumbers } from './wire.ts';

/** What inspect.lua answers, and a newcomer would be told, as an Inspection. */
export function toInspection(
  reply: InspectReply,
  next: Admission,
  own: { readonly policy: Policy; readonly keepIds: boolean },
): Inspection {
  const [heard, stored, policyEnd, blockEnd, reason, sent, reserved] = reply;
  const [now, policyUntil, blockedUntil] = [Number(heard), toInstant(policyEnd), toInstant(blockEnd)];
  return {
    now,
    policy: stored === null ? own.policy : toPolicy(JSON.parse(stored) as PolicyNumbers),
    source: stored === null ? 'limiter' : 'stored',
    ...(policyUntil !== undefined && { policyUntil }),
    ...(blockedUntil !== undefined && { block: { until: blockedUntil, reason: reason ?? '' } }),
    sent: slots(sent, own.keepIds),
    reserved: slots(reserved, true),
    nextAt: 'at' in next ? next.at : now + next.waitMs,
    rule: next.rule,
  };
}

function toInstant(instant: number | string | null): number | undefined {
  return instant === null ? undefined : Number(instant);
}

/** By slot, each entry once: one that is reserved overall and in its category is told twice. */
function slots(entriesAndScores: readonly string[], areIds: boolean): SlotView[] {
  const slotOf = new Map<string, number>();
  for (let index = 0; index < entriesAndScores.length; index += 2) {
    slotOf.set(String(entriesAndScores[index]), Number(entriesAndScores[index + 1]));
  }
  const views = [...slotOf].map(([entry, at]) => {
    const id = areIds ? idOf(entry) : undefined;
    return id === undefined ? { at } : { at, id };
  });
  return views.toSorted((a, b) => a.at - b.at);
}
