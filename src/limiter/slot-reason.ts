import type { Block, Cause, OrderView } from './limiter.ts';
import { awake, QUIET_EDGE_MS, type Limit } from './pace.ts';
import {
  orderOf,
  quietFor,
  scopeFor,
  waitingIn,
  withCauses,
  type RecipientState,
  type Scope,
  type Slot,
} from './recipient-state.ts';

/** Why one reservation has its slot, for `pushpacer why`. Instants are epoch milliseconds on the limiter's clock. */
export interface SlotReason extends Cause, OrderView {
  readonly now: number;
  readonly at: number;
  /** Why the slot cannot be earlier. Absent if by now the limits would allow an earlier slot. */
  readonly fixed?: LimitReason | EndReason;
  /** The limit that `rule` names, if `fixed` is another reason. */
  readonly longest?: LimitReason;
  readonly block?: Block;
}

/** A limit: its window has no room until the slot `after` has left it. */
export interface LimitReason {
  readonly rule: string;
  readonly max: number;
  readonly perMs: number;
  readonly after: SlotBefore;
}

/** The end of a block, of a quiet time, or of the limits that are stored for the recipient. */
export interface EndReason {
  readonly rule: 'block' | 'quiet' | 'limits';
  readonly until: number;
}

/** The slot of another notification. */
export interface SlotBefore {
  readonly at: number;
  /** True for a sent slot, false for a reservation. */
  readonly isSent: boolean;
  /** As the limiter stores it: the id of an ask, or for most sent slots only a hash of that id. */
  readonly entry?: string;
}

/**
 * A window, block, quiet time or stored policy that ends this close to a slot counts as the reason of the slot. The instants
 * may differ, since a send may be late by some milliseconds while the reservations behind it keep their slots.
 */
const NEAR_MS = 1_000;

/** The reservation that is stored as `entry`; undefined if there is none. */
export function slotReasonOf(state: RecipientState, entry: string): SlotReason | undefined {
  const { now, scopes, block, blockedUntil, quiet } = state;
  const [overall] = scopes;
  const waiting = withCauses(waitingIn(scopes), state).toSorted((a, b) => a.at - b.at);
  const place = waiting.findIndex(({ id }) => id === entry);
  const own = waiting[place];
  if (own === undefined) return undefined;
  const ahead = waiting.slice(0, place);
  const { at, isHeldBack, cause } = own;

  const inLine = ahead.filter((each) => !each.isHeldBack);
  const ofCategory = ahead.filter((each) => each.own === own.own);
  const { limits, later } = scopeFor(own.own, overall);
  const isLater = later !== undefined && at >= later.from; // then the stored limits have ended
  // If its category holds the id back, it is not in the overall line yet: there only sent slots count for it.
  const ofAll = limitReasons(isLater ? later.limits : limits, overall, isHeldBack ? [] : inLine);
  const ofOwn = own.own === undefined ? [] : limitReasons(own.own.limits, own.own, ofCategory);
  const reasons = [...ofAll, ...ofOwn];
  const ends: EndReason[] = blockedUntil === undefined ? [] : [{ rule: 'block', until: blockedUntil }];
  if (isLater && limits.length > 0) ends.push({ rule: 'limits', until: later.from });
  const windows = quietFor(own.own, quiet).filter(({ from }) => from - QUIET_EDGE_MS < at);
  const quietUntil = windows.at(-1)?.until;
  if (quietUntil !== undefined && quietUntil > now)
    ends.push({ rule: 'quiet', until: awake(windows, quietUntil, QUIET_EDGE_MS) });

  const near = [...reasons, ...ends]
    .map((reason) => ({ reason, until: 'until' in reason ? reason.until : reason.after.at + reason.perMs }))
    .filter(({ until }) => until <= at + NEAR_MS && until > at - NEAR_MS && until > now)
    .toSorted(
      (a, b) => b.until - a.until || Number(b.reason.rule === cause.rule) - Number(a.reason.rule === cause.rule),
    );
  const fixed = near[0]?.reason;
  // The cause is one of the stored limits while they are in force: a later limit of the same name is another one.
  const longest = (isLater ? ofOwn : reasons).find(({ rule }) => rule === cause.rule);
  return {
    ...{ now, at, ...cause, ...orderOf(place, waiting, state.notes) },
    ...(fixed && { fixed }),
    ...(longest && longest !== fixed && { longest }),
    ...(block && blockedUntil !== undefined && { block }),
  };
}

/**
 * The sent slot because of which this rule allowed no slot before `at`: for 10 in a minute, the tenth sent slot before `at`.
 * Undefined if that slot is not stored or is too old, or if no limit has this name.
 */
export function sentBefore({ scopes }: RecipientState, rule: string, at: number): SlotBefore | undefined {
  for (const { limits, slots } of scopes) {
    const limit = limits.find(({ name }) => name === rule);
    if (limit === undefined) continue;
    const slot = slots.sent.filter((sent) => sent.at < at - 1).at(-limit.max);
    if (slot === undefined || at - slot.at > limit.perMs + NEAR_MS) return undefined;
    return { at: slot.at, isSent: true, ...(slot.id !== undefined && { entry: slot.id }) };
  }
  return undefined;
}

/** For each limit, the slot that must leave the limit's window first: for 10 in a minute, the tenth newest slot. */
function limitReasons(limits: readonly Limit[], { slots }: Scope, ahead: readonly Slot[]): LimitReason[] {
  const before: SlotBefore[] = [
    ...slots.sent.map((slot) => ({ at: slot.at, isSent: true, ...(slot.id !== undefined && { entry: slot.id }) })),
    ...ahead.map((slot) => ({ at: slot.at, isSent: false, ...(slot.id !== undefined && { entry: slot.id }) })),
  ].toSorted((a, b) => a.at - b.at);
  return limits.flatMap(({ name, max, perMs }) => {
    const after = before.at(-max);
    return after === undefined ? [] : [{ rule: name, max, perMs, after }];
  });
}
