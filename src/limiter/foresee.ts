import type { CategoryPolicy, Policy } from '../domain/limits.ts';
import type { QuietHours, Window } from '../domain/quiet-hours.ts';
import type { Block, Moved } from './limiter.ts';
import { limitsOf, type LaterLimits } from './pace.ts';
import { laterOf, movesOf, replan, type RecipientState, type Scope } from './recipient-state.ts';

/** An operator's action on one recipient, with the arguments of the limiter's call of the same name. */
export type Action =
  | ({ readonly kind: 'block' } & Block)
  | { readonly kind: 'unblock' }
  /** With `until` (epoch milliseconds, ahead of now) the limits end then; without it they have no end. */
  | { readonly kind: 'limit'; readonly policy: Policy; readonly until?: number | undefined }
  | { readonly kind: 'unlimit' }
  | { readonly kind: 'quiet'; readonly hours: QuietHours }
  | { readonly kind: 'unquiet' }
  | { readonly kind: 'reset' };

/** What is tried on one recipient: an operator's action, or another change. */
export type Change =
  | Action
  /** These reservations are given back, and those behind them move up. `entries`: as they are stored. */
  | { readonly kind: 'cancel'; readonly entries: readonly string[] }
  /**
   * These policies replace the limiter's own. Categories that the limiter does not have are ignored. Limits that are stored for
   * the recipient stay in force, unless `replacesStored`.
   */
  | {
      readonly kind: 'policies';
      readonly policy?: Policy | undefined;
      readonly categories?: Readonly<Record<string, CategoryPolicy>>;
      readonly replacesStored?: boolean;
    };

/** Where the reservations of a recipient would lie after a change. */
export interface Foreseen {
  /** Epoch milliseconds on the limiter's clock. */
  readonly now: number;
  /** All reservations, in the order in which they wait now; `from` is equal to `at` for a reservation that stays. */
  readonly slots: readonly Moved[];
}

/** The options of the limiter that hold for a recipient without stored settings. */
export interface General {
  readonly policy: Policy;
  /** The id of a stored entry; undefined if only a digest of it is stored. */
  readonly idOf: (entry: string) => string | undefined;
  /** These quiet hours, or else the limiter's own, with their quiet times around now. */
  readonly quietOf: (hours?: QuietHours) => {
    readonly hours: QuietHours | undefined;
    readonly windows: readonly Window[];
  };
}

/** What the change would do to every reservation: a real action plans all reservations anew in the same way. Writes nothing. */
export function foresee(state: RecipientState, change: Change, general: General, leadMs: number): Foreseen {
  const places = replan(changed(state, change, general), leadMs);
  return { now: state.now, slots: movesOf(places, general.idOf) };
}

function changed(state: RecipientState, change: Change, { policy: own, quietOf }: General): RecipientState {
  const [overall, ...others] = state.scopes;
  switch (change.kind) {
    case 'block': {
      const { until, reason } = change;
      return { ...state, block: { until, reason }, blockedUntil: until };
    }
    case 'unblock':
      return { ...state, block: undefined, blockedUntil: undefined };
    case 'limit': {
      const { policy, until = Infinity } = change;
      const stored = { policy, until };
      return { ...limited(state, policy, laterOf(stored, own)), stored };
    }
    case 'unlimit':
      return { ...limited(state, own), stored: undefined };
    case 'quiet':
    case 'unquiet': {
      const { hours, windows } = change.kind === 'quiet' ? quietOf(change.hours) : quietOf();
      return { ...state, hours, areHoursStored: change.kind === 'quiet', quiet: windows };
    }
    case 'reset':
      return { ...state, scopes: [unsent(overall), ...others.map(unsent)] };
    case 'cancel': {
      const entries = new Set(change.entries);
      const rest = (scope: Scope): Scope => without(scope, entries);
      return { ...state, scopes: [rest(overall), ...others.map(rest)] };
    }
    case 'policies': {
      const { policy, categories = {}, replacesStored = false } = change;
      const { scopes, ...after } = policy === undefined ? state : underGeneral(state, policy, replacesStored);
      const [first, ...ofCategories] = scopes;
      const tried = new Map(Object.entries(categories)); // a Map, because a category may be called `constructor`
      return { ...after, scopes: [first, ...ofCategories.map((scope) => underPolicy(scope, tried))] };
    }
  }
}

function limited(state: RecipientState, policy: Policy, later?: LaterLimits): RecipientState {
  const [overall, ...others] = state.scopes;
  return { ...state, policy, scopes: [{ ...overall, limits: limitsOf(policy, undefined), later }, ...others] };
}

/** The state if the limiter had this policy. A policy that is stored for the recipient stays, unless `replacesStored`. */
function underGeneral(state: RecipientState, policy: Policy, replacesStored: boolean): RecipientState {
  const { stored } = state;
  return stored === undefined || replacesStored
    ? limited(state, policy)
    : limited(state, stored.policy, laterOf(stored, policy));
}

function underPolicy(scope: Scope, categories: ReadonlyMap<string, CategoryPolicy>): Scope {
  const policy = categories.get(scope.category ?? '');
  return policy === undefined
    ? scope
    : { ...scope, limits: limitsOf(policy, scope.category), exempt: policy.exempt ?? [] };
}

function unsent(scope: Scope): Scope {
  return { ...scope, slots: { ...scope.slots, sent: [] } };
}

function without({ slots, ...scope }: Scope, entries: ReadonlySet<string>): Scope {
  const isLeft = ({ id = '' }: { readonly id?: string }): boolean => !entries.has(id);
  const { sent, reserved, heldBack } = slots;
  return { ...scope, slots: { sent, reserved: reserved.filter(isLeft), heldBack: heldBack.filter(isLeft) } };
}
