import type { RollingInfo, RollingOptions } from '../../examples/rolling-rate-limiter.ts';

type Call = 'limit' | 'wouldLimit';

/** One call at an instant, and what rolling-rate-limiter answered to it. */
interface Step {
  readonly atMs: number;
  readonly call: Call;
  readonly id: string;
  readonly answer: Partial<RollingInfo>;
}

export interface Example {
  readonly name: string;
  readonly options: RollingOptions;
  readonly steps: readonly Step[];
}

/** In seconds, where its own suite has milliseconds: there the windows are as short as the tolerance. */
function blockedAt(atS: number, call: Call, blocked: boolean, id = 'one'): Step {
  return { atMs: atS * 1_000, call, id, answer: { blocked } };
}

/** `why`: what made it blocked. */
function infoAt(atS: number, call: Call, why: '' | 'count' | 'difference', untilS: number, left: number): Step {
  const answer: RollingInfo = {
    blocked: why !== '',
    blockedDueToCount: why === 'count',
    blockedDueToMinDifference: why === 'difference',
    millisecondsUntilAllowed: untilS * 1_000,
    actionsRemaining: left,
  };
  return { atMs: atS * 1_000, call, id: 'one', answer };
}

/** The examples of version 0.4.2: four that say whether an action is blocked, and two of all fields. */
export const EXAMPLES: readonly Example[] = [
  {
    name: 'prevents more than maxInInterval actions within interval',
    options: { interval: 10_000, maxInInterval: 2 },
    steps: [
      blockedAt(0, 'limit', false),
      blockedAt(1, 'wouldLimit', false),
      blockedAt(1, 'limit', false),
      blockedAt(9, 'wouldLimit', true),
      blockedAt(10, 'wouldLimit', false),
      blockedAt(10, 'limit', false),
    ],
  },
  {
    name: 'blocked actions count as actions',
    options: { interval: 10_000, maxInInterval: 3 },
    steps: [
      blockedAt(0, 'limit', false),
      blockedAt(0, 'limit', false),
      blockedAt(0, 'limit', false),
      blockedAt(9, 'limit', true),
      blockedAt(9, 'limit', true),
      blockedAt(10, 'limit', false),
      blockedAt(10, 'limit', true),
    ],
  },
  {
    name: 'prevents actions less than minDistance apart',
    options: { interval: 10_000, maxInInterval: 4, minDifference: 2_000 },
    steps: [
      blockedAt(0, 'limit', false),
      blockedAt(0, 'limit', true),
      blockedAt(1, 'limit', true),
      blockedAt(3, 'limit', false),
      blockedAt(3, 'limit', true),
    ],
  },
  {
    name: 'keeps separate counts for separate users',
    options: { interval: 5_000, maxInInterval: 2 },
    steps: [
      blockedAt(0, 'limit', false),
      blockedAt(0, 'limit', false),
      blockedAt(0, 'limit', true),
      blockedAt(1, 'limit', false, 'two'),
      blockedAt(1, 'limit', false, 'two'),
      blockedAt(1, 'limit', true, 'two'),
      blockedAt(5, 'limit', false),
      blockedAt(5, 'limit', true, 'two'),
    ],
  },
  {
    name: 'returns info about limiting (no min distance)',
    options: { interval: 10_000, maxInInterval: 3 },
    steps: [
      infoAt(0, 'limit', '', 0, 2),
      infoAt(4, 'limit', '', 0, 1),
      infoAt(5, 'limit', '', 5, 0),
      infoAt(8, 'limit', 'count', 6, 0),
      infoAt(11, 'wouldLimit', 'count', 4, 0),
      infoAt(17, 'wouldLimit', '', 0, 1),
    ],
  },
  {
    name: 'returns info about limiting (with min distance)',
    options: { interval: 10_000, maxInInterval: 3, minDifference: 2_000 },
    steps: [
      infoAt(0, 'limit', '', 2, 2),
      infoAt(4, 'limit', '', 2, 1),
      infoAt(5, 'limit', 'difference', 5, 0),
      infoAt(8, 'limit', 'count', 6, 0),
      infoAt(11, 'wouldLimit', 'count', 4, 0),
      infoAt(17, 'wouldLimit', '', 2, 1),
    ],
  },
];
