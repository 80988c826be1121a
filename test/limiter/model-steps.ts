import fc from 'fast-check';
import { EXEMPTIONS, type CategoryPolicy, type Policy } from '../../src/domain/limits.ts';
import type { QuietHours, Window } from '../../src/domain/quiet-hours.ts';
import { quietIn } from '../contract/trial.ts';

const MINUTE_MS = 60_000;

/** Which minutes are quiet, from that of the start on. */
export const pattern = fc.array(fc.boolean(), { minLength: 0, maxLength: 12 });

/** The pattern as quiet hours that begin at the minute of `start`. */
export function hoursOf(minutes: readonly boolean[], start: number): QuietHours {
  return quietIn(...windowsOf(minutes, start));
}

/** The same minutes as instants, on the day of the start. */
export function windowsOf(minutes: readonly boolean[], start: number): readonly Window[] {
  const first = Math.floor(start / MINUTE_MS) * MINUTE_MS;
  return minutes.flatMap((isQuiet, index) => {
    const from = first + index * MINUTE_MS;
    return isQuiet ? [{ from, until: from + MINUTE_MS }] : [];
  });
}

/** The longest window that is tried. */
export const LONGEST_MS = 20_000;

const windowMs = fc.oneof(fc.integer({ min: 1, max: LONGEST_MS }), fc.integer({ min: 1, max: 2_000 }));
const policies: fc.Arbitrary<Policy> = fc.record({
  rules: fc.array(fc.record({ max: fc.integer({ min: 1, max: 4 }), perMs: windowMs }), { maxLength: 3 }),
  minGapMs: fc.oneof(fc.constantFrom(0, 0, 1, 2, 200, 3_000), fc.integer({ min: 0, max: 5_000 })),
});

export interface Scenario {
  readonly policy: Policy;
  readonly categories: Readonly<Record<string, CategoryPolicy>>;
  /** Which of the next minutes are quiet for everybody; undefined for no quiet hours. */
  readonly quietMinutes: readonly boolean[] | undefined;
  readonly countBlocked: boolean;
  readonly keepIds: boolean;
}

/** Urgent, or sent in quiet time, or both: what needs limits of its own. */
const exempted: fc.Arbitrary<CategoryPolicy> = fc
  .tuple(policies, fc.subarray([...EXEMPTIONS], { minLength: 1 }))
  .map(([policy, exempt]) =>
    policy.rules.length === 0 && policy.minGapMs === 0 ? { ...policy, minGapMs: 700, exempt } : { ...policy, exempt },
  );
const categoryPolicies = fc.oneof(
  { weight: 2, arbitrary: policies },
  { weight: 1, arbitrary: exempted },
) as fc.Arbitrary<CategoryPolicy>;

/** A third of them without categories, so that slots alone are tried as hard as ever. */
export const scenarios: fc.Arbitrary<Scenario> = fc.record({
  policy: policies,
  categories: fc.oneof(
    { weight: 1, arbitrary: fc.constant({}) },
    { weight: 2, arbitrary: fc.record({ messages: categoryPolicies, alarms: categoryPolicies }) },
  ),
  countBlocked: fc.oneof({ weight: 2, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  keepIds: fc.boolean(),
  quietMinutes: fc.option(pattern, { nil: undefined, freq: 2 }),
});

/** Which of the ids so far; the highest numbers stand for the newest. */
const which = fc.nat({ max: 99 });
const forMs = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: LONGEST_MS }));
const rarely = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 });

const maxWaitMs = rarely(fc.oneof(fc.nat(300), fc.nat(30_000)));

const ask = fc.record({
  do: fc.constant('ask' as const),
  category: fc.constantFrom(undefined, 'messages', 'messages', 'alarms', 'letters'),
  maxWaitMs,
  maxQuietMs: fc.option(fc.oneof(fc.constant(0), fc.nat(60_000)), { nil: undefined, freq: 5 }),
  expiresInMs: fc.option(fc.nat(90_000), { nil: undefined, freq: 5 }),
  maxPending: rarely(fc.nat(3)),
  policy: fc.option(policies, { nil: undefined, freq: 7 }),
  everyRule: fc.constantFrom(undefined, true),
});
/** How long a caller says that it needs until it can send. */
const leadMs = fc.option(fc.oneof(fc.nat(200), fc.nat(5_000)), { nil: undefined, freq: 3 });

/** Comes back `lateMs` after its slot, or after the edge of the early or the late tolerance around it. */
const comeBack = (edge: fc.Arbitrary<'early' | 'slot' | 'late'>, lateMs: fc.Arbitrary<number>) =>
  fc.record({
    do: fc.constant('return' as const),
    which,
    edge,
    lateMs,
    leadMs,
    maxWaitMs,
    maxPending: rarely(fc.nat(1)),
    everyRule: fc.constantFrom(undefined, true),
  });
const edges = fc.constantFrom('early' as const, 'slot' as const, 'late' as const);
const byOne = fc.constantFrom(-1, 0, 1);
const pass = fc.record({
  do: fc.constant('pass' as const),
  ms: fc.oneof(fc.nat(300), fc.nat(5_000), fc.nat(90_000)),
});

export const steps = fc.oneof(
  { weight: 8, arbitrary: ask },
  { weight: 8, arbitrary: comeBack(edges, byOne) },
  { weight: 6, arbitrary: comeBack(fc.constant('slot'), fc.integer({ min: -300, max: 300 })) },
  { weight: 4, arbitrary: comeBack(fc.constant('slot'), fc.integer({ min: -500, max: 5_000 })) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom('again', 'renew', 'peek', 'refund', 'cancel'),
      which,
      maxWaitMs,
      leadMs,
    }),
  },
  { weight: 2, arbitrary: pass },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('limit' as const), policy: policies, forMs: rarely(forMs) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('block' as const), forMs }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('quiet' as const), minutes: pattern }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('unquiet', 'unlimit', 'unblock', 'moveUp', 'moveUp', 'inspect', 'inspect', 'reset'),
    }),
  },
);
export type Step = typeof steps extends fc.Arbitrary<infer S> ? S : never;
