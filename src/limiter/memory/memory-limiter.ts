import type { OptionNames } from '../../domain/faults.ts';
import type { CategoryPolicy, Policy, Overtaking } from '../../domain/limits.ts';
import { quietText, type QuietHours } from '../../domain/quiet-hours.ts';
import {
  checkAsk,
  checkBlock,
  checkFollow,
  checkKeep,
  checkLimit,
  checkLimiterOptions,
  checkOvertaking,
  checkQuiet,
  checkRecipient,
  checkSlot,
  MEANT_IN_OPTIONS,
} from '../checks.ts';
import type { Admission, Ask, Follow, SlotId, Inspection, Limiter } from '../limiter.ts';
import { DEFAULT_OVERTAKING } from '../overtaking.ts';
import { inspectionOf, movedOf, replan, type Replanned, type Slot, type Slots } from '../recipient-state.ts';
import { decide, type Decision } from './decide.ts';
import {
  createOpener,
  edited,
  exempted,
  including,
  inForce,
  Recipients,
  released,
  withNotes,
  withScopes,
  type Recipient,
  type Scope,
} from './recipients.ts';

/** The limits of a memory limiter, and what it keeps. */
export interface MemoryLimiterOptions {
  /** The overall policy, for asks without a policy of their own. */
  readonly policy: Policy;
  /** Policies of categories, by their names; each holds in addition to the overall policy. Default: none. */
  readonly categories?: Readonly<Record<string, CategoryPolicy>>;
  /** When recipients get no alert, unless `quiet` stored other hours for one of them. Default: no time is quiet. */
  readonly quietHours?: QuietHours | undefined;
  /** A blocked ask counts like a sent slot, so a caller that asks too often is kept waiting. Default: false. */
  readonly countBlocked?: boolean;
  /** `inspect` shows the ids of sent slots. Default: false. */
  readonly keepIds?: boolean;
  /** Sent slots are kept for at least this long, in milliseconds; see the Redis limiter's option of the same name. Default: 0. */
  readonly keepMs?: number;
  /** How far reservations that go first are moved before others. Default: 20 times, 10 minutes. */
  readonly overtaking?: Overtaking;
  /** Whole epoch milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
}

/** A limiter for a single process. Everything is forgotten when the process ends. */
export interface MemoryLimiter extends Limiter {
  /** How many recipients are stored now. */
  readonly recipients: number;
}

const OPTIONS: OptionNames<MemoryLimiterOptions> = {
  ...{ policy: true, categories: true, quietHours: true, countBlocked: true, keepIds: true, keepMs: true, now: true },
  overtaking: true,
};

/** What the Redis limiter promises, for a single process. Throws InputError if an option or a policy is not usable. */
export function createMemoryLimiter(options: MemoryLimiterOptions): MemoryLimiter {
  checkLimiterOptions(options, OPTIONS, { ...MEANT_IN_OPTIONS, redis: 'createRedisLimiter' });
  return openMemoryLimiter(options);
}

/** As `createMemoryLimiter`, from options that may contain more fields than a memory limiter has. */
export function openMemoryLimiter(options: MemoryLimiterOptions): MemoryLimiter {
  const { policy, categories = {}, countBlocked = false, keepIds = false, keepMs = 0, now = Date.now } = options;
  const { quietHours, overtaking = DEFAULT_OVERTAKING } = options;
  checkKeep(keepMs);
  checkOvertaking(overtaking);
  const opener = createOpener({ policy, categories, quietHours, keepMs, overtaking, now });
  const recipients = new Recipients(now);

  function consider(ask: Ask): Decision {
    checkAsk(ask);
    const opened = exempted(opener.open(recipients.get(ask.recipientId), categoriesOf(ask), ask.policy));
    return decide(ask, opened.scopes, opened, countBlocked);
  }

  function admit(ask: Ask): Admission {
    const { recipientId, id, goesFirst = false } = ask;
    const before = recipients.get(recipientId);
    const { admission, after } = consider(ask);
    const isNoted = goesFirst && admission.kind === 'reserved' && overtaking.mostTimes > 0;
    if (after !== undefined || isNoted) {
      const changed = after === undefined ? before : withScopes(before, after);
      recipients.set(recipientId, withNotes(changed, isNoted ? [[id, { goesFirst }]] : []));
    }
    return admission;
  }

  /** Changes the slots in every scope of this id. Answers the recipient before and after; the same object if nothing changed. */
  function edit(slot: SlotId, change: (slots: Slots) => Slots): readonly [Recipient, Recipient] {
    checkSlot(slot);
    const before = recipients.get(slot.recipientId);
    const after = edited(before, categoriesOf(slot), change);
    if (after !== before) recipients.set(slot.recipientId, withNotes(after, []));
    return [before, after];
  }

  /** True if the overall scope changed: every sent slot is in it, so a change in a category alone does not count. */
  function refund(slot: SlotId): boolean {
    const [before, after] = edit(slot, (slots) => released(slots, 'sent', slot.id));
    return after.slots.get(undefined) !== before.slots.get(undefined);
  }

  function cancel(slot: SlotId): boolean {
    const [before, after] = edit(slot, (slots) => released(released(slots, 'reserved', slot.id), 'heldBack', slot.id));
    return after !== before;
  }

  /** Changes the recipient and plans all its reservations anew. Answers the recipient before the change. */
  async function change(recipientId: string, changes: Partial<Recipient>, follow: Follow = {}): Promise<Recipient> {
    checkRecipient(recipientId);
    checkFollow(follow);
    const before = recipients.get(recipientId);
    const changed = { ...before, ...changes };
    const opened = opener.open(changed, opener.categories);
    const places = replan(opened, follow.leadMs ?? 0);
    const scopes = opened.scopes.map((scope) => placed(scope, places));
    const notes = places.flatMap(({ id, note }) => (note === undefined ? [] : [[id, note] as const]));
    recipients.set(recipientId, withNotes(withScopes(changed, scopes), notes));
    const moved = movedOf(places, (id) => id);
    const sooner = moved.filter(({ at, from }) => at < from);
    if (sooner.length > 0) await follow.onMoving?.(sooner);
    if (moved.length > 0) await follow.onMoved?.(moved);
    return before;
  }

  function inspect(recipientId: string): Inspection {
    checkRecipient(recipientId);
    const opened = opener.open(recipients.get(recipientId), opener.categories);
    const [overall] = opened.scopes;
    const next = decide({ recipientId, id: NOBODY }, [overall], opened, countBlocked).admission;
    return inspectionOf(opened, next, keepIds, (id) => id);
  }

  return {
    get recipients() {
      return recipients.size;
    },
    admit: promised(admit),
    peek: promised((ask: Ask) => consider(ask).admission),
    refund: promised(refund),
    cancel: promised(cancel),
    async moveUp(recipientId, follow) {
      await change(recipientId, {}, follow);
    },
    async limit(recipientId, own, { until, ...follow } = {}) {
      checkLimit(recipientId, own, until, now());
      await change(recipientId, { stored: { policy: structuredClone(own), until: until ?? Infinity } }, follow);
    },
    async unlimit(recipientId, follow) {
      const { stored } = await change(recipientId, { stored: undefined }, follow);
      return inForce(stored, now()) !== undefined;
    },
    async block(recipientId, block, follow) {
      checkBlock(recipientId, block, now());
      await change(recipientId, { block: { until: block.until, reason: block.reason } }, follow);
    },
    async unblock(recipientId, follow) {
      const { block } = await change(recipientId, { block: undefined }, follow);
      return inForce(block, now()) !== undefined;
    },
    async quiet(recipientId, hours, follow) {
      checkQuiet(recipientId, hours);
      await change(recipientId, { quiet: JSON.parse(quietText(hours)) as QuietHours }, follow);
    },
    async unquiet(recipientId, follow) {
      return (await change(recipientId, { quiet: undefined }, follow)).quiet !== undefined;
    },
    async reset(recipientId, follow) {
      const slots = [...recipients.get(recipientId).slots];
      const unsent = slots.map(([category, kept]) => [category, { ...kept, sent: [] }] as const);
      await change(recipientId, { slots: new Map(unsent) }, follow);
      return slots.some(([, { sent }]) => sent.length > 0);
    },
    inspect: promised(inspect),
  };
}

/** No slot has this id, since an ask with it is refused. */
const NOBODY = '';

function categoriesOf({ category }: SlotId): readonly string[] {
  return category === undefined ? [] : [category];
}

/** The same function, but it answers with a promise, and rejects instead of throwing. */
function promised<A extends unknown[], R>(run: (...args: A) => R): (...args: A) => Promise<R> {
  return (...args) => new Promise((resolve) => resolve(run(...args)));
}

/** Puts new slots into a scope: into the overall scope all slots in line, into a category its slots in line and held back. */
function placed(scope: Scope, places: readonly Replanned[]): Scope {
  const isOverall = scope.category === undefined;
  const slotsOf = (heldBack: boolean) =>
    places
      .filter(({ isHeldBack, own }) => isHeldBack === heldBack && (own === scope || (isOverall && !heldBack)))
      .reduce<readonly Slot[]>((slots, { id, at }) => including(slots, { id, at }), []);
  return { ...scope, slots: { ...scope.slots, reserved: slotsOf(false), heldBack: slotsOf(true) } };
}
