import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { asMarkdown, asText, type Table } from '../limiter/table.ts';
import { round } from '../limiter/results.ts';
import type { Report } from '../suite.ts';
import { CASES } from './case.ts';
import { withSurroundings } from './measure.ts';
import { startCounters } from './providers.ts';
import { runOnce, type Load } from './run.ts';
import { commandTable, wholeOf } from './table.ts';

/** One run of pushpacer's worker in each case under node's `--cpu-prof`; the profiles lie in `dir`, one a case. */
export function profile(dir: string, load: Load, say: (line: string) => void): Promise<Report> {
  return withSurroundings(say, async (surroundings) => {
    await mkdir(dir, { recursive: true });
    const tables: Table[] = [];
    const cases: Record<string, unknown>[] = [];
    for (const measured of CASES) {
      const file = `${measured.platform}${measured.suffix}.cpuprofile`;
      const nodeFlags = ['--cpu-prof', `--cpu-prof-dir=${resolve(dir)}`, `--cpu-prof-name=${file}`];
      say(`${measured.name}: ${load.jobs} jobs under the profiler`);
      const counters = await startCounters(measured.latency);
      const run = await runOnce({ case: measured, side: 'pushpacer', counters, ...surroundings, ...load, nodeFlags })
        // Only now, because the profile is written when the worker ends.
        .finally(() => counters.close());
      const { commands, perSecond, commandsPerJob } = run;
      const title = `${measured.name}: ${wholeOf(perSecond)} jobs/s under the profiler`;
      tables.push(commandTable(title, commands, load.jobs));
      cases.push({
        name: measured.name,
        file: join(dir, file),
        perSecond: Math.round(perSecond),
        redisCommandsPerJob: round(commandsPerJob ?? NaN, 2),
        commands: Object.fromEntries(commands),
      });
    }
    const foot = `Profiles in ${dir}, one a case; what scripts call in Redis is counted as well.`;
    return {
      json: { suite: 'throughput', jobs: load.jobs, cases },
      text: [...tables.map(asText), foot].join('\n\n'),
      markdown: [...tables.map(asMarkdown), foot].join('\n\n'),
    };
  });
}
