import { expect, it } from 'vitest';
import { measured, type Measurement } from '../../support/measured.ts';
import { startProcess } from '../../support/process.ts';

interface Demo extends Measurement {
  readonly result: Record<string, number>;
  readonly code: number | null;
}

const REQUEUES_PER_BLOCKED = 1.05;
const MAKESPAN_RATIO = 1.03;

async function runDemo(): Promise<Demo> {
  const { code, stdout, stderr } = await startProcess({ args: ['scripts/demo.ts', '--json'] }).waitForExit(120_000);
  expect(stdout, stderr).toContain('"notifications"');
  const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number>;
  const { gapViolations = 0, windowViolations = 0, longestStallMs = 0 } = result;
  const { requeuesPerBlocked = Infinity, makespanRatio = Infinity } = result;
  const isInTime = requeuesPerBlocked <= REQUEUES_PER_BLOCKED && makespanRatio <= MAKESPAN_RATIO;
  return { result, code, stalls: [longestStallMs], isClean: gapViolations + windowViolations === 0 && isInTime };
}

it('the demo keeps every promise, as counted at the providers', async () => {
  const { result, code } = await measured(runDemo);
  expect(result).toMatchObject({
    notifications: 420,
    delivered: 407,
    deadLettered: 10,
    expired: 3,
    lost: 0,
    duplicates: 0,
    gapViolations: 0,
    windowViolations: 0,
    workers: 4,
    replayed: 1,
  });
  expect(result['requeuesPerBlocked']).toBeLessThanOrEqual(REQUEUES_PER_BLOCKED);
  expect(result['makespanRatio']).toBeLessThanOrEqual(MAKESPAN_RATIO);
  expect(code).toBe(0);
}, 300_000);
