import { CommandError, createCommand, printJson, runCommand, UsageError, helpItem } from '../src/terminal/command.ts';
import { checkOutputFile } from '../demo/demo.ts';
import { alternativesSuite } from './alternatives/suite.ts';
import { apiSuite } from './api/suite.ts';
import { example, parsePlan } from './capacity/example.ts';
import { capacitySuite } from './capacity/suite.ts';
import { limiterSuite } from './limiter/suite.ts';
import { pacingSuite } from './pacing/suite.ts';
import { readmeSuite } from './readme/suite.ts';
import { replicasSuite } from './replicas/suite.ts';
import type { Report, Suite, SuiteOptions } from './suite.ts';
import { throughputSuite } from './throughput/suite.ts';

const SUITES: readonly Suite[] = [
  limiterSuite,
  throughputSuite,
  capacitySuite,
  alternativesSuite,
  pacingSuite,
  apiSuite,
  replicasSuite,
  readmeSuite,
];
const DEFAULT_RUNS = 20;
/** `throughput: plain, observed, replicas; capacity: …` */
const ROWS = SUITES.flatMap(({ name, rows }) => (rows === undefined ? [] : [`${name}: ${rows.join(', ')}`])).join('; ');

interface Flags {
  readonly json?: boolean;
  readonly markdown?: boolean;
  readonly quick?: boolean;
  readonly runs?: number;
  readonly seconds: number;
  readonly profile?: string;
  readonly budget?: boolean;
  readonly svg?: string;
  readonly row?: string;
  readonly model?: true | readonly string[];
}

const HELP = `
Suites:
${SUITES.map(({ name, description }) => helpItem(name, description, 12)).join('\n')}

Each suite starts a Redis of its own. docs/benchmarks.md explains the numbers.`;

/** `npm run bench`: measures, and compares with other libraries. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('bench', 'Measures, and compares with other libraries.')
    .argument('[suite]', 'what to measure (default: every suite but readme)')
    .option('--json', 'one JSON object as the last line')
    .option('--markdown', 'the tables as Markdown')
    .option('--quick', 'a check that the bench works: no rivals, little data')
    .option(
      '--runs <n>',
      `pairs that a ratio is the median of (default: ${runsText()})`,
      number('--runs', 2, 1_000, true),
    )
    .option('--seconds <s>', 'limiter: length of a slice', number('--seconds', 0.02, 60, false), 0.2)
    .option('--profile <dir>', 'throughput: profiles of the worker into <dir>, and no comparison')
    .option('--budget', 'throughput: processor time and memory of a job by part, of the plain worker and ours')
    .option('--svg <file>', 'alternatives: a picture of the burst into <file>, and one for dark pages beside it')
    .option('--row <row>', `only this row of the measurements; ${ROWS}`)
    .option('--model [name=value...]', 'capacity: what a plan needs, without measuring; alone, it shows the names')
    .addHelpText('after', HELP)
    .action((name: string | undefined, flags: Flags) => bench(name, flags));
  await runCommand(command, argv);
}

async function bench(
  name: string | undefined,
  { json, markdown, profile, budget, svg, row, ...flags }: Flags,
): Promise<void> {
  const suites = SUITES.filter((suite) => (name === undefined ? suite.isOfOthers !== true : suite.name === name));
  if (suites.length === 0) {
    const names = SUITES.map((suite) => suite.name).join(', ');
    throw new UsageError(`suite: expected one of ${names}, found ${JSON.stringify(name)}`);
  }
  if (svg !== undefined) await checkPicture(svg, name, suites);
  if (row !== undefined) checkRow(row, suites);
  if (flags.model !== undefined) {
    if (name !== capacitySuite.name)
      throw new UsageError(`--model: expected the suite capacity, found ${name ?? 'every suite'}`);
    const { json: result, text, markdown: page } = example(parsePlan(flags.model === true ? [] : flags.model));
    process.stdout.write(`${markdown === true ? page : text}\n`);
    if (json === true) printJson(result);
    return;
  }
  const quick = flags.quick === true;
  const reports: [string, Report][] = [];
  for (const suite of suites) {
    const say = (line: string): boolean => process.stderr.write(`${suite.name}: ${line}\n`);
    const runs = flags.runs ?? suite.defaultRuns?.(quick) ?? DEFAULT_RUNS;
    const options = { runs, sliceMs: flags.seconds * 1_000, quick, svg, row, say };
    const report = await inPlaceOf(suite, { profile, budget }, options);
    process.stdout.write(`${markdown === true ? report.markdown : report.text}\n`);
    reports.push([suite.name, report]);
  }
  if (json === true) {
    const results = Object.fromEntries(reports.map(([suite, report]) => [suite, report.json]));
    printJson(name === undefined ? results : results[name]);
  }
  const failures = reports.flatMap(([suite, { failure }]) => (failure === undefined ? [] : `${suite}: ${failure}`));
  if (failures.length > 0) throw new CommandError(failures.join('\n'));
}

/** What is measured in place of the comparison, if a flag asks for that. */
function inPlaceOf(
  suite: Suite,
  { profile, budget }: { readonly profile: string | undefined; readonly budget: boolean | undefined },
  options: SuiteOptions,
): Promise<Report> {
  if (profile !== undefined) {
    if (suite.profile === undefined) throw otherSuite('profile', suite);
    return suite.profile(profile, options);
  }
  if (budget !== true) return suite.run(options);
  if (suite.budget === undefined) throw otherSuite('budget', suite);
  return suite.budget(options);
}

function otherSuite(flag: 'profile' | 'budget', { name }: Suite): UsageError {
  const names = SUITES.filter((each) => each[flag] !== undefined).map((each) => each.name);
  return new UsageError(`--${flag}: expected the suite ${names.join(' or ')}, found ${name}`);
}

function checkRow(row: string, suites: readonly Suite[]): void {
  const [suite] = suites;
  const rows = suites.length === 1 ? (suite?.rows ?? []) : [];
  if (rows.includes(row)) return;
  const withRows = SUITES.filter((each) => each.rows).map(({ name }) => name);
  const expected = rows.length === 0 ? `a suite with rows: ${withRows.join(', ')}` : `one of ${rows.join(', ')}`;
  throw new UsageError(`--row: expected ${expected}, found ${JSON.stringify(row)}`);
}

async function checkPicture(svg: string, name: string | undefined, suites: readonly Suite[]): Promise<void> {
  if (name === undefined || !suites.every(({ draws }) => draws)) {
    const names = SUITES.filter(({ draws }) => draws).map((each) => each.name);
    throw new UsageError(`--svg: expected the suite ${names.join(' or ')}, found ${name ?? 'every suite'}`);
  }
  if (!svg.endsWith('.svg')) {
    throw new UsageError(`--svg: expected a name that ends with .svg, found ${JSON.stringify(svg)}`);
  }
  await checkOutputFile('--svg', svg);
}

/** `20; throughput: 5` */
function runsText(): string {
  const own = SUITES.flatMap(({ name, defaultRuns }) => (defaultRuns ? [`${name}: ${defaultRuns(false)}`] : []));
  return [DEFAULT_RUNS, ...own].join('; ');
}

function number(flag: string, least: number, most: number, isWhole: boolean): (text: string) => number {
  return (text) => {
    const value = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : NaN;
    if (value >= least && value <= most && (!isWhole || Number.isInteger(value))) return value;
    const kind = isWhole ? 'an integer' : 'a number';
    throw new UsageError(`${flag}: expected ${kind} from ${least} to ${most}, found ${JSON.stringify(text)}`);
  };
}

if (import.meta.main) await main(process.argv.slice(2));
