import { SENT_BODY } from './workload.ts';
import type { Excused, Fault, PairsFacts } from './facts.ts';
import { doubtsOf, fatesOf } from './fates.ts';
import { judgeLeft } from './left.ts';
import { judgeLines } from './line-looks.ts';
import { judgePace } from './pacing.ts';
import { judgeCanceled, judgeEnds, judgeSeen } from './single.ts';
import { judgeDigests, judgeLatest } from './together.ts';
import { storyOf } from './story.ts';

/** What a run came to, counted from outside alone. */
export interface PairsResult {
  readonly seed: number;
  readonly seconds: number;
  /** Each time that an id was added. */
  readonly notifications: number;
  /** How many ended how. */
  readonly ends: Readonly<Record<string, number>>;
  /** Alerts of digests that phones got. */
  readonly digests: number;
  /** How often each act was done, with an effect or without. */
  readonly acts: Readonly<Record<string, number>>;
  readonly kills: number;
  readonly freezes: number;
  /** Workers that ended by themselves, or with an error. */
  readonly crashes: number;
  /** What looks like a fault and has a reason, by the reason. */
  readonly excused: Excused;
  readonly faults: readonly (Fault & { readonly story: readonly string[] })[];
  readonly drainMs: number;
  readonly tookMs: number;
}

/** Of a fault that names many, the stories of so many are shown. */
const MOST_STORIES = 3;

export function judgePairs(facts: PairsFacts, { seed, seconds }: { seed: number; seconds: number }): PairsResult {
  const fates = fatesOf(facts);
  const excused: Excused = {};
  const parts = { facts, fates, excused, doubts: doubtsOf(facts) };
  const faults = [
    ...[judgeEnds, judgeSeen, judgeCanceled, judgeDigests, judgeLatest, judgeLeft].flatMap((rule) => rule(parts)),
    ...judgePace(facts, excused),
    ...judgeLines(facts, excused),
  ];
  return {
    seed,
    seconds,
    notifications: facts.lives.length,
    ends: countBy([...fates.values()].map(({ kind }) => kind)),
    digests: facts.entries.filter(({ accepted, body = '' }) => accepted && SENT_BODY.test(body)).length,
    acts: countBy(facts.done.map(({ kind }) => kind)),
    kills: facts.incidents.filter(({ kind }) => kind === 'kill').length,
    freezes: facts.thaws.length,
    crashes: facts.crashes.length,
    excused,
    faults: faults.map((fault) => ({
      ...fault,
      story: fault.lives.slice(0, MOST_STORIES).flatMap((name) => [`${name}:`, ...storyOf(name, facts)]),
    })),
    drainMs: facts.drainMs,
    tookMs: facts.tookMs,
  };
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

/** What must have happened, since a run in which nothing happened would be clean. */
const NEEDED = ['delivered', 'merged', 'superseded', 'canceled'] as const;

/** Why the run fails beside its faults: `no notification was merged`. */
export function emptiness({ ends, crashes }: PairsResult): string[] {
  const missing = NEEDED.filter((name) => (ends[name] ?? 0) === 0).map((name) => `no notification was ${name}`);
  return crashes === 0 ? missing : [...missing, `${crashes} workers ended by themselves`];
}
