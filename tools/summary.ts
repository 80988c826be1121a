import { readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/** A difference of two long values is cut here: the whole of it stands in the output of the test run. */
const REASON_LINES = 30;

/** The part of vitest's JSON report that is counted. */
interface Report {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    /** Epoch milliseconds. Absent for a file that could not be loaded. */
    readonly startTime?: number;
    readonly endTime?: number;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      /** Milliseconds. Absent for a test that did not run. */
      readonly duration?: number;
      readonly meta?: { readonly limitMs?: number };
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly failures: readonly string[];
  /** The files, and how long each took. */
  readonly files: readonly Took[];
  /** The tests that passed, but needed more than half of their limit. */
  readonly near: readonly NearLimit[];
}

interface Took {
  readonly file: string;
  readonly ms: number;
}

interface NearLimit extends Took {
  readonly test: string;
  readonly limitMs: number;
}

/**
 * What failed without being a test counts as one failure each: a file that could not be loaded, a suite that ended with an
 * error though every test passed, a suite without a single passed test.
 */
function countSuite(report: Report | undefined, testCode: number): Counts {
  const passed = report?.numPassedTests ?? 0;
  const failures = failuresOf(report);
  const endedBadly = testCode !== 0 || passed === 0;
  const failed = failures.length === 0 && endedBadly ? 1 : failures.length;
  return { passed, failed, failures, files: tookOf(report), near: nearLimitOf(report) };
}

function tookOf(report: Report | undefined): Took[] {
  return (report?.testResults ?? []).map(({ name, startTime = 0, endTime = 0 }) => ({
    file: relative('.', name),
    ms: endTime - startTime,
  }));
}

function nearLimitOf(report: Report | undefined): NearLimit[] {
  return (report?.testResults ?? []).flatMap(({ name, assertionResults }) =>
    assertionResults.flatMap(({ status, fullName, duration: ms = 0, meta: { limitMs = Infinity } = {} }) =>
      status === 'passed' && ms > limitMs / 2 ? [{ file: relative('.', name), test: fullName, ms, limitMs }] : [],
    ),
  );
}

const MOST_SLOW = 10;

/** A file may be in several suites: each time counts alone. */
function slowestText(files: readonly Took[]): string {
  const slowest = files.toSorted((a, b) => b.ms - a.ms).slice(0, MOST_SLOW);
  const lines = slowest.map(({ file, ms }) => `${(ms / 1_000).toFixed(0).padStart(6)} s  ${file}`);
  return ['The slowest files:', ...lines].join('\n');
}

/** A slower machine fails these, though nothing is wrong. */
function nearText(near: readonly NearLimit[]): string {
  const seconds = (ms: number): string => (ms / 1_000).toFixed(0);
  const lines = near
    .toSorted((a, b) => b.ms / b.limitMs - a.ms / a.limitMs)
    .map(({ file, test, ms, limitMs }) => `${seconds(ms).padStart(6)} s of ${seconds(limitMs)} s  ${file} > ${test}`);
  return ['Passed, but needed more than half of the limit:', ...lines].join('\n');
}

/** Each failed test, and each file that failed without one (it could not be loaded, or a hook failed), with the first lines of its reason. */
function failuresOf(report: Report | undefined): string[] {
  return (report?.testResults ?? []).flatMap(({ name, status, message = '', assertionResults }) => {
    const tests = assertionResults.filter((test) => test.status === 'failed');
    if (tests.length > 0) return tests.map((test) => failureText(name, test.fullName, test.failureMessages.join('\n')));
    return status === 'failed' ? [failureText(name, 'the file itself', message)] : [];
  });
}

function failureText(file: string, name: string, reason: string): string {
  const lines = stripVTControlCharacters(reason).split('\n').slice(0, REASON_LINES);
  return [`FAILED ${relative('.', file)} > ${name}`, ...lines.map((line) => `  ${line}`)].join('\n');
}

function readReport(file: string): Report | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Report;
  } catch {
    return undefined; // the run ended before it wrote one; its exit code shows that
  }
}

/**
 * The end of a CI run: which files took longest, and which tests came near to their limits; what failed, once more, since the start of so long an output is often cut off; and as
 * the last line `N passed, N failed`, over all of its suites and the gate, which counts as one failure.
 *
 *   node summary.ts CHECK-EXIT-CODE REPORT TEST-EXIT-CODE [REPORT TEST-EXIT-CODE]...
 */
function summarize([checkCode = '1', ...suites]: readonly string[]): Counts {
  const failures: string[] = [];
  const files: Took[] = [];
  const near: NearLimit[] = [];
  let passed = 0;
  let failed = checkCode === '0' ? 0 : 1;
  if (suites.length === 0) failed += 1; // nothing was tested
  for (let index = 0; index < suites.length; index += 2) {
    const suite = countSuite(readReport(suites[index] ?? ''), Number(suites[index + 1] ?? '1'));
    passed += suite.passed;
    failed += suite.failed;
    failures.push(...suite.failures);
    files.push(...suite.files);
    near.push(...suite.near);
  }
  return { passed, failed, failures, files, near };
}

const { passed, failed, failures, files, near } = summarize(process.argv.slice(2));
if (files.length > 0) process.stdout.write(`${slowestText(files)}\n`);
if (near.length > 0) process.stdout.write(`${nearText(near)}\n`);
for (const failure of failures) process.stdout.write(`${failure}\n`);
process.stdout.write(`${passed} passed, ${failed} failed\n`);
if (failed > 0) process.exitCode = 1;
