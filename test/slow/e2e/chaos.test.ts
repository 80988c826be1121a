import { expect, it } from 'vitest';
import { measured, type Measurement } from '../../support/measured.ts';
import { startProcess } from '../../support/process.ts';

interface Run extends Measurement {
  readonly result: Record<string, number>;
  readonly code: number | null;
  readonly stderr: string;
}

async function runChaos(): Promise<Run> {
  const args = ['scripts/chaos.ts', '--seconds', '20', '--seed', '1', '--json'];
  const { code, stdout, stderr } = await startProcess({ args }).waitForExit(180_000);
  expect(stdout, stderr).toContain('"notifications"');
  const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number>;
  const { gapViolations = 0, windowViolations = 0, longestStallMs = 0 } = result;
  return { result, code, stderr, stalls: [longestStallMs], isClean: gapViolations + windowViolations === 0 };
}

it('nothing is lost, doubled without a reason or burst upon anybody, whatever fails', async () => {
  const { result, code, stderr } = await measured(runChaos);
  expect(result, stderr).toMatchObject({
    notifications: 6_667,
    lost: 0,
    unaccounted: 0,
    stillQueued: 0,
    gapViolations: 0,
    windowViolations: 0,
    unknownRequests: 0,
    breakersByOneDevice: 0,
    unexplainedDuplicates: 0,
    changedIds: 0,
    secretsLeaked: 0,
    processesLeft: 0,
    crashes: 0,
  });
  expect(code, stderr).toBe(0);
}, 600_000);
