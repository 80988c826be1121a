import { expect, it } from 'vitest';
import { startProcess } from '../../support/process.ts';

it('nothing is lost, doubled without a reason or burst upon anybody, whatever fails', async () => {
  const args = ['chaos/chaos.ts', '--seconds', '20', '--seed', '1', '--json'];
  const { code, stdout, stderr } = await startProcess({ args }).waitForExit(240_000);
  expect(stdout, stderr).toContain('"notifications"');
  const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number>;
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
}, 300_000);
