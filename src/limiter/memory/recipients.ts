import { isUrgent, withoutExempt, type CategoryPolicy, type Policy, type Overtaking } from '../../domain/limits.ts';
import type { QuietHours } from '../../domain/quiet-hours.ts';
import { checkCategories, checkQuietHours } from '../checks.ts';
import type { Block } from '../limiter.ts';
import { CLOCK_STEP_MS, createQuietClock, limitsOf, NO_SHOW_MS, paceOf, QUIET_EDGE_MS, type Limit } from '../pace.ts';
import type { OrderNote, OrderNotes } from '../overtaking.ts';
import { laterOf, scopeFor } from '../recipient-state.ts';
import type { RecipientState, Scope as StoredScope, Slot, Slots, StoredPolicy } from '../recipient-state.ts';

/** Everything that is stored about one recipient. */
export interface Recipient {
  /** The slots by category; those of the overall scope under `undefined`. No entry is empty. */
  readonly slots: ReadonlyMap<string | undefined, KeptSlots>;
  readonly stored?: StoredPolicy | undefined;
  readonly block?: Block | undefined;
  /** The quiet hours that are stored for the recipient. */
  readonly quiet?: QuietHours | undefined;
  /** Which reservations go first, and which were overtaken. */
  readonly notes?: OrderNotes;
}

const NOTHING_STORED: Recipient = { slots: new Map() };
const NO_NOTES: OrderNotes = new Map();

/** The policy or the block, if it is in force. */
export function inForce<T extends { readonly until: number }>(setting: T | undefined, now: number): T | undefined {
  return setting !== undefined && now < setting.until ? setting : undefined;
}

export function withScopes(recipient: Recipient, scopes: readonly Scope[]): Recipient {
  return scopes.reduce(
    (rest, { category, keptMs, slots }) => withSlots(rest, category, { ...slots, keptMs }),
    recipient,
  );
}

function withSlots(recipient: Recipient, category: string | undefined, kept: KeptSlots): Recipient {
  const slots = new Map(recipient.slots);
  if (kept.sent.length + kept.reserved.length + kept.heldBack.length > 0) slots.set(category, kept);
  else slots.delete(category);
  return { ...recipient, slots };
}

/** Adds these notes, which replace earlier ones, and drops the notes of ids that no longer wait. */
export function withNotes(recipient: Recipient, notes: Iterable<readonly [id: string, note: OrderNote]>): Recipient {
  const all = new Map([...(recipient.notes ?? NO_NOTES), ...notes]);
  if (all.size === 0) return recipient;
  const lists = [...recipient.slots.values()].flatMap(({ reserved, heldBack }) => [reserved, heldBack]);
  const waiting = new Set(lists.flatMap((list) => list.map(({ id }) => id)));
  return { ...recipient, notes: new Map([...all].filter(([id]) => waiting.has(id))) };
}

/** The recipient with edited slots in the overall scope and in these categories; the same object if nothing changed. */
export function edited(recipient: Recipient, categories: readonly string[], edit: (slots: Slots) => Slots): Recipient {
  let result = recipient;
  for (const category of [undefined, ...categories]) {
    const kept = recipient.slots.get(category);
    if (kept === undefined) continue;
    const slots = edit(kept);
    if (slots !== kept) result = withSlots(result, category, { ...slots, keptMs: kept.keptMs });
  }
  return result;
}

/** When the recipient may be forgotten, in epoch milliseconds; -Infinity if nothing is stored. */
function expiryOf({ slots, stored, block, quiet }: Recipient): number {
  if (quiet !== undefined) return Infinity;
  const ends = [...slots.values()].flatMap(({ sent, reserved, heldBack, keptMs }) => [
    (newest(sent) ?? -Infinity) + keptMs,
    (newest(reserved) ?? -Infinity) + NO_SHOW_MS,
    (newest(heldBack) ?? -Infinity) + NO_SHOW_MS,
  ]);
  return Math.max(stored?.until ?? -Infinity, block?.until ?? -Infinity, ...ends);
}

/** How many recipients each write checks for expiry. A write may add one recipient and checks more, so the check keeps up. */
const SWEPT_PER_WRITE = 2;

/** All recipients. Writes for other recipients remove the expired ones, so no timer is needed. */
export class Recipients {
  readonly #recipients = new Map<string, Recipient & { readonly expiry: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  get size(): number {
    return this.#recipients.size;
  }

  get(recipientId: string): Recipient {
    return this.#recipients.get(recipientId) ?? NOTHING_STORED;
  }

  set(recipientId: string, recipient: Recipient): void {
    this.#recipients.delete(recipientId);
    const expiry = expiryOf(recipient);
    if (expiry !== -Infinity) this.#recipients.set(recipientId, { ...recipient, expiry });
    this.#sweep();
  }

  /** Checks the recipients that were checked longest ago: removes the expired ones and moves the others to the end. */
  #sweep(): void {
    for (let swept = 0; swept < SWEPT_PER_WRITE; swept += 1) {
      const [oldest] = this.#recipients;
      if (oldest === undefined) return;
      const [recipientId, recipient] = oldest;
      this.#recipients.delete(recipientId);
      if (recipient.expiry >= this.#now()) this.#recipients.set(recipientId, recipient);
    }
  }
}

/** What is stored about a recipient, as one call sees it. */
export interface Opened extends RecipientState, AskMoment {
  readonly scopes: Scopes;
}

/** What an ask depends on besides the slots. */
export type AskMoment = Pick<RecipientState, 'now' | 'blockedUntil' | 'quiet'> & {
  /** No slot is reserved this close before a quiet time, in milliseconds. */
  readonly edgeMs: number;
};

/** The options of a limiter that decide what is in force for a recipient. */
export interface OpenerOptions {
  readonly policy: Policy;
  readonly categories: Readonly<Record<string, CategoryPolicy>>;
  readonly quietHours: QuietHours | undefined;
  readonly keepMs: number;
  readonly overtaking: Overtaking;
  readonly now: () => number;
}

export interface Opener {
  /** The categories that have a policy. */
  readonly categories: readonly string[];
  /** Opens the overall scope, and the scope of each category in `asked` that has a policy. `policy`: the ask's own. */
  open(recipient: Recipient, asked: readonly string[], policy?: Policy): Opened;
}

/** Throws InputError with every fault of the policies and quiet hours. */
export function createOpener(options: OpenerOptions): Opener {
  const { policy: ownPolicy, categories, quietHours, keepMs, overtaking, now } = options;
  checkCategories(categories);
  checkQuietHours(quietHours);
  const clock = createQuietClock();
  // A Map, because a category may be called `constructor`.
  const policies = new Map(Object.entries(categories));
  // The overall scope decides whether an id was admitted before, so it must keep ids as long as any category counts them.
  const windowsMs = [ownPolicy, ...policies.values()].map((policy) => paceOf(policy).longestMs);
  const leastKeptMs = Math.max(keepMs, ...windowsMs);

  return {
    categories: [...policies.keys()],
    open(recipient, asked, asksOwn = ownPolicy) {
      const at = now();
      const stored = inForce(recipient.stored, at);
      const block = inForce(recipient.block, at);
      const policy = stored?.policy ?? asksOwn;
      const own = openScope(undefined, policy, leastKeptMs, recipient.slots.get(undefined), at);
      const overall = { ...own, later: laterOf(stored, asksOwn) };
      const others = asked.flatMap((category) => {
        const own = policies.get(category);
        return own === undefined ? [] : [openScope(category, own, keepMs, recipient.slots.get(category), at)];
      });
      const hours = recipient.quiet ?? quietHours;
      return {
        ...{ now: at, policy, stored, block, blockedUntil: block?.until, scopes: [overall, ...others] },
        ...{ hours, areHoursStored: recipient.quiet !== undefined, edgeMs: QUIET_EDGE_MS },
        ...{ notes: recipient.notes ?? NO_NOTES, overtaking },
        quiet: hours === undefined ? [] : clock.of(hours, at).windows,
      };
    },
  };
}

/** Leaves out the limits from which the ask's category is exempt. */
export function exempted(opened: Opened): Opened {
  const { quiet, policy, scopes } = opened;
  const [overall, ...others] = scopes;
  const exempt = others[0]?.exempt ?? [];
  const left = { ...opened, quiet: exempt.includes('quietHours') ? [] : quiet };
  if (!isUrgent({ exempt })) return left;
  const reduced = withoutExempt(policy, { exempt });
  const { toleranceMs } = paceOf(reduced);
  return {
    ...left,
    scopes: [
      {
        ...{ ...overall, ...scopeFor({ exempt }, overall), allLimits: overall.limits },
        ...{ toleranceMs, gapMs: reduced.minGapMs, isUrgent: true },
      },
      ...others,
    ],
  };
}

/** A slot is taken in all scopes of an ask or in none. */
export interface Scope extends StoredScope {
  readonly gapMs: number;
  readonly toleranceMs: number;
  readonly keptMs: number;
  /** Only in the overall scope: the ask is urgent, so no id in line is before it. */
  readonly isUrgent?: boolean;
  /** If limits are skipped for the ask: all limits, which decide how long slots are kept. */
  readonly allLimits?: readonly Limit[];
}

/** The overall scope, which decides whether an id was admitted before; then the scopes of the categories that have a policy. */
export type Scopes = readonly [Scope, ...Scope[]];

/** The overall scope, or the scope of a category, with its present limits and slots. */
function openScope(
  category: string | undefined,
  policy: CategoryPolicy,
  leastKeptMs: number,
  stored: KeptSlots | undefined,
  now: number,
): Scope {
  const { toleranceMs, longestMs } = paceOf(policy);
  const slots = stored ?? { ...NO_SLOTS, keptMs: 0 };
  const isKeptLonger = (newest(slots.sent) ?? -Infinity) + slots.keptMs >= now && !isDamage(slots, longestMs, now);
  const keptMs = Math.max(leastKeptMs, longestMs, isKeptLonger ? slots.keptMs : 0);
  return {
    ...(category !== undefined && { category, exempt: policy.exempt ?? [] }),
    limits: limitsOf(policy, category),
    gapMs: policy.minGapMs,
    toleranceMs,
    keptMs,
    slots: live(slots, longestMs, keptMs, now),
  };
}

/** Whether these slots were written before the clock was set back (see CLOCK_STEP_MS). */
function isDamage({ sent }: Slots, longestMs: number, now: number): boolean {
  return (newest(sent) ?? -Infinity) > now + longestMs + CLOCK_STEP_MS;
}

/** The slots without damage, and without those that are no longer kept. */
function live(slots: Slots, longestMs: number, keptMs: number, now: number): Slots {
  const { sent, reserved, heldBack } = slots;
  if (sent.length + reserved.length + heldBack.length === 0) return NO_SLOTS;
  const isAwaited = ({ at }: Slot) => at >= now - NO_SHOW_MS;
  const areGone = isDamage(slots, longestMs, now);
  return {
    sent: sent.filter(({ at }) => at >= now - keptMs && at <= now + longestMs + CLOCK_STEP_MS),
    reserved: areGone ? [] : reserved.filter(isAwaited),
    heldBack: areGone ? [] : heldBack.filter(isAwaited),
  };
}

/** Slots, and how long the sent ones are kept, in milliseconds: for the longest window of all asks so far. */
interface KeptSlots extends Slots {
  readonly keptMs: number;
}

const NO_SLOTS: Slots = { sent: [], reserved: [], heldBack: [] };

export function timeOf(slots: readonly Slot[], id: string): number | undefined {
  return slots.find((slot) => slot.id === id)?.at;
}

export function newest(slots: readonly Slot[]): number | undefined {
  return slots.at(-1)?.at;
}

/** Inserts the slot behind those of the same instant. */
export function including(slots: readonly Slot[], slot: Slot): readonly Slot[] {
  const place = slots.findLastIndex(({ at }) => at <= slot.at) + 1;
  return slots.toSpliced(place, 0, slot);
}

function without(slots: readonly Slot[], id: string): readonly Slot[] {
  return slots.filter((slot) => slot.id !== id);
}

export function withoutId(slots: Slots, id: string): Slots {
  const { sent, reserved, heldBack } = slots;
  return { ...slots, sent: without(sent, id), reserved: without(reserved, id), heldBack: without(heldBack, id) };
}

/** The slots with a mark added: an entry that counts as a sent slot, but is not the slot of any id. */
export function marked(slots: Slots, id: string, at: number): Slots {
  const isThere = slots.sent.some((slot) => slot.at === at && slot.markOf === id);
  return isThere ? slots : { ...slots, sent: including(slots.sent, { at, markOf: id }) };
}

/** The slots without old marks: no limit counts more than the `most` newest sent slots, so an older mark makes no id wait. */
export function withoutOldMarks(slots: Slots, most: number): Slots {
  const lastCounted = slots.sent.at(-most)?.at ?? -Infinity;
  return { ...slots, sent: slots.sent.filter((slot) => slot.id !== undefined || slot.at >= lastCounted) };
}

/** The slots without the id in this list; the same object if the id is not there. */
export function released(slots: Slots, from: 'sent' | 'reserved' | 'heldBack', id: string): Slots {
  const rest = without(slots[from], id);
  return rest.length < slots[from].length ? { ...slots, [from]: rest } : slots;
}
