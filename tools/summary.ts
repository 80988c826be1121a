import { readFileSync } from 'node:fs';

/** The part of vitest's JSON report that is counted. */
interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    readonly status: string;
    readonly assertionResults: readonly { status: string }[];
  }[];
}

interface Counts {
  readonly passed: number;
  readonly failed: number;
}

/**
 * What failed without being a test counts as one failure each: a file that could not be loaded, a suite that ended with an
 * error though every test passed, a suite without a single passed test.
 */
function countSuite(report: Report | undefined, testCode: number): Counts {
  const passed = report?.numPassedTests ?? 0;
  const brokenFiles = report?.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  );
  const failed = (report?.numFailedTests ?? 0) + (brokenFiles?.length ?? 0);
  return { passed, failed: failed === 0 && (testCode !== 0 || passed === 0) ? 1 : failed };
}

function readReport(file: string): Report | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Report;
  } catch {
    return undefined; // the run ended before it wrote one; its exit code shows that
  }
}

/**
 * The last line of a CI run: `N passed, N failed`, over all of its suites and the gate, which counts as one failure.
 *
 *   node summary.ts CHECK-EXIT-CODE REPORT TEST-EXIT-CODE [REPORT TEST-EXIT-CODE]...
 */
function summarize([checkCode = '1', ...suites]: readonly string[]): Counts {
  let passed = 0;
  let failed = checkCode === '0' ? 0 : 1;
  if (suites.length === 0) failed += 1; // nothing was tested
  for (let index = 0; index < suites.length; index += 2) {
    const suite = countSuite(readReport(suites[index] ?? ''), Number(suites[index + 1] ?? '1'));
    passed += suite.passed;
    failed += suite.failed;
  }
  return { passed, failed };
}

const { passed, failed } = summarize(process.argv.slice(2));
process.stdout.write(`${passed} passed, ${failed} failed\n`);
if (failed > 0) process.exitCode = 1;
