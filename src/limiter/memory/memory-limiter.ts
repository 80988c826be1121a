import type { OptionNames } from '../../domain/faults.ts';
import type { CategoryPolicy, Policy } from '../../domain/limits.ts';
import { type QuietHours, quietText } from '../../domain/quiet-hours.ts';
import {
  checkAsk,
  checkBlock,
  checkFollow,
  checkSlot,
  checkKeep,
  checkLimit,
  checkLimiterOptions,
  checkQuiet,
  checkRecipient,
  MEANT_IN_OPTIONS,
} from '../checks.ts';
import type { Admission, Ask, Block, Follow, Held, Inspection, Limiter, Moved, SlotView } from '../limiter.ts';
import { quietView, paceOf } from '../pace.ts';
import { causesOf, NO_CAUSE, replan, type Replanned, type Rooms, type Waiting } from '../replan.ts';
import {
  blockAt,
  Recipients,
  edited,
  policyAt,
  withoutSent,
  withScopes,
  type Recipient,
  createOpener,
  exempted,
  released,
  type Slots,
  type Opened,
  reservations,
  type Scope,
  type Scopes,
  including,
  type Slot,
} from './recipients.ts';
import { decide, type Decision } from './decide.ts';

/** The limits of a memory limiter, and what it keeps. */
export interface MemoryLimiterOptions {
  /** The overall policy, for asks without a policy of their own. */
  readonly policy: Policy;
  /** Policies of categories, by their names; each holds in addition to the overall one. Default: none. */
  readonly categories?: Readonly<Record<string, CategoryPolicy>>;
  /** When nobody gets an alert, unless `quiet` stored other hours for a recipient. Default: no time is quiet. */
  readonly quietHours?: QuietHours | undefined;
  /** A blocked ask counts like a sent slot, so a caller that asks too often is kept waiting. Default: false. */
  readonly countBlocked?: boolean;
  /** `inspect` shows the ids of sent slots. Default: false. */
  readonly keepIds?: boolean;
  /** Sent slots are kept for at least this long, in milliseconds; see the Redis limiter's option of the same name. Default: 0. */
  readonly keepMs?: number;
  /** Whole epoch milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
}

/** A limiter for a single process; everything is forgotten when that ends. */
export interface MemoryLimiter extends Limiter {
  /** How many recipients are stored now. */
  readonly recipients: number;
}

const OPTIONS: OptionNames<MemoryLimiterOptions> = {
  ...{ policy: true, categories: true, quietHours: true, countBlocked: true, keepIds: true, keepMs: true, now: true },
};

/** The same promise as the Redis limiter, for a single process. Throws InputError if an option or a policy is not usable. */
export function createMemoryLimiter(options: MemoryLimiterOptions): MemoryLimiter {
  checkLimiterOptions(options, OPTIONS, { ...MEANT_IN_OPTIONS, redis: 'createRedisLimiter' });
  return openMemoryLimiter(options);
}

/** As `createMemoryLimiter`, from options that hold more than its own. */
export function openMemoryLimiter(options: MemoryLimiterOptions): MemoryLimiter {
  const { policy, categories = {}, countBlocked = false, keepIds = false, keepMs = 0, now = Date.now } = options;
  checkKeep(keepMs);
  const opener = createOpener({ policy, categories, quietHours: options.quietHours, keepMs, now });
  const recipients = new Recipients(now);

  const exemptOf = (category: string | undefined) => opener.policyOf(category)?.exempt;

  function consider(ask: Ask): Decision {
    checkAsk(ask);
    const all = opener.open(recipients.get(ask.recipientId), categoriesOf(ask), ask.policy);
    const opened = exempted(all, opener.policyOf(ask.category)?.exempt);
    return decide(ask, opened.scopes, opened, countBlocked);
  }

  function admit(ask: Ask): Admission {
    const { admission, after } = consider(ask);
    if (after !== undefined) recipients.set(ask.recipientId, withScopes(recipients.get(ask.recipientId), after));
    return admission;
  }

  /** The recipient before and after the change; the same object twice if nothing changed. */
  function edit(slot: Held, change: (slots: Slots) => Slots): readonly [Recipient, Recipient] {
    const before = recipients.get(slot.recipientId);
    const after = edited(before, categoriesOf(slot), change);
    if (after !== before) recipients.set(slot.recipientId, after);
    return [before, after];
  }

  function refund(slot: Held): boolean {
    checkSlot(slot);
    return changedOverall(edit(slot, (slots) => released(slots, 'sent', slot.id)));
  }

  function cancel(slot: Held): boolean {
    checkSlot(slot);
    const [before, after] = edit(slot, (slots) => released(released(slots, 'reserved', slot.id), 'heldBack', slot.id));
    return after !== before;
  }

  /** Changes the recipient and plans all its reservations anew. Answers the recipient before the change. */
  async function changeAndReplan(
    recipientId: string,
    change: (recipient: Recipient) => Recipient,
    follow: Follow,
  ): Promise<Recipient> {
    checkFollow(follow);
    const { onMoved, leadMs = 0 } = follow;
    const before = recipients.get(recipientId);
    const changed = change(before);
    const [after, moved] = replanned(changed, opener.open(changed, opener.categories), leadMs, exemptOf);
    recipients.set(recipientId, after);
    if (moved.length > 0) await onMoved?.(moved);
    return before;
  }

  async function limit(recipientId: string, own: Policy, options: Follow & { readonly until?: number } = {}) {
    const { until, ...follow } = options;
    checkLimit(recipientId, own, until, now());
    const stored = { policy: structuredClone(own), until: until ?? Infinity };
    await changeAndReplan(recipientId, (recipient) => ({ ...recipient, stored }), follow);
  }

  async function unlimit(recipientId: string, follow: Follow = {}): Promise<boolean> {
    checkRecipient(recipientId);
    return (
      policyAt(
        await changeAndReplan(recipientId, (recipient) => ({ ...recipient, stored: undefined }), follow),
        now(),
      ) !== undefined
    );
  }

  async function block(recipientId: string, block: Block, follow: Follow = {}): Promise<void> {
    checkBlock(recipientId, block, now());
    const { until, reason } = block;
    await changeAndReplan(recipientId, (recipient) => ({ ...recipient, block: { until, reason } }), follow);
  }

  async function unblock(recipientId: string, follow: Follow = {}): Promise<boolean> {
    checkRecipient(recipientId);
    return (
      blockAt(
        await changeAndReplan(recipientId, (recipient) => ({ ...recipient, block: undefined }), follow),
        now(),
      ) !== undefined
    );
  }

  async function quiet(recipientId: string, hours: QuietHours, follow: Follow = {}): Promise<void> {
    checkQuiet(recipientId, hours);
    const stored = JSON.parse(quietText(hours)) as QuietHours;
    await changeAndReplan(recipientId, (recipient) => ({ ...recipient, quiet: stored }), follow);
  }

  async function unquiet(recipientId: string, follow: Follow = {}): Promise<boolean> {
    checkRecipient(recipientId);
    return (
      (await changeAndReplan(recipientId, (recipient) => ({ ...recipient, quiet: undefined }), follow)).quiet !==
      undefined
    );
  }

  async function reset(recipientId: string, follow: Follow = {}): Promise<boolean> {
    checkRecipient(recipientId);
    const before = await changeAndReplan(recipientId, withoutSent, follow);
    return [...before.slots.values()].some(({ sent }) => sent.length > 0);
  }

  function inspect(recipientId: string): Inspection {
    checkRecipient(recipientId);
    const recipient = recipients.get(recipientId);
    const opened = opener.open(recipient, opener.categories);
    const hours = recipient.quiet ?? options.quietHours;
    const found = inspection(recipient, opened, { countBlocked, keepIds, exemptOf });
    return hours === undefined
      ? found
      : { ...found, quiet: quietView(hours, recipient.quiet !== undefined, opened.quiet, opened.now) };
  }

  return {
    get recipients() {
      return recipients.size;
    },
    admit: promised(admit),
    peek: promised((ask: Ask) => consider(ask).admission),
    refund: promised(refund),
    cancel: promised(cancel),
    limit,
    unlimit,
    block,
    unblock,
    quiet,
    unquiet,
    reset,
    inspect: promised(inspect),
  };
}

/** True if the overall scope changed: every slot is in it, so a change of a category alone means that nothing was found. */
function changedOverall([before, after]: readonly [Recipient, Recipient]): boolean {
  return after.slots.get(undefined) !== before.slots.get(undefined);
}

function categoriesOf({ category }: Held): readonly string[] {
  return category === undefined ? [] : [category];
}

/** The same function, but it answers with a promise and rejects instead of throwing. */
function promised<A extends unknown[], R>(run: (...args: A) => R): (...args: A) => Promise<R> {
  return (...args) => new Promise((resolve) => resolve(run(...args)));
}

type ExemptOf = (category: string | undefined) => CategoryPolicy['exempt'];

/** The recipient with all reservations planned anew, and those that moved. `opened` is the same recipient, with every category. */
function replanned(
  recipient: Recipient,
  opened: Opened,
  leadMs: number,
  exemptOf: ExemptOf,
): readonly [Recipient, readonly Moved[]] {
  const { scopes, now, blockedUntil, quiet } = opened;
  const places = replan(waitingIn(scopes), roomsOf(scopes, exemptOf), { now, blockedUntil, leadMs, quiet });
  return [
    withScopes(
      recipient,
      scopes.map((scope) => placed(scope, places)),
    ),
    places.flatMap(movedOf),
  ];
}

function waitingIn(scopes: Scopes): Waiting[] {
  const categoryOf = new Map(scopes.flatMap(({ category, slots }) => idsOf(slots.reserved, category)));
  const heldBack = new Map(scopes.flatMap(({ category, slots }) => idsOf(slots.heldBack, category)));
  return reservations(scopes).map(({ id = '', at }) => ({
    entry: id,
    slot: at,
    category: heldBack.get(id) ?? categoryOf.get(id),
    isHeldBack: heldBack.has(id),
  }));
}

function roomsOf(scopes: Scopes, exemptOf: ExemptOf): Rooms {
  return new Map(
    scopes.map(({ category, limits, slots }) => [
      category,
      { limits, exempt: exemptOf(category), sent: slots.sent.map(({ at }) => at) },
    ]),
  );
}

function idsOf(slots: readonly Slot[], category: string | undefined): [string, string | undefined][] {
  return slots.map(({ id = '' }) => [id, category]);
}

/** A reservation in line is written to the overall scope and to its category; one that is held back to its category alone. */
function placed(scope: Scope, places: readonly Replanned[]): Scope {
  const ofScope = ({ waiting }: Replanned) => scope.category === undefined || waiting.category === scope.category;
  const slotsOf = (heldBack: boolean) =>
    places
      .filter((place) => place.isHeldBack === heldBack && ofScope(place))
      .reduce<readonly Slot[]>((slots, { waiting, at }) => including(slots, { id: waiting.entry, at }), []);
  const heldBackHere = scope.category === undefined ? [] : slotsOf(true);
  return { ...scope, slots: { ...scope.slots, reserved: slotsOf(false), heldBack: heldBackHere } };
}

function movedOf({ waiting: { entry, slot, category }, at, cause }: Replanned): Moved[] {
  return at === slot ? [] : [{ id: entry, ...(category !== undefined && { category }), from: slot, at, ...cause }];
}

/** An ask with this id is refused, so no slot has it. */
const NOBODY = '';

/** What is stored in the overall scope, and the answer that a newcomer would get. */
function inspection(
  recipient: Recipient,
  opened: Opened,
  { countBlocked, keepIds, exemptOf }: { countBlocked: boolean; keepIds: boolean; exemptOf: ExemptOf },
): Inspection {
  const { now, policy, scopes, blockedUntil, quiet } = opened;
  const stored = policyAt(recipient, now);
  const block = blockAt(recipient, now);
  const [overall] = scopes;
  const { admission } = decide({ recipientId: NOBODY, id: NOBODY }, [overall], opened, countBlocked);
  const since = now - paceOf(policy).longestMs;
  const waiting = waitingIn(scopes);
  const causes = causesOf(waiting, roomsOf(scopes, exemptOf), { now, blockedUntil, quiet });
  return {
    now,
    policy,
    source: stored === undefined ? 'limiter' : 'stored',
    ...(stored !== undefined && stored.until !== Infinity && { policyUntil: stored.until }),
    ...(block !== undefined && { block }),
    sent: overall.slots.sent.filter(({ at }) => at >= since).map((slot) => view(slot, keepIds)),
    reserved: waiting.map(({ entry: id, slot: at }, index) => ({ at, id, ...(causes[index] ?? NO_CAUSE) })),
    nextAt: admission.kind === 'refused' ? now + admission.waitMs : admission.at,
    rule: admission.rule,
  };
}

function view({ at, id }: Slot, withId: boolean): SlotView {
  return withId && id !== undefined ? { at, id } : { at };
}
