import { createProgress, type Progress } from '../../src/terminal/progress.ts';
import { asMarkdown, asText } from '../limiter/table.ts';
import type { Report, Suite, SuiteOptions } from '../suite.ts';
import { measure } from './measure.ts';
import { profile } from './profile.ts';
import { jsonOf, type Results } from './results.ts';
import type { Load } from './run.ts';
import { tableOf } from './table.ts';

export const throughputSuite: Suite = {
  name: 'throughput',
  description: 'jobs a second of one worker process, beside a plain BullMQ worker that sends the same requests',
  defaultRuns: (quick) => (quick ? 2 : 5),
  run,
  profile: (dir, { quick, say }) => profile(dir, loadOf(quick), say),
};

/**
 * A run takes a few seconds; with answers that take 40 ms, 100 jobs at once are 2,000 a second at most. The warm-up is long enough
 * for V8 to compile the code of a job, which takes some 4,000 jobs.
 */
function loadOf(quick: boolean): Load {
  return { jobs: quick ? 4_000 : 8_000, warmUp: 4_000, counted: quick ? 1_000 : 2_000 };
}

async function run({ runs, quick, say }: SuiteOptions): Promise<Report> {
  // One bar a case: the line that announces a case comes between two of them.
  let bar: Progress | undefined;
  const onRun = (done: number, of: number): void => {
    bar ??= createProgress('runs', of);
    bar.update(done);
    if (done === of) endBar();
  };
  const endBar = (): void => {
    bar?.stop();
    bar = undefined;
  };
  try {
    return reportOf(await measure({ ...loadOf(quick), pairs: runs, say, onRun }), quick);
  } finally {
    endBar();
  }
}

function reportOf(results: Results, quick: boolean): Report {
  const { pairs, jobs, seconds, versions } = results;
  const list = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const kind = quick ? 'A quick check, no measurement. ' : '';
  const foot = `${kind}${pairs} pairs of ${jobs} jobs; ${list.join(', ')}; ${seconds.toFixed(0)} s.`;
  const table = tableOf(results);
  return {
    json: jsonOf(results, quick),
    text: `${asText(table)}\n\n${foot}`,
    markdown: `${asMarkdown(table)}\n\n${foot}`,
  };
}
