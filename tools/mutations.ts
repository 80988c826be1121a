import { execFileSync, spawn } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { z } from 'zod';
import { InputError, type Fault } from '../src/domain/faults.ts';
import { CommandError, createCommand, runCommand, UsageError } from '../src/terminal/command.ts';

const ROOT = join(import.meta.dirname, '..');
const LIST = 'tools/mutations/*.json';
/** What tests need beside the files that git knows; linked into each copy. */
const PACKAGES = ['node_modules', 'tools/node_modules', 'test/slow/node_modules', 'bench/node_modules'];
/** A run that takes longer is ended: the mutation is not caught. No test of the list takes as long by far. */
const MOST_MS = 300_000;
/** A test that fails for one of these did not judge the rule: the mutated file could not be loaded. */
const BROKEN = /Error compiling script|nonexistent global variable|SyntaxError|is not defined/;

const mutationsSchema = z.array(
  z.strictObject({
    /** The file of the product. */
    file: z.string(),
    /** A text that is in the file exactly once. */
    find: z.string().min(1),
    /** What is written in its place. */
    replace: z.string(),
    /** What a person notices of the fault. */
    breaks: z.string(),
    /** The test file that fails then. */
    test: z.string(),
    /** Only the tests of that file whose names match (vitest's `-t`), so that the run is quick. */
    name: z.string().optional(),
  }),
);

type Entry = z.output<typeof mutationsSchema>[number];

interface Mutation extends Entry {
  /** Line of the file in which the mutated text begins. */
  readonly line: number;
}

/** The part of vitest's JSON report that is judged. */
interface Report {
  readonly testResults: readonly {
    readonly message?: string;
    readonly assertionResults: readonly { readonly status: string; readonly failureMessages: readonly string[] }[];
  }[];
}

/** The mutations of files with `only` in their path. Throws InputError with every entry of the list that is out of date. */
function readList(only: string): Mutation[] {
  const faults: Fault[] = [];
  const mutations: Mutation[] = [];
  for (const list of globSync(LIST, { cwd: ROOT }).sort()) {
    const entries = mutationsSchema.parse(JSON.parse(textOf(list)));
    for (const [index, entry] of entries.entries()) {
      const { file, find, replace, test } = entry;
      const fault = (field: string, expected: string, found: string): void =>
        void faults.push({ path: `${list}[${index}].${field}`, expected, found });
      const text = textOf(file);
      const times = text.split(find).length - 1;
      if (times !== 1) fault('find', `${JSON.stringify(find)} once in ${file}`, `it ${times} times`);
      if (find === replace) fault('replace', 'another text than find', 'the same');
      if (textOf(test) === '') fault('test', 'a test file', `no ${test}`);
      const line = text.slice(0, text.indexOf(find)).split('\n').length;
      if (file.includes(only)) mutations.push({ ...entry, line });
    }
  }
  if (faults.length > 0) throw new InputError('the list of mutations does not fit the product any more', faults);
  return mutations;
}

function textOf(file: string): string {
  return existsSync(join(ROOT, file)) ? readFileSync(join(ROOT, file), 'utf8') : '';
}

/** A copy of the tree as it is now, with what is not committed. */
function copyTree(): string {
  const copy = mkdtempSync(join(tmpdir(), 'pushpacer-mutations-'));
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { cwd: ROOT });
  for (const file of files.toString().split('\0')) {
    if (file === '' || !existsSync(join(ROOT, file))) continue;
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    copyFileSync(join(ROOT, file), join(copy, file));
  }
  for (const packages of PACKAGES) {
    if (existsSync(join(ROOT, packages))) symlinkSync(join(ROOT, packages), join(copy, packages));
  }
  return copy;
}

/** Undefined if the mutation is caught: at least one test failed, and not because the file could not be loaded. Else what happened. */
async function missed({ file, find, replace, test, name }: Mutation, copy: string): Promise<string | undefined> {
  const [path, report] = [join(copy, file), join(copy, 'mutation-report.json')];
  const before = readFileSync(path, 'utf8');
  rmSync(report, { force: true });
  writeFileSync(
    path,
    before.replace(find, () => replace),
  );
  try {
    const how = ['--bail', '1', '--reporter', 'json', '--outputFile', report];
    const which = [test, ...(name === undefined ? [] : ['-t', name])];
    const ended = await runVitest(['run', ...how, ...which], copy);
    return ended ?? judge(report);
  } finally {
    writeFileSync(path, before);
  }
}

/** Runs vitest. Undefined if it ended by itself. */
async function runVitest(args: readonly string[], cwd: string): Promise<string | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
  const vitest = spawn(process.execPath, [join(cwd, 'node_modules/vitest/vitest.mjs'), ...args], {
    cwd,
    stdio: 'ignore',
  });
  const stop = (): void => void vitest.kill();
  const timer = setTimeout(stop, MOST_MS);
  process.once('exit', stop);
  vitest.once('error', reject);
  vitest.once('exit', (code) => {
    resolve(code === null ? 'the test did not end' : undefined);
  });
  return promise.finally(() => {
    clearTimeout(timer);
    process.off('exit', stop);
  });
}

function judge(file: string): string | undefined {
  if (!existsSync(file)) return 'vitest did not start';
  const { testResults } = JSON.parse(readFileSync(file, 'utf8')) as Report;
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
  const failed = tests
    .filter(({ status }) => status === 'failed')
    .map(({ failureMessages }) => failureMessages.join('\n'));
  if (failed.some((message) => !BROKEN.test(message))) return undefined;
  if (failed[0] !== undefined) return `the mutated file could not be loaded: ${firstLine(failed[0])}`;
  const passed = tests.filter(({ status }) => status === 'passed').length;
  if (passed > 0) return `all ${passed} tests passed`;
  const [message] = testResults.flatMap((each) => each.message ?? []);
  return `no test ran${message === undefined || message === '' ? '' : `: ${firstLine(message)}`}`;
}

function firstLine(text: string): string {
  return stripVTControlCharacters(text).split('\n', 1)[0] ?? '';
}

/** Runs all of them, `atOnce` at a time, each in a copy of the tree of its own. Answers those that were not caught. */
async function runAll(mutations: readonly Mutation[], atOnce: number): Promise<Mutation[]> {
  const left = [...mutations];
  const notCaught: Mutation[] = [];
  let ended = 0;
  const work = async (): Promise<void> => {
    const copy = copyTree();
    const remove = () => {
      rmSync(copy, { recursive: true, force: true });
    };
    process.once('exit', remove); // also after Ctrl-C
    for (let mutation = left.shift(); mutation !== undefined; mutation = left.shift()) {
      const start = performance.now();
      const why = await missed(mutation, copy);
      const seconds = ((performance.now() - start) / 1_000).toFixed(1);
      ended += 1;
      if (why !== undefined) notCaught.push(mutation);
      const what = why === undefined ? 'caught    ' : 'NOT CAUGHT';
      const by = `by ${mutation.test}, ${seconds} s${why === undefined ? '' : `: ${why}`}`;
      process.stdout.write(`${what} ${ended}/${mutations.length} ${placeOf(mutation)} ${by}\n`);
    }
    remove();
  };
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  await Promise.all(Array.from({ length: Math.min(atOnce, mutations.length) }, work));
  return notCaught;
}

function placeOf({ file, line }: Mutation): string {
  return `${file}:${line}`;
}

interface Options {
  readonly only: string;
  readonly check: boolean;
  readonly atOnce: string;
}

async function main({ only, check, atOnce }: Options): Promise<void> {
  const count = Number(atOnce);
  if (!Number.isInteger(count) || count < 1)
    throw new UsageError(`--at-once: expected an integer of 1 or more, got ${atOnce}`);
  const mutations = readList(only);
  if (mutations.length === 0) throw new CommandError(`no mutation of a file with ${only} in its path`);
  if (check) {
    process.stdout.write(`${mutations.length} mutations fit the product\n`);
    return;
  }
  const notCaught = await runAll(mutations, count);
  process.stdout.write(`caught ${mutations.length - notCaught.length} of ${mutations.length}\n`);
  for (const mutation of notCaught) process.stdout.write(`not caught: ${placeOf(mutation)}: ${mutation.breaks}\n`);
  if (notCaught.length > 0) process.exitCode = 1;
}

const HELP = `
A mutation puts one fault into a copy of the tree, in a temporary folder. Then it runs the one test file
that the list names for it. The mutation is caught if a test of that file fails.

Each entry of ${LIST} has: file, find (a text that is in the file exactly once), replace,
breaks (what a person notices), test, and name, if not the whole test file is to run (vitest's -t).
Exit code 1: a mutation was not caught, or an entry does not fit the product any more.`;

await runCommand(
  createCommand(
    'mutations',
    'Puts one fault after another into the product, and looks whether the tests see each of them.',
  )
    .option('--only <text>', 'only mutations of files with this text in their path', '')
    .option('--check', 'run nothing; only look whether each text to find is in its file exactly once', false)
    .option('--at-once <count>', 'how many to run at the same time', '2')
    .addHelpText('after', HELP)
    .action(main),
);
