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
const FAILED: Suite = { text: report(6, 2, passedFile, failedFile), code: 1 };

test.each<[name: string, suites: Suite[], checkCode: number, line: string]>([
  ['all is well', [WELL], 0, '7 passed, 0 failed'],
  ['all is well in both suites', [WELL, { ...WELL, text: report(5, 0, passedFile) }], 0, '12 passed, 0 failed'],
  ['tests failed', [FAILED], 0, '6 passed, 2 failed'],
  ['tests failed in the second suite', [WELL, FAILED], 0, '13 passed, 2 failed'],
  ['tests failed in the first suite', [FAILED, WELL], 0, '13 passed, 2 failed'],
  ['a file did not load', [{ text: report(7, 0, passedFile, brokenFile), code: 1 }], 0, '7 passed, 1 failed'],
  ['every test passed but the run failed', [{ ...WELL, code: 1 }], 0, '7 passed, 1 failed'],
  ['the gate failed', [WELL, WELL], 1, '14 passed, 1 failed'],
  ['no test ran', [{ text: report(0, 0), code: 0 }], 0, '0 passed, 1 failed'],
  ['one suite ran no test', [WELL, { text: report(0, 0), code: 0 }], 0, '7 passed, 1 failed'],
  ['one suite left no report', [WELL, { text: '', code: 1 }], 0, '7 passed, 1 failed'],
  ['no suite ran', [], 0, '0 passed, 1 failed'],
])('the last line of CI when %s', async (_, suites, checkCode, line) => {
  const { code, stdout } = await lastLine(checkCode, suites);
  expect(stdout).toBe(`${line}\n`);
  expect(code).toBe(line.endsWith(' 0 failed') ? 0 : 1);
});
