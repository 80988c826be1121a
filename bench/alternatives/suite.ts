import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { longestMs, startProviders } from '../../demo/providers-process.ts';
import { alertsByRecipient, idealMakespan, judge } from '../../sandbox/judge.ts';
import { createProgress } from '../../src/terminal/progress.ts';
import { withSurroundings } from '../redis.ts';
import { installRivals } from '../rivals.ts';
import { reportOf, rounded, type Report, type Suite, type SuiteOptions, type Table } from '../suite.ts';
import { ALTERNATIVES, NAMES, POLICY, type Alternative } from './alternative.ts';
import { COLOURS, renderPicture } from './picture.ts';
import { makeBurst, runAlternative, type Burst, type Run } from './run.ts';

export const alternativesSuite: Suite = {
  name: 'alternatives',
  description: 'one burst through what one would use instead: a plain worker, other limiters',
  draws: true,
  run,
};

async function run({ quick, say, svg }: SuiteOptions): Promise<Report> {
  const burst = makeBurst(quick);
  const rivals = quick ? undefined : await installRivals(say);
  const alternatives = ALTERNATIVES.filter((name) => name !== 'rolling' || rivals !== undefined);
  const start = performance.now();
  return withSurroundings(say, async ({ redisUrl }, redisVersion) => {
    const providers = await startProviders();
    const progress = createProgress('alternatives', alternatives.length);
    const runs: Run[] = [];
    try {
      for (const alternative of alternatives) {
        progress.say(`alternatives: ${NAMES[alternative]}`);
        runs.push(await runAlternative({ alternative, burst, redisUrl, providers }));
        progress.update(runs.length);
      }
    } finally {
      progress.stop();
      await providers.close();
    }
    if (svg !== undefined) await writePictures(svg, runs, burst);
    const { version: bullmq } = createRequire(import.meta.url)('bullmq/package.json') as { version: string };
    const rolling = rivals?.versions['rolling-rate-limiter'];
    const versions = {
      node: process.versions.node,
      redis: redisVersion,
      bullmq,
      ...(rolling !== undefined && { 'rolling-rate-limiter': rolling }),
    };
    const figures = new Map(runs.map((each) => [each.alternative, figuresOf(each, burst)]));
    const [busy, others] = [burst.busy.length, burst.others.length];
    const idealMs = idealMakespan(busy, POLICY);
    const seconds = (performance.now() - start) / 1_000;
    return reportOf(
      'alternatives',
      { quick, seconds, versions },
      {
        tables: tablesOf([...figures]),
        what: `${busy} alerts to one recipient (ideal ${idealMs / 1_000} s) and one each to ${others} others`,
        json: {
          burst: { busy, others },
          idealMs,
          longestStallMs: longestMs(providers.stalls),
          ...Object.fromEntries(ALTERNATIVES.map((name) => [name, jsonOf(figures.get(name))])),
        },
      },
    );
  });
}

/** `burst.svg` for light pages, and `burst-dark.svg` beside it for dark ones. */
async function writePictures(path: string, runs: readonly Run[], { busy }: Burst): Promise<void> {
  const instantsOf = (name: Run['alternative']): number[] => {
    const { arrivals = [], enqueuedAt = 0 } = runs.find(({ alternative }) => alternative === name) ?? {};
    const alerts = alertsByRecipient(arrivals, POLICY.minGapMs).get(busy[0]?.recipientId ?? '') ?? [];
    return alerts.map(({ at }) => at - enqueuedAt);
  };
  const pictured = { withoutMs: instantsOf('plain'), withMs: instantsOf('pushpacer') };
  await writeFile(path, renderPicture(pictured, COLOURS.light));
  await writeFile(path.replace(/\.svg$/, '-dark.svg'), renderPicture(pictured, COLOURS.dark));
}

/** What one alternative's arrivals say. All of it is counted at the providers, but the passes, which are counted in the queue. */
export interface Figures {
  /** The most alerts to one recipient within any gap less the judge's tolerance (1 is allowed), and within any window of the rule. */
  readonly mostInGap: number;
  readonly mostInWindow: number;
  readonly gapViolations: number;
  readonly windowViolations: number;
  /** How often a worker took a job, for each job. */
  readonly passesPerJob: number;
  /** The busy recipient: from the first alert to the last, and this over the shortest that the limits allow. */
  readonly busyMs: number;
  readonly busyOverIdeal: number;
  /** Alerts to the busy recipient that came after one that was enqueued later. */
  readonly outOfOrder: number;
  /** The other recipients: from the enqueuing to the arrival. */
  readonly othersMedianMs: number;
  readonly othersWorstMs: number;
  readonly duplicates: number;
  /** Enqueued, and never arrived. */
  readonly lost: number;
}

export function figuresOf(
  { arrivals, enqueuedAt, passes }: Omit<Run, 'alternative'>,
  { busy, others }: Burst,
): Figures {
  const verdict = judge(arrivals, POLICY);
  const { maxInWindow: mostInGap } = judge(arrivals, { rules: [{ max: 1, perMs: POLICY.minGapMs }], minGapMs: 0 });
  const arrived = new Set(arrivals.map(({ notificationId }) => notificationId));
  const all = [...busy, ...others];
  const otherIds = new Set(others.map(({ id }) => id));
  const delays = arrivals.filter(({ notificationId }) => otherIds.has(notificationId)).map(({ at }) => at - enqueuedAt);
  const sorted = delays.toSorted((a, b) => a - b);
  return {
    mostInGap,
    mostInWindow: verdict.maxInWindow,
    gapViolations: verdict.gapViolations,
    windowViolations: verdict.windowViolations,
    passesPerJob: passes / all.length,
    busyMs: verdict.makespanMs,
    busyOverIdeal: verdict.makespanRatio,
    outOfOrder: outOfOrder({ arrivals, busy }),
    othersMedianMs: sorted[Math.floor(sorted.length / 2)] ?? NaN,
    othersWorstMs: sorted.at(-1) ?? NaN,
    duplicates: verdict.duplicates,
    lost: all.filter(({ id }) => !arrived.has(id)).length,
  };
}

function outOfOrder({ arrivals, busy }: Pick<Run, 'arrivals'> & Pick<Burst, 'busy'>): number {
  const placeOf = new Map(busy.map(({ id }, place) => [id, place]));
  const places = arrivals
    .toSorted((a, b) => a.at - b.at)
    .flatMap(({ notificationId }) => placeOf.get(notificationId) ?? []);
  let latest = -1;
  return places.filter((place) => {
    const isLate = place < latest;
    latest = Math.max(latest, place);
    return isLate;
  }).length;
}

/** Two tables: what the busy recipient gets, and what it costs. */
function tablesOf(figures: readonly (readonly [Alternative, Figures])[]): Table[] {
  const limits: Table = [
    ['', 'most in 200 ms', 'most in 3 s', 'gap broken', 'window broken', 'out of order', 'busy one, x ideal'],
    ...figures.map(([alternative, each]) => [
      NAMES[alternative],
      ...[each.mostInGap, each.mostInWindow, each.gapViolations, each.windowViolations, each.outOfOrder].map(String),
      each.busyOverIdeal.toFixed(2),
    ]),
  ];
  const costs: Table = [
    ['', 'others wait, median', 'others wait, worst', 'passes/job', 'duplicates', 'lost'],
    ...figures.map(([alternative, each]) => [
      NAMES[alternative],
      secondsOf(each.othersMedianMs),
      secondsOf(each.othersWorstMs),
      each.passesPerJob.toFixed(2),
      String(each.duplicates),
      String(each.lost),
    ]),
  ];
  return [limits, costs];
}

function jsonOf(figures: Figures | undefined): Record<string, number> | null {
  return figures === undefined ? null : rounded(figures, 3); // a quick run has no rivals
}

function secondsOf(ms: number): string {
  return `${(ms / 1_000).toFixed(2)} s`;
}
