import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createProgress } from '../../src/terminal/progress.ts';
import { longestMs, startProviders } from '../../demo/providers-process.ts';
import { alertsByRecipient, idealMakespan } from '../../sandbox/judge.ts';
import { installRivals } from '../install.ts';
import { asMarkdown, asText } from '../limiter/table.ts';
import type { Report, Suite, SuiteOptions } from '../suite.ts';
import { withSurroundings } from '../throughput/measure.ts';
import { ALTERNATIVES, NAMES } from './alternative.ts';
import { makeBurst, POLICY, type Burst } from './burst.ts';
import { figuresOf } from './figures.ts';
import { COLOURS, renderPicture } from './picture.ts';
import { jsonOf, tablesOf, type Results } from './results.ts';
import { runAlternative, type Run } from './run.ts';

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
    return reportOf({
      quick,
      seconds: (performance.now() - start) / 1_000,
      versions,
      burst,
      idealMs: idealMakespan(burst.busy.length, POLICY),
      longestStallMs: longestMs(providers.stalls),
      figures: runs.map((each) => [each.alternative, figuresOf(each, burst)]),
    });
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

function reportOf(results: Results): Report {
  const { quick, seconds, versions, burst, idealMs } = results;
  const list = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const what = `${burst.busy.length} alerts to one recipient (ideal ${idealMs / 1_000} s) and one each to ${burst.others.length} others`;
  const foot = `${quick ? 'A quick check, no measurement. ' : ''}${what}; ${list.join(', ')}; ${seconds.toFixed(0)} s.`;
  const tables = tablesOf(results);
  return {
    json: jsonOf(results),
    text: [...tables.map(asText), foot].join('\n\n'),
    markdown: [...tables.map(asMarkdown), foot].join('\n\n'),
  };
}
