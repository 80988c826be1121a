import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';

const passedFile = { status: 'passed', assertionResults: [{ status: 'passed' }] };
const failedFile = { status: 'failed', assertionResults: [{ status: 'failed' }, { status: 'passed' }] };
const brokenFile = { status: 'failed', assertionResults: [] };

const report = (numPassedTests: number, numFailedTests: number, ...testResults: object[]) =>
  JSON.stringify({ numPassedTests, numFailedTests, testResults });

test.each([
  ['all is well', report(7, 0, passedFile), 0, 0, '7 passed, 0 failed'],
  ['tests failed', report(6, 2, passedFile, failedFile), 1, 0, '6 passed, 2 failed'],
  ['a file did not load', report(7, 0, passedFile, brokenFile), 1, 0, '7 passed, 1 failed'],
  ['every test passed but the run failed', report(7, 0, passedFile), 1, 0, '7 passed, 1 failed'],
  ['the gate failed', report(7, 0, passedFile), 0, 1, '7 passed, 1 failed'],
  ['no test ran', report(0, 0), 0, 0, '0 passed, 1 failed'],
  ['there is no report', '', 1, 0, '0 passed, 1 failed'],
])('the last line of CI when %s', async (_, text, testCode, checkCode, line) => {
  const file = join(await temporaryFolder(), 'tests.json');
  await writeFile(file, text);
  const args = ['tools/summary.ts', file, String(testCode), String(checkCode)];
  const { code, stdout } = await startProcess({ args }).waitForExit();
  expect(stdout).toBe(`${line}\n`);
  expect(code).toBe(line.endsWith(' 0 failed') ? 0 : 1);
});
