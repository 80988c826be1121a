import { expect, it } from 'vitest';
import { startProcess } from '../support/process.ts';

it('the demo keeps every promise, as counted at the providers', async () => {
  const { code, stdout, stderr } = await startProcess({ args: ['scripts/demo.ts', '--json'] }).waitForExit(120_000);
  expect(stdout, stderr).toContain('"notifications"');
  const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number>;
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
  expect(result['requeuesPerBlocked']).toBeLessThanOrEqual(1.1);
  expect(result['makespanRatio']).toBeLessThanOrEqual(1.05);
  expect(code).toBe(0);
}, 150_000);
