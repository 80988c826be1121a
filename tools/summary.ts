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
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly failures: readonly string[];
}

/**
 * What failed without being a test counts as one failure each: a file that could not be loaded, a suite that ended with an
 * error though every test passed, a suite without a single passed test.
 */
function countSuite(report: Report | undefined, testCode: number): Counts {
  const passed = report?.numPassedTests ?? 0;
  const failures = failuresOf(report);
  const endedBadly = testCode !== 0 || passed === 0;
  return { passed, failed: failures.length === 0 && endedBadly ? 1 : failures.length, failures };
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
 * The end of a CI run: what failed, once more, since the start of so long an output is often cut off, and as the last line
 * `N passed, N failed`, over all of its suites and the gate, which counts as one failure.
 *
 *   node summary.ts CHECK-EXIT-CODE REPORT TEST-EXIT-CODE [REPORT TEST-EXIT-CODE]...
 */
function summarize([checkCode = '1', ...suites]: readonly string[]): Counts {
  const failures: string[] = [];
  let passed = 0;
  let failed = checkCode === '0' ? 0 : 1;
  if (suites.length === 0) failed += 1; // nothing was tested
  for (let index = 0; index < suites.length; index += 2) {
    const suite = countSuite(readReport(suites[index] ?? ''), Number(suites[index + 1] ?? '1'));
    passed += suite.passed;
    failed += suite.failed;
    failures.push(...suite.failures);
  }
  return { passed, failed, failures };
}

const { passed, failed, failures } = summarize(process.argv.slice(2));
for (const failure of failures) process.stdout.write(`${failure}\n`);
process.stdout.write(`${passed} passed, ${failed} failed\n`);
if (failed > 0) process.exitCode = 1;
