import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';

const passedTest = { status: 'passed', fullName: 'adds', failureMessages: [] };
const failedTest = {
  status: 'failed',
  fullName: 'sums > subtracts',
  failureMessages: ['Error: 1 is not 2\n    at sum.ts:3'],
};
const passedFile = { name: resolve('test/a.test.ts'), status: 'passed', assertionResults: [passedTest] };
const failedFile = {
  name: resolve('test/b.test.ts'),
  status: 'failed',
  assertionResults: [failedTest, passedTest],
};
const brokenFile = {
  name: resolve('test/c.test.ts'),
  status: 'failed',
  message: 'no such module',
  assertionResults: [],
};

const report = (numPassedTests: number, numFailedTests: number, ...testResults: object[]) =>
  JSON.stringify({ numPassedTests, numFailedTests, testResults });

interface Suite {
  readonly text: string;
  readonly code: number;
}

async function lastLine(checkCode: number, suites: readonly Suite[]): Promise<{ code: number | null; stdout: string }> {
  const folder = await temporaryFolder();
  const args = suites.map(({ code }, index) => [join(folder, `${index}.json`), String(code)] as const);
  await Promise.all(args.map(([file], index) => writeFile(file, suites[index]?.text ?? '')));
  const command = startProcess({ args: ['tools/summary.ts', String(checkCode), ...args.flat()] });
  return command.waitForExit();
}

const WELL: Suite = { text: report(7, 0, passedFile), code: 0 };
const FAILED: Suite = { text: report(6, 1, passedFile, failedFile), code: 1 };

test.each<[name: string, suites: Suite[], checkCode: number, line: string]>([
  ['all is well in both suites', [WELL, { ...WELL, text: report(5, 0, passedFile) }], 0, '12 passed, 0 failed'],
  ['tests failed in the first suite', [FAILED, WELL], 0, '13 passed, 1 failed'],
  ['every test passed but the run failed', [{ ...WELL, code: 1 }], 0, '7 passed, 1 failed'],
  ['the gate failed', [WELL, WELL], 1, '14 passed, 1 failed'],
  ['one suite ran no test', [WELL, { text: report(0, 0), code: 0 }], 0, '7 passed, 1 failed'],
  ['one suite left no report', [WELL, { text: '', code: 1 }], 0, '7 passed, 1 failed'],
  ['no suite ran', [], 0, '0 passed, 1 failed'],
])('the last line of CI when %s', async (_, suites, checkCode, line) => {
  const { code, stdout } = await lastLine(checkCode, suites);
  expect(stdout.split('\n').slice(-2)).toEqual([line, '']);
  expect(code).toBe(line.endsWith(' 0 failed') ? 0 : 1);
});

test('what failed stands before the last line, with its reason', async () => {
  const { stdout } = await lastLine(0, [FAILED, { text: report(7, 0, passedFile, brokenFile), code: 1 }]);
  expect(stdout.split('\n').slice(5)).toEqual([
    ...['FAILED test/b.test.ts > sums > subtracts', '  Error: 1 is not 2', '      at sum.ts:3'],
    ...['FAILED test/c.test.ts > the file itself', '  no such module', '13 passed, 2 failed', ''],
  ]);
});
