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

/**
 * The last line of a CI run: `N passed, N failed`.
 *
 *   node summary.ts REPORT TEST-EXIT-CODE CHECK-EXIT-CODE
 *
 * These count as one failure each although they are no tests: a file that could not be loaded, a run that ended with an error
 * although every test passed, a run without a single passed test, and a failed `npm run check`.
 */
function summarize(
  report: Report | undefined,
  testCode: number,
  checkCode: number,
): { passed: number; failed: number } {
  const passed = report?.numPassedTests ?? 0;
  const brokenFiles = report?.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  );
  let failed = (report?.numFailedTests ?? 0) + (brokenFiles?.length ?? 0);
  if (failed === 0 && (testCode !== 0 || passed === 0)) failed = 1;
  return { passed, failed: failed + (checkCode === 0 ? 0 : 1) };
}

function readReport(file: string): Report | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Report;
  } catch {
    return undefined; // the run ended before it wrote one; its exit code shows that
  }
}

const [file = '', testCode = '1', checkCode = '1'] = process.argv.slice(2);
const { passed, failed } = summarize(readReport(file), Number(testCode), Number(checkCode));
process.stdout.write(`${passed} passed, ${failed} failed\n`);
if (failed > 0) process.exitCode = 1;
